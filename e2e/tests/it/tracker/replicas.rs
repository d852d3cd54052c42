//! Two replicas, and collectors that are dead.

use std::collections::BTreeSet;

use windlass_e2e::free_port;
use windlass_otlp_receiver::{Behaviour, Receiver};

use super::{DEADLINE, Delivery, END_TO_END, borrowed, says, tells};

#[tokio::test]
async fn of_two_replicas_one_exports_what_was_measured() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let receivers = [Receiver::start().unwrap(), Receiver::start().unwrap()];
    let environments = [tells(receivers[0].address()), tells(receivers[1].address())];
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
    fleet.all_told(&[&leader, &other]).await;
}

#[tokio::test]
async fn a_collector_that_is_dead_or_hangs_costs_nothing_and_loses_nothing() {
    let Some(mut fleet) = Delivery::start().await else { return };
    // Nobody's outgoing connection gets it while nobody listens.
    let port = free_port().unwrap();
    let receiver = Receiver::start_on(port).unwrap();
    let environment = tells(receiver.address());
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
