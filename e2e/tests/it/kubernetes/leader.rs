//! Two repository controllers: one works, the other stands by.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_e2e::{Gate, Operator, Remote, Scene, dashboard, eventually};

use super::{expect, pulled, titles};

/// A Lease that is taken over soon, but not because a machine is busy for a moment.
const ELECTION: [(&str, &str); 3] = [
    ("GF_OPERATOR_LEADER_ELECTION_LEASE_DURATION", "15s"),
    ("GF_OPERATOR_LEADER_ELECTION_RENEW_DEADLINE", "10s"),
    ("GF_OPERATOR_LEADER_ELECTION_RETRY_PERIOD", "1s"),
];

/// Waits until a line with this message is in the operator's log.
async fn says(operator: &Operator, message: &str) {
    let said = eventually("the operator says it", || async {
        Ok((!operator.lines(message).is_empty()).then_some(()))
    })
    .await;
    if let Err(error) = said {
        panic!("{message:?}: {error:#}; it said:\n{}", operator.process.output());
    }
}

/// Who holds the Lease.
async fn holder(scene: &Scene) -> anyhow::Result<String> {
    let leases = scene.items(&["leases.coordination.k8s.io"]).await?;
    assert_eq!(leases.len(), 1, "{leases:#?}");
    Ok(leases[0]["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
}

/// A leader and one that stands by.
async fn pair(scene: &Scene) -> (Operator, Operator) {
    let first = scene.repository_controller(&ELECTION).await.unwrap();
    says(&first, "leading").await;
    let second = scene.repository_controller(&ELECTION).await.unwrap();
    says(&second, "standing by").await;
    (first, second)
}

/// The version and the writers of every object of ours, by resource and name.
async fn written(scene: &Scene) -> BTreeMap<String, (Value, Value)> {
    let mut found = BTreeMap::new();
    for resource in ["repositories", "jobs.provisioning.grafana.app", "folders", "dashboards"] {
        for item in scene.items(&["--show-managed-fields", resource]).await.unwrap() {
            let metadata = &item["metadata"];
            let name = format!("{resource}/{}", metadata["name"].as_str().unwrap_or_default());
            found.insert(name, (metadata["resourceVersion"].clone(), metadata["managedFields"].clone()));
        }
    }
    found
}

#[tokio::test]
async fn the_one_that_stands_by_goes_on_when_the_leader_is_killed() {
    let remote = Remote::new(vec![("a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin()]).await.unwrap() else { return };
    let (mut first, second) = pair(&scene).await;
    scene.create_repository("before", &remote.url()).await.unwrap();
    scene.healthy("before").await.unwrap();
    let before = holder(&scene).await.unwrap();
    first.process.kill().await.unwrap();
    scene.create_repository("after", &remote.another_url("after").unwrap()).await.unwrap();
    scene.healthy("after").await.unwrap();
    assert_ne!(holder(&scene).await.unwrap(), before);
    assert_eq!(second.lines("leading").len(), 1);
}

#[tokio::test]
async fn a_leader_that_is_told_to_end_hands_over_at_once() {
    let Some(scene) = Scene::shared(&[]).await.unwrap() else { return };
    // With these the other one would wait for longer than a test may take.
    let patient = [
        ("GF_OPERATOR_LEADER_ELECTION_LEASE_DURATION", "10m"),
        ("GF_OPERATOR_LEADER_ELECTION_RENEW_DEADLINE", "5m"),
        ("GF_OPERATOR_LEADER_ELECTION_RETRY_PERIOD", "1s"),
    ];
    let mut first = scene.repository_controller(&patient).await.unwrap();
    says(&first, "leading").await;
    let second = scene.repository_controller(&patient).await.unwrap();
    says(&second, "standing by").await;
    first.process.signal("TERM").await.unwrap();
    assert_eq!(first.process.end(windlass_e2e::DEADLINE).await.unwrap(), 0, "{}", first.process.output());
    says(&second, "leading").await;
}

#[tokio::test]
async fn a_leader_that_was_paused_past_its_lease_changes_nothing() {
    let remote = Remote::new(vec![("team/a.json".into(), dashboard("a", "A"))]).await.unwrap();
    let gate = Gate::before(&remote.origin()).await.unwrap();
    let Some(scene) = Scene::shared(&[remote.origin(), gate.origin()]).await.unwrap() else { return };
    let (first, second) = pair(&scene).await;
    let _jobs = scene.jobs_controller(&[]).await.unwrap();
    for name in ["kept", "removed"] {
        scene.create_repository(name, &remote.another_url(name).unwrap()).await.unwrap();
        scene.healthy(name).await.unwrap();
    }
    let done = pulled(&scene, "removed", false).await;
    assert_eq!(done["status"]["state"], "success", "{done:#}");

    // The leader is in the middle of a check when it is paused: what it is about to write is known.
    scene.create_repository("slow", &remote.url().replace(&remote.origin(), &gate.origin())).await.unwrap();
    eventually("the check is under way", || async { Ok((gate.came() > 0).then_some(())) }).await.unwrap();
    first.process.signal("STOP").await.unwrap();
    let old = holder(&scene).await.unwrap();
    says(&second, "leading").await;
    assert_ne!(holder(&scene).await.unwrap(), old);

    // The other one takes the check over and changes all there is, of which the paused one knows nothing.
    gate.open();
    scene.healthy("slow").await.unwrap();
    let titled = r#"{"spec":{"title":"Kept, two"}}"#;
    scene.kubectl(&["patch", "repository", "kept", "--type=merge", "-p", titled]).await.unwrap();
    eventually("the change is looked at", || async {
        let kept = scene.get(&["repository", "kept"]).await?;
        Ok((kept["status"]["observedGeneration"] == kept["metadata"]["generation"]).then_some(()))
    })
    .await
    .unwrap();
    scene.kubectl(&["delete", "repository", "removed", "--timeout=180s"]).await.unwrap();
    assert_eq!(titles(&scene).await, expect(&[]));
    let before = written(&scene).await;

    first.process.signal("CONT").await.unwrap();
    says(&first, "no longer leading").await;
    eventually("it stands by again", || async { Ok((first.lines("standing by").len() == 1).then_some(())) })
        .await
        .unwrap();
    // Whatever it had sent has arrived by the time that a later change went all the way through the other one.
    scene.create_repository("later", &remote.url()).await.unwrap();
    scene.healthy("later").await.unwrap();
    let mut after = written(&scene).await;
    after.remove("repositories/later");
    assert_eq!(after, before, "the paused controller said:\n{}", first.process.output());
    assert_eq!(second.lines("leading").len(), 1);
    assert!(second.lines("no longer leading").is_empty());
}
