//! Trackers that may not do what they need: it is said once, and done when they may.

use anyhow::bail;
use serde_json::{Value, json};
use windlass_e2e::eventually;

use super::{Delivery, says};

/// Takes the right to do something away from the tracker's account. Answers the rules that it had.
async fn take(fleet: &Delivery, verb: &str, resource: &str, name: &str) -> Value {
    let role = &fleet.tracker.name;
    let rules = fleet.get(&["role", role]).await.unwrap()["rules"].take();
    let has = |list: &Value, item: &str| list.as_array().is_some_and(|list| list.contains(&item.into()));
    let mut few = rules.clone();
    few.as_array_mut()
        .unwrap()
        .retain(|rule| !has(&rule["verbs"], verb) || !has(&rule["resources"], resource));
    give(fleet, &few).await;
    let account = format!("--as=system:serviceaccount:{}:{role}", fleet.namespace.name());
    let question = ["auth", "can-i", verb, name, &account];
    eventually("the right is gone", || async { Ok(fleet.kubectl(&question).await.is_err().then_some(())) })
        .await
        .unwrap();
    rules
}

async fn give(fleet: &Delivery, rules: &Value) {
    let patch = json!({ "rules": rules }).to_string();
    fleet.kubectl(&["patch", "role", &fleet.tracker.name, "--type=merge", "-p", &patch]).await.unwrap();
}

#[tokio::test]
async fn a_right_that_is_missing_is_said_once_and_used_when_it_is_there() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let kustomizations = "kustomizations.kustomize.toolkit.fluxcd.io";
    let rules = take(&fleet, "list", "kustomizations", kustomizations).await;
    let tracker = fleet.spawn_tracker(&fleet.remote.origin(), &[], &[]).unwrap();
    let said = eventually("the missing right is named", || async {
        let output = tracker.process.output();
        Ok((output.contains("kustomizations") && output.contains("forbidden")).then_some(output))
    })
    .await;
    said.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", tracker.process.output()));
    let (code, _) = tracker.ask(tracker.health, "/readyz").await.unwrap();
    assert_ne!(code, 200, "{}", tracker.process.output());

    give(&fleet, &rules).await;
    tracker.ready().await.unwrap();
    let lines = tracker.process.output().lines().filter(|line| line.contains("forbidden")).count();
    assert_eq!(lines, 1, "{}", tracker.process.output());
    fleet.deliver(1).await;
    fleet.counted(&tracker, 1).await;
}

#[tokio::test]
async fn sources_that_cannot_be_listed_show_as_such_until_they_can() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let rules = take(&fleet, "list", "gitrepositories", "gitrepositories.source.toolkit.fluxcd.io").await;
    let tracker = fleet.tracker(&[], &[]).await;
    let listed = async |value: &str| {
        let what = format!("sources are listed: {value}");
        let shown = eventually(&what, || async {
            let (_, text) = tracker.ask(tracker.metrics, "/metrics").await?;
            let named = |line: &&str| line.starts_with("flux_commit_tracker_sources_listed{");
            let line = text.lines().find(named).unwrap_or_default();
            if !line.contains("GitRepository") || !line.ends_with(value) {
                bail!("{line:?}");
            }
            Ok(Some(()))
        });
        shown.await.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", tracker.process.output()));
    };
    listed(" 0").await;
    give(&fleet, &rules).await;
    listed(" 1").await;
    fleet.deliver(1).await;
    fleet.counted(&tracker, 1).await;
}

#[tokio::test]
async fn what_cannot_be_recorded_is_said_once_and_recorded_when_it_can_be() {
    const UNRECORDED: &str = "what was measured cannot be recorded, trying again";
    let Some(mut fleet) = Delivery::start().await else { return };
    let tracker = fleet.tracker(&[], &[]).await;
    fleet.deliver(1).await;
    fleet.counted(&tracker, 1).await;
    let rules = take(&fleet, "patch", "configmaps", "configmaps/flux-commit-tracker-ledger").await;
    fleet.deliver(1).await;
    says(&tracker, UNRECORDED).await;
    let retries = async || tracker.metric("workqueue_retries_total", &[]).await;
    let before = retries().await.unwrap();
    let again =
        eventually("it was tried again", || async { Ok((retries().await? > before + 1.5).then_some(())) });
    again.await.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", tracker.process.output()));
    give(&fleet, &rules).await;
    fleet.counted(&tracker, 2).await;
    assert_eq!(tracker.process.lines(UNRECORDED).len(), 1, "{}", tracker.process.output());
}
