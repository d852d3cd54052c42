//! The source controller beside a real kustomize-controller, which applies what it serves.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
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
    let code = process.end(Duration::from_secs(30)).await.unwrap();
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
    assert_eq!(process.end(Duration::from_secs(30)).await.unwrap(), 0, "{}", process.output());
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
    assert_eq!(process.end(Duration::from_secs(30)).await.unwrap(), 0, "{}", process.output());
}

/// Text that takes a while to compress.
fn large(number: u64) -> String {
    let mut state = number + 1;
    let mut text = String::new();
    while text.len() < 6 << 20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let _ = writeln!(text, "{state:x}");
    }
    text
}

/// The files of a folder that are not hidden, or nothing where there is no folder.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

/// As `kill -9` does it, at each step that can be seen from outside: while it writes, when the content is kept, and when the
/// artifact has its name.
#[tokio::test]
async fn whenever_the_source_controller_is_killed_no_torn_file_has_a_name_that_is_served() {
    let Some(scene) = FluxScene::shared().await.unwrap() else { return };
    let remote = GitRemote::new().await.unwrap();
    let objects: Api<GitRepository> = Api::namespaced(scene.client.clone(), scene.namespace.name());
    let mut controller = SourceController::new(&scene, &remote.origin()).await.unwrap();
    let storage = controller.storage();
    let place = storage.join("gitrepository").join(scene.namespace.name()).join("fleet");
    let new = |number: u64| NewCommit::new("large", Timestamp::now(), "large.txt", large(number));
    remote.commit(new(0)).await.unwrap();
    scene.git_repository("fleet", &remote).await.unwrap();
    let case = Case { scene, objects };
    let mut last = String::new();
    for round in 1..=9 {
        let mut process = controller.start().await.unwrap();
        last = remote.commit(new(round)).await.unwrap();
        let folder = match round % 3 {
            0 => storage.join(".drafts"),
            1 => storage.join(".content"),
            _ => place.clone(),
        };
        let (before, named) = (files(&folder), files(&place));
        case.request(&round.to_string()).await;
        let until = Instant::now() + Duration::from_mins(1);
        // Drafts are there for a moment only: what has its name by then was not seen as one.
        while files(&folder).is_subset(&before) && files(&place).is_subset(&named) {
            assert!(Instant::now() < until, "nothing new in {}: {}", folder.display(), process.output());
            tokio::task::yield_now().await;
        }
        process.kill().await.unwrap();
        for file in files(&place) {
            let name = file.file_name().unwrap().to_str().unwrap();
            if !name.starts_with('.') {
                let digest = hex::encode(Sha256::digest(std::fs::read(&file).unwrap()));
                assert_eq!(name, format!("{digest}.tar.gz"), "round {round}");
            }
        }
    }
    let mut process = controller.start().await.unwrap();
    eventually("the last commit is served", || async {
        let status = case.objects.get("fleet").await?.status;
        let artifact = status.artifact.filter(|artifact| artifact.revision.ends_with(&last));
        let Some(artifact) = artifact else { return Ok(None) };
        let bytes = reqwest::get(&artifact.url).await?.bytes().await?;
        Ok((artifact.digest == format!("sha256:{}", hex::encode(Sha256::digest(&bytes)))).then_some(()))
    })
    .await
    .unwrap();
    case.objects.delete("fleet", &DeleteParams::default()).await.unwrap();
    process.signal("TERM").await.unwrap();
    assert_eq!(process.end(Duration::from_secs(30)).await.unwrap(), 0, "{}", process.output());
}
