//! What is applied and not looked into yet: its time stays what it was, and what is not known is no zero.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use super::tracked;
use super::world::{Process, eventually, lines, long_ago};
use windlass_commit_tracker::ledger::Outcome;

/// Waits until the age of what waits, and whether it is unknown, are these.
async fn told(process: &Process, age: Option<f64>, unknown: f64) {
    eventually("the age and whether it is known", async || {
        let gauge = |name: &str| {
            let lines = lines(process, &format!("flux_commit_tracker_oldest_unapplied_commit_{name}{{"));
            lines.first().and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        };
        let shown = (gauge("age_seconds"), gauge("unknown"));
        (shown == (age, Some(unknown))).then_some(()).ok_or(shown)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_an_apply_is_what_was_seen_first_however_long_its_commits_cannot_be_found() {
    let (world, tracker, uid, _) = tracked(&[]).await;
    let second = world.commit("second");
    world.hide();
    // Its manifests had been built before: of the history only the end of the last run tells when it was applied.
    let at = Timestamp::now();
    world.applied_often("shop", &second, long_ago(), at).await;
    let is_failed = |(outcome, _): &(Outcome, u64)| matches!(outcome, Outcome::Failed(_));
    world.remembered(&uid, |entry| entry.revisions.iter().any(is_failed)).await;
    // An interval run, and another tracker.
    world.applied_often("shop", &second, long_ago(), at + Duration::from_mins(9)).await;
    tracker.stop().await;
    world.unhide();
    let _tracker = world.tracker();
    let entry = world.accounted(&uid, &second).await;
    let applied = entry.last.as_ref().unwrap().applied;
    assert!(applied.duration_since(at).abs().as_secs() <= 1, "{applied} is not {at}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_looked_up_is_unknown_and_not_zero() {
    let (world, tracker, uid, first) = tracked(&[]).await;
    told(&tracker, Some(0.0), 0.0).await;
    let second = world.commit("second");
    world.hide();
    world.publish(&second).await;
    told(&tracker, None, 1.0).await;
    tracker.stop().await;
    // Whoever leads next knows no more.
    let next = world.tracker();
    told(&next, None, 1.0).await;
    world.unhide();
    world.moves(&first, &second).await;
    world.change("GitRepository", "apps", json!({"spec": {"interval": "2m"}})).await;
    world.accounted(&uid, &second).await;
    told(&next, Some(0.0), 0.0).await;
}
