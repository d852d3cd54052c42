//! The source controller beside a real kustomize-controller, which applies what it serves.

use jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use windlass_api::Repository;
use windlass_api::flux::GitRepository;
use windlass_e2e::eventually;
use windlass_e2e::flux::{FluxScene, GitRemote, Kind, NewCommit, Source, SourceController};

fn commit(value: &str) -> NewCommit {
    let document =
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: fleet}}\ndata: {{value: {value:?}}}\n");
    NewCommit::new(value, Timestamp::now(), "deploy/fleet.yaml", document)
}

struct Case {
    scene: FluxScene,
    objects: Api<GitRepository>,
}

impl Case {
    /// Asks the source controller to look, as `flux reconcile source git` does.
    async fn request(&self, at: &str) {
        let patch = json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": at}}});
        self.objects.patch("fleet", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until the cluster has what Git has.
    async fn has(&self, value: &str) {
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(self.scene.client.clone(), self.scene.namespace.name());
        let what = format!("the cluster has {value:?}");
        let found = eventually(&what, || async {
            let map = maps.get_opt("fleet").await?;
            let data = map.and_then(|map| map.data).unwrap_or_default();
            Ok((data.get("value").map(String::as_str) == Some(value)).then_some(()))
        });
        found.await.unwrap();
    }
}

#[tokio::test]
async fn an_unmodified_kustomize_controller_applies_what_the_source_controller_serves() {
    let Some(scene) = FluxScene::shared().await.unwrap() else { return };
    let remote = GitRemote::new().await.unwrap();
    let objects = Api::namespaced(scene.client.clone(), scene.namespace.name());
    let case = Case { scene, objects };
    let mut controller = SourceController::new(&case.scene, &remote.origin()).await.unwrap();
    let mut process = controller.start().await.unwrap();

    let first = remote.commit(commit("first")).await.unwrap();
    let source = case.scene.git_repository("fleet", &remote).await.unwrap();
    let spec: Value = json!({"path": "./deploy"});
    let kustomization = case.scene.kustomization("fleet", &source, spec).await.unwrap();
    kustomization.applied(&format!("main@sha1:{first}")).await.unwrap();
    case.has("first").await;

    let second = remote.commit(commit("second")).await.unwrap();
    case.request("1").await;
    kustomization.applied(&format!("main@sha1:{second}")).await.unwrap();
    case.has("second").await;

    // The controller is killed and its storage is gone: the next one makes what it needs.
    process.kill().await.unwrap();
    std::fs::remove_dir_all(controller.storage()).unwrap();
    let third = remote.commit(commit("third")).await.unwrap();
    let mut process = controller.start().await.unwrap();
    case.request("2").await;
    kustomization.applied(&format!("main@sha1:{third}")).await.unwrap();
    case.has("third").await;

    kustomization.delete().await.unwrap();
    case.objects.delete("fleet", &DeleteParams::default()).await.unwrap();
    eventually("the source is gone", || async {
        Ok(case.objects.get_opt("fleet").await?.is_none().then_some(()))
    })
    .await
    .unwrap();
    process.signal("TERM").await.unwrap();
    let code = process.end(std::time::Duration::from_secs(30)).await.unwrap();
    assert_eq!(code, 0, "{}", process.output());
}

#[tokio::test]
async fn fifty_kustomizations_of_ten_sources_follow_a_push_that_one_source_was_asked_to_look_at() {
    let Some(scene) = FluxScene::shared().await.unwrap() else { return };
    let remote = GitRemote::new().await.unwrap();
    let objects: Api<GitRepository> = Api::namespaced(scene.client.clone(), scene.namespace.name());
    let mut controller = SourceController::new(&scene, &remote.origin()).await.unwrap();
    let mut process = controller.start().await.unwrap();
    let first = remote.commit(commit("first")).await.unwrap();
    let (mut sources, mut kustomizations) = (Vec::new(), Vec::new());
    for number in 0..10 {
        let name = if number == 0 { "fleet".to_owned() } else { format!("fleet-{number}") };
        let source = scene.git_repository(&name, &remote).await.unwrap();
        for part in 0..5 {
            let prefix = format!("k{number}-{part}-");
            let spec = json!({"path": "./deploy", "namePrefix": prefix});
            let name = format!("fleet-{number}-{part}");
            kustomizations.push((number, scene.kustomization(&name, &source, spec).await.unwrap()));
        }
        sources.push(name);
    }
    for (_, kustomization) in &kustomizations {
        kustomization.applied(&format!("main@sha1:{first}")).await.unwrap();
    }

    let suspend = Patch::Merge(json!({"spec": {"suspend": true}}));
    objects.patch("fleet-9", &PatchParams::default(), &suspend).await.unwrap();
    let second = remote.commit(commit("second")).await.unwrap();
    let case = Case { scene, objects };
    case.request("1").await;
    for (number, kustomization) in &kustomizations {
        let expected = if *number == 9 { &first } else { &second };
        kustomization.applied(&format!("main@sha1:{expected}")).await.unwrap();
    }

    for (_, kustomization) in &kustomizations {
        kustomization.delete().await.unwrap();
    }
    for name in &sources {
        case.objects.delete(name, &DeleteParams::default()).await.unwrap();
        eventually("the source is gone", || async {
            Ok(case.objects.get_opt(name).await?.is_none().then_some(()))
        })
        .await
        .unwrap();
    }
    process.signal("TERM").await.unwrap();
    assert_eq!(process.end(std::time::Duration::from_secs(30)).await.unwrap(), 0, "{}", process.output());
}

#[tokio::test]
async fn an_unmodified_kustomize_controller_applies_a_repository_that_is_published() {
    let Some(scene) = FluxScene::shared().await.unwrap() else { return };
    let remote = GitRemote::new().await.unwrap();
    let (origin, components) = (remote.origin(), ["external-artifacts"]);
    let mut controller =
        SourceController::with(&scene, &origin, &components, &["--external-artifacts"]).await.unwrap();
    let mut process = controller.start().await.unwrap();
    let first = remote.commit(commit("first")).await.unwrap();
    let repositories: Api<Repository> = Api::namespaced(scene.client.clone(), scene.namespace.name());
    let repository = json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1",
        "kind": "Repository",
        "metadata": {"name": "fleet", "annotations": {"windlass.dev/external-artifact": "fleet"}},
        "spec": {
            "title": "Fleet", "type": "git", "workflows": [], "sync": {"enabled": false, "target": "folder"},
            "git": {"url": remote.url(), "branch": "main", "path": "deploy"},
        },
    });
    let repository = serde_json::from_value(repository).unwrap();
    repositories.create(&PostParams::default(), &repository).await.unwrap();
    let source = Source::of(&scene.client, scene.namespace.name(), Kind::ExternalArtifact, "fleet");
    let kustomization = scene.kustomization("fleet", &source, json!({})).await.unwrap();
    kustomization.applied(&format!("main@sha1:{first}")).await.unwrap();

    let second = remote.commit(commit("second")).await.unwrap();
    let pulled = Patch::Merge(json!({"status": {"sync": {"state": "success", "lastRef": second}}}));
    repositories.patch_status("fleet", &PatchParams::default(), &pulled).await.unwrap();
    kustomization.applied(&format!("main@sha1:{second}")).await.unwrap();

    kustomization.delete().await.unwrap();
    repositories.delete("fleet", &DeleteParams::default()).await.unwrap();
    process.signal("TERM").await.unwrap();
    assert_eq!(process.end(std::time::Duration::from_secs(30)).await.unwrap(), 0, "{}", process.output());
}
