//! The source controller beside a real kustomize-controller, which applies what it serves.

use jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use windlass_api::flux::GitRepository;
use windlass_e2e::eventually;
use windlass_e2e::flux::{FluxScene, GitRemote, NewCommit, SourceController};

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
