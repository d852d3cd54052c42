//! Twenty commits, whatever happens to the trackers meanwhile.

use std::collections::BTreeSet;

use windlass_e2e::flux::Tracker;
use windlass_otlp_receiver::Receiver;

use super::{COMMITS, DEADLINE, Delivery, END_TO_END, REVISIONS, borrowed, says, tells};

/// A Lease that lapses soon when its holder is killed, but not because a machine is busy for a moment.
const ELECTION: [(&str, &str); 2] = [
    ("GF_OPERATOR_LEADER_ELECTION_LEASE_DURATION", "10s"),
    ("GF_OPERATOR_LEADER_ELECTION_RENEW_DEADLINE", "8s"),
];

/// The sum of a counter's series with this outcome.
fn outcome(receiver: &Receiver, name: &str, outcome: &str) -> f64 {
    receiver.look(|received| {
        let with_it = received.of(name).filter(|(series, _)| series.attributes["outcome"] == outcome);
        with_it.map(|(_, sample)| sample.value.total()).sum()
    })
}

#[tokio::test]
async fn twenty_commits_are_counted_once_each_over_restarts_a_kill_and_two_replicas() {
    let Some(mut fleet) = Delivery::start().await else { return };
    let receiver = Receiver::start().unwrap();
    let environment = tells(receiver.address());
    let environment = [borrowed(&environment), ELECTION.into()].concat();

    // One tracker: a commit alone, two in one revision, and three whose revisions come faster than Flux applies them.
    let mut first = fleet.tracker(&[], &environment).await;
    says(&first, "leading").await;
    fleet.deliver(1).await;
    fleet.deliver(2).await;
    fleet.rush(3).await;

    // It is restarted, and two revisions are applied meanwhile.
    first.stop().await.unwrap();
    fleet.deliver(1).await;
    fleet.deliver(2).await;
    let mut second = fleet.tracker(&[], &environment).await;
    says(&second, "leading").await;

    // Another one stands by, and takes over when the leader is killed in the middle of its work.
    let mut third = fleet.tracker(&[], &environment).await;
    says(&third, "standing by").await;
    fleet.deliver(1).await;
    fleet.rush(2).await;
    fleet.deliver(1).await;
    second.process.kill().await.unwrap();
    let before_the_kill = revisions(&fleet);
    fleet.deliver(1).await;
    says(&third, "leading").await;
    fleet.rush(3).await;

    // The second restart.
    third.stop().await.unwrap();
    fleet.deliver(1).await;
    let mut fourth = fleet.tracker(&[], &environment).await;
    fleet.deliver(2).await;
    assert_eq!(fleet.commits.len(), 20);
    let done = receiver.until(DEADLINE, |received| (received.count(END_TO_END) >= 20).then_some(())).await;
    assert!(done.is_some(), "{}", told(&receiver, &fourth));

    // Whoever starts again counts nothing again.
    fourth.stop().await.unwrap();
    let mut fifth = fleet.tracker(&[], &environment).await;
    says(&fifth, "leading").await;
    let exports = receiver.look(|received| received.metric_requests.len());
    let again =
        receiver.until(DEADLINE, |received| (received.metric_requests.len() > exports + 2).then_some(()));
    assert!(again.await.is_some(), "{}", told(&receiver, &fifth));
    fifth.stop().await.unwrap();

    receiver.look(|received| {
        assert_eq!(received.count(END_TO_END), 20, "{:#?}", received.of(END_TO_END).collect::<Vec<_>>());
        assert_eq!(received.of(END_TO_END).count(), 1, "one series goes on, whoever exports it");
        assert!(received.contradictions.is_empty(), "{:?}", received.contradictions);
        let (least, most) = fleet.all_bounds().unwrap();
        let sum = received.total(END_TO_END);
        assert!((least..=most).contains(&sum), "{sum} s together, of {least} to {most}");
    });
    assert!((outcome(&receiver, COMMITS, "counted") - 20.0).abs() < 0.1);
    // What was there before: one commit, or none where it was superseded before anybody asked.
    assert!(outcome(&receiver, COMMITS, "baseline") < 1.1);
    let measured = outcome(&receiver, REVISIONS, "measured");
    assert!((measured - fleet.revisions() as f64).abs() < 0.1, "{measured} of {}", fleet.revisions());

    // Lines of one revision may be lost with the process that was about to say them, and no others.
    let trackers = [&first, &second, &third, &fourth, &fifth];
    let untold = fleet.check_told(&trackers).unwrap();
    let untold: BTreeSet<String> =
        untold.into_iter().map(|commit| fleet.brought(commit).unwrap().revision).collect();
    assert!(untold.len() <= 1, "{untold:?}");
    assert!(untold.is_subset(&before_the_kill), "{untold:?}");
    receiver.look(|received| {
        let traced: BTreeSet<&str> = received
            .spans_of("reconcile")
            .filter_map(|span| span.attributes.get("kustomization.revision"))
            .map(String::as_str)
            .collect();
        // Spans that wait for the next request to the collector are lost with the killed process.
        let by_the_killed = second.process.lines("successfully processed kustomization event").len();
        let lost = fleet.revisions().saturating_sub(traced.len());
        assert!(
            lost <= by_the_killed + untold.len(),
            "{lost} of {} revisions have no trace",
            fleet.revisions()
        );
    });
}

/// The revisions that were seen to be applied until now.
fn revisions(fleet: &Delivery) -> BTreeSet<String> {
    fleet.kustomization.observed().into_iter().map(|seen| seen.revision).collect()
}

fn told(receiver: &Receiver, tracker: &Tracker) -> String {
    let count = receiver.look(|received| received.count(END_TO_END));
    format!("{count} of 20 commits are counted; the last tracker said:\n{}", tracker.process.output())
}
