use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::flux::{Artifact, ExternalArtifact};
use windlass_api::{Repository, conditions};

use crate::world::{World, fetch, listed, put};

fn repositories(world: &World) -> Api<Repository> {
    Api::namespaced(world.client.clone(), "default")
}

async fn create(world: &World, annotations: Value) {
    let object = json!({
        "apiVersion": "provisioning.grafana.app/v0alpha1",
        "kind": "Repository",
        "metadata": {"name": "dash", "namespace": "default", "annotations": annotations},
        "spec": {
            "title": "Dash", "type": "git", "sync": {"enabled": false, "target": "folder", "intervalSeconds": 60},
            "workflows": [], "git": {"url": world.url(), "branch": "main", "path": "deploy"},
        },
    });
    let object = serde_json::from_value(object).unwrap();
    repositories(world).create(&PostParams::default(), &object).await.unwrap();
}

async fn annotate(world: &World, value: Option<&str>) {
    let patch = json!({"metadata": {"annotations": {"windlass.dev/external-artifact": value}}});
    repositories(world).patch("dash", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn when(
    world: &World,
    what: &str,
    name: &str,
    holds: impl Fn(Option<&ExternalArtifact>) -> bool,
) -> Option<ExternalArtifact> {
    let api: Api<ExternalArtifact> = Api::namespaced(world.client.clone(), "default");
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let object = api.get_opt(name).await.unwrap();
        if holds(object.as_ref()) {
            return object;
        }
        assert!(Instant::now() < until, "not in time: {what}: {object:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn of_commit(world: &World, name: &str, commit: &str) -> Artifact {
    let revision = format!("main@sha1:{commit}");
    let found = when(world, "it is published", name, |it| {
        it.is_some_and(|it| {
            conditions::is_true(&it.status.conditions, "Ready")
                && it.status.artifact.as_ref().is_some_and(|artifact| artifact.revision == revision)
        })
    });
    found.await.unwrap().status.artifact.unwrap()
}

#[tokio::test]
async fn a_repository_that_asks_for_it_is_published_for_flux_to_apply() {
    let world = World::new().await;
    let files = [
        put("deploy/a.yaml", "1"),
        put("deploy/secret/b.yaml", "2"),
        put("deploy/.sourceignore", "/secret/\n"),
        put("beside", "3"),
    ];
    let first = world.commit(files);
    let more = [("source.leader_election", "false"), ("source.external_artifacts", "true")];
    let process = world.start_as("one", &more).await;
    create(&world, json!({"windlass.dev/external-artifact": "dash-files"})).await;
    let artifact = of_commit(&world, "dash-files", &first).await;
    let (code, archive) = fetch(&artifact.url).await;
    assert_eq!(code, 200);
    let paths = listed(&archive);
    assert!(paths.iter().any(|path| path.ends_with("a.yaml")), "{paths:?}");
    assert!(!paths.iter().any(|path| path.contains("secret") || path.contains("beside")), "{paths:?}");
    let api: Api<ExternalArtifact> = Api::namespaced(world.client.clone(), "default");
    let object = api.get("dash-files").await.unwrap();
    let source = object.spec.source_ref.unwrap();
    assert_eq!((&*source.kind, &*source.name), ("Repository", "dash"));
    assert_eq!(object.metadata.owner_references.unwrap()[0].name, "dash");

    // What was pulled is published, whoever pulled it.
    let second = world.commit([put("deploy/a.yaml", "2")]);
    let pulled = Patch::Merge(json!({"status": {"sync": {"state": "success", "lastRef": second}}}));
    repositories(&world).patch_status("dash", &PatchParams::default(), &pulled).await.unwrap();
    let newer = of_commit(&world, "dash-files", &second).await;
    assert_ne!(newer.digest, artifact.digest);

    // A replica that lacks it makes it.
    let lease = [
        ("source.external_artifacts", "true"),
        ("operator.leader_election_namespace", "default"),
        ("source.leader_election_name", "nobody-leads"),
    ];
    let standby = world.start_as("two", &lease).await;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let (code, bytes) = fetch(&format!("{}/{}", standby.origin, newer.path)).await;
        if code == 200 {
            assert_eq!(bytes, fetch(&newer.url).await.1);
            break;
        }
        assert!(Instant::now() < until, "the replica answers {code}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    standby.stop().await;

    // Another name, then none.
    annotate(&world, Some("other-files")).await;
    of_commit(&world, "other-files", &second).await;
    when(&world, "the first is gone", "dash-files", |it| it.is_none()).await;
    assert!(!process.data.join("externalartifact/default/dash-files").exists());
    annotate(&world, None).await;
    when(&world, "the second is gone", "other-files", |it| it.is_none()).await;
    annotate(&world, Some("last-files")).await;
    of_commit(&world, "last-files", &second).await;
    repositories(&world).delete("dash", &DeleteParams::default()).await.unwrap();
    when(&world, "it went with its repository", "last-files", |it| it.is_none()).await;
}

#[tokio::test]
async fn an_artifact_that_somebody_else_made_is_left_alone_and_a_failure_is_told() {
    let world = World::new().await;
    let more = [("source.leader_election", "false"), ("source.external_artifacts", "true")];
    let _process = world.start_as("one", &more).await;
    let api: Api<ExternalArtifact> = Api::namespaced(world.client.clone(), "default");
    let foreign: ExternalArtifact = serde_json::from_value(json!({
        "metadata": {"name": "foreign", "namespace": "default"},
        "spec": {"sourceRef": {"kind": "Generator", "name": "x"}},
    }))
    .unwrap();
    let foreign = api.create(&PostParams::default(), &foreign).await.unwrap();
    create(&world, json!({"windlass.dev/external-artifact": "own"})).await;
    // The repository is empty: there is no such branch.
    let failed = |it: Option<&ExternalArtifact>| {
        it.and_then(|it| conditions::find(&it.status.conditions, "Ready"))
            .is_some_and(|it| it.status == "False" && it.reason == "GitOperationFailed")
    };
    when(&world, "it is told", "own", failed).await;
    let commit = world.commit([put("deploy/a", "1")]);
    of_commit(&world, "own", &commit).await;
    annotate(&world, Some("foreign")).await;
    when(&world, "its own is removed", "own", |it| it.is_none()).await;
    assert_eq!(api.get("foreign").await.unwrap(), foreign);
}
