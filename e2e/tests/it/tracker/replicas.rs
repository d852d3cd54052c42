//! Two replicas, and those that may not do what they need.

use std::collections::BTreeSet;

use windlass_e2e::eventually;
use windlass_otlp_receiver::{Behaviour, Receiver};

use super::{DEADLINE, Delivery, END_TO_END, borrowed, says, tells};

#[tokio::test]
async fn of_two_replicas_one_exports_what_was_measured() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let receivers = [Receiver::start().unwrap(), Receiver::start().unwrap()];
    let environments = [tells(&receivers[0]), tells(&receivers[1])];
    let mut leader = fleet.tracker(&[], &borrowed(&environments[0])).await;
    says(&leader, "leading").await;
    let mut other = fleet.tracker(&[], &borrowed(&environments[1])).await;
    says(&other, "standing by").await;
    fleet.deliver(2).await;
    let counts = |receiver: &Receiver| receiver.look(|received| received.count(END_TO_END));
    let exported = receivers[0].until(DEADLINE, |received| (received.count(END_TO_END) == 2).then_some(()));
    assert!(exported.await.is_some(), "{}", leader.process.output());
    // The other one tells of itself alone.
    let alive = receivers[1].until(DEADLINE, |received| (received.metric_requests.len() > 2).then_some(()));
    assert!(alive.await.is_some(), "{}", other.process.output());
    receivers[1].look(|received| assert_eq!(received.of(END_TO_END).count(), 0));
    assert!(other.told().is_empty());

    // The leader hands over at once, and what it exported is what the other goes on with.
    leader.stop().await.unwrap();
    says(&other, "leading").await;
    fleet.deliver(1).await;
    let exported = receivers[1].until(DEADLINE, |received| (received.count(END_TO_END) == 3).then_some(()));
    assert!(exported.await.is_some(), "{}", other.process.output());
    assert_eq!(counts(&receivers[0]), 2);
    let identities = |receiver: &Receiver| -> BTreeSet<String> {
        receiver.look(|received| {
            received
                .of(END_TO_END)
                .map(|(series, _)| series.resource["service.instance.id"].clone())
                .collect()
        })
    };
    assert_eq!(identities(&receivers[0]), identities(&receivers[1]));
    other.stop().await.unwrap();
    assert!(fleet.check_told(&[&leader, &other]).unwrap().is_empty());
}

#[tokio::test]
async fn a_collector_that_is_dead_or_hangs_costs_nothing_and_loses_nothing() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let receiver = Receiver::start().unwrap();
    let port = receiver.address().port();
    let environment = tells(&receiver);
    let mut tracker = fleet.tracker(&[], &borrowed(&environment)).await;
    receiver.behave(Behaviour::Hang);
    fleet.deliver(1).await;
    fleet.counted(&tracker, 1).await;
    drop(receiver);
    fleet.deliver(1).await;
    fleet.counted(&tracker, 2).await;

    let receiver = Receiver::start_on(port).unwrap();
    let exported = receiver.until(DEADLINE, |received| (received.count(END_TO_END) == 2).then_some(()));
    assert!(exported.await.is_some(), "{}", tracker.process.output());
    fleet.deliver(1).await;
    fleet.counted(&tracker, 3).await;
    // What was counted last is told at the end.
    tracker.stop().await.unwrap();
    receiver.look(|received| assert_eq!(received.count(END_TO_END), 3));

    // And an end before a dead collector is an end all the same.
    drop(receiver);
    let mut tracker = fleet.tracker(&[], &borrowed(&environment)).await;
    says(&tracker, "leading").await;
    tracker.stop().await.unwrap();
}

#[tokio::test]
async fn a_right_that_is_missing_is_said_once_and_used_when_it_is_there() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let role = &fleet.tracker.name;
    let rules = fleet.get(&["role", role]).await.unwrap()["rules"].take();
    let mut few = rules.clone();
    few.as_array_mut().unwrap().retain(|rule| !rule.to_string().contains("kustomizations"));
    let patch = |rules: &serde_json::Value| serde_json::json!({"rules": rules}).to_string();
    fleet.kubectl(&["patch", "role", role, "--type=merge", "-p", &patch(&few)]).await.unwrap();
    let account = format!("--as=system:serviceaccount:{}:{role}", fleet.namespace.name());
    eventually("the right is gone", || async {
        let question = ["auth", "can-i", "list", "kustomizations.kustomize.toolkit.fluxcd.io", &account];
        let asked = fleet.kubectl(&question);
        Ok(asked.await.is_err().then_some(()))
    })
    .await
    .unwrap();
    let tracker = fleet.spawn_tracker(&fleet.remote.origin(), &[], &[]).unwrap();
    let said = eventually("the missing right is named", || async {
        let output = tracker.process.output();
        Ok((output.contains("kustomizations") && output.contains("forbidden")).then_some(output))
    })
    .await;
    said.unwrap_or_else(|error| panic!("{error:#}; it said:\n{}", tracker.process.output()));
    let (code, _) = tracker.ask(tracker.health, "/readyz").await.unwrap();
    assert_ne!(code, 200, "{}", tracker.process.output());

    fleet.kubectl(&["patch", "role", role, "--type=merge", "-p", &patch(&rules)]).await.unwrap();
    tracker.ready().await.unwrap();
    let lines = tracker.process.output().lines().filter(|line| line.contains("forbidden")).count();
    assert_eq!(lines, 1, "{}", tracker.process.output());
    fleet.deliver(1).await;
    fleet.counted(&tracker, 1).await;
}
