//! The stand-in for source-controller is taken for the real one.

use jiff::Timestamp;
use serde_json::json;
use windlass_e2e::flux::{FluxScene, GitRemote, Kind, NewCommit};

/// A `ConfigMap` as a file of the fleet.
fn config_map(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: fleet}}\ndata: {{value: '{value}'}}\n")
}

#[tokio::test]
async fn kustomize_controller_applies_what_each_kind_of_source_publishes() {
    let Some(scene) = FluxScene::shared().await.unwrap() else { return };
    let remote = GitRemote::new().await.unwrap();
    let tip =
        remote.commit(NewCommit::new("begin", Timestamp::now(), "map.yaml", config_map("1"))).await.unwrap();
    for (kind, revision) in [
        (Kind::GitRepository, format!("main@sha1:{tip}")),
        (Kind::OciRepository, format!("latest@sha256:{}", "a".repeat(64))),
        (Kind::Bucket, format!("sha256:{}", "b".repeat(64))),
        (Kind::ExternalArtifact, format!("latest@sha256:{}", "c".repeat(64))),
    ] {
        let name = kind.name().to_lowercase();
        let url =
            if kind == Kind::OciRepository { "oci://127.0.0.1:1/fleet".to_owned() } else { remote.url() };
        let source = scene.source(kind, &name, &url).await.unwrap();
        let applied =
            scene.kustomization(&name, &source, json!({"namePrefix": format!("{name}-")})).await.unwrap();
        let files = remote.archive(&tip).await.unwrap();
        let metadata = [("org.opencontainers.image.revision".to_owned(), format!("main@sha1:{tip}"))];
        let published =
            source.publish_as(&scene.artifacts, &revision, files, &metadata.into()).await.unwrap();
        let seen = applied.applied(&revision).await.unwrap();
        assert!(seen.seen >= published.begun);
        let status = applied.get().await.unwrap()["status"].take();
        assert_eq!(status["history"][0]["metadata"]["revision"], revision, "{status:#}");
        assert_eq!(status["lastAppliedOriginRevision"], format!("main@sha1:{tip}"), "{status:#}");
        let map = scene.get(&["configmap", &format!("{name}-fleet")]).await.unwrap();
        assert_eq!(map["data"]["value"], "1", "{map:#}");
    }
}
