//! The engine as a whole: Flux's objects in an API server, commits in a Git server, what was counted in the ledger.

mod export;
mod pending;
mod switched;
mod world;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use windlass_commit_tracker::changes::Problem;
use windlass_commit_tracker::ledger::{Entry, Outcome};

use self::world::{Death, Process, World, eventually, long_ago, shows};

/// A world with one Kustomization that applied its first revision long before any tracker; its UID and that revision.
async fn settled(settings: &[(&str, &str)]) -> (World, String, String) {
    let world = World::new(settings).await;
    let first = world.commit("first");
    world.publish(&first).await;
    let uid = world.kustomization("shop").await;
    world.applied("shop", &[(&first, long_ago())]).await;
    (world, uid, first)
}

/// The same with a tracker that has seen it.
async fn tracked(settings: &[(&str, &str)]) -> (World, Process, String, String) {
    let (world, uid, first) = settled(settings).await;
    let tracker = world.tracker();
    let entry = world.accounted(&uid, &first).await;
    assert_eq!((entry.commits.counted, entry.revisions.as_slice()), (0, &[(Outcome::Baseline, 1)][..]));
    (world, tracker, uid, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_revisions_that_cannot_be_found_each_is_counted_once_over_restarts() {
    // Those that could not be looked into for good, and why; and how often such was counted.
    let stuck = |entry: &Entry| {
        let stuck =
            entry.pending.iter().filter_map(|one| Some((one.step.revision.to_string(), one.problem?)));
        let failed = entry.revisions.iter().filter(|(outcome, _)| matches!(outcome, Outcome::Failed(_)));
        (stuck.collect::<Vec<_>>(), failed.map(|(_, count)| count).sum::<u64>())
    };
    let (world, tracker, uid, first) = tracked(&[]).await;
    let second = world.commit("second");
    let nobody_has = format!("main@sha1:{}", "f".repeat(40));
    world.hide();
    let now = Timestamp::now();
    let steps = [(&*first, long_ago()), (&second, now), (&nobody_has, now)];
    world.applied("shop", &steps).await;
    let both = [(second.clone(), Problem::NotFound), (nobody_has.clone(), Problem::NotFound)];
    world.remembered(&uid, |entry| stuck(entry) == (both.to_vec(), 2)).await;
    tracker.stop().await;

    // Whoever comes next asks about both again. With the repository there again, the first is found; the other is not, for a reason of its own.
    world.unhide();
    let tracker = world.tracker();
    let alone = (vec![(nobody_has.clone(), Problem::Unreachable)], 2);
    assert_eq!(world.remembered(&uid, |entry| stuck(entry) == alone).await.commits.counted, 1);
    // A status from the end of time stops nobody.
    let (third, end) = (world.commit("third"), Timestamp::MAX - Duration::from_mins(10));
    world.applied("shop", &[steps[0], steps[1], steps[2], (&third, end)]).await;
    let entry = world.accounted(&uid, &third).await;
    assert_eq!((stuck(&entry), entry.commits.counted), ((Vec::new(), 2), 2));
    tracker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_kustomization_is_forgotten_and_one_that_is_not_selected_any_more_is_not() {
    let selected = [("commit_tracker.all", "false"), ("commit_tracker.selector", "app")];
    let settings = [&selected[..], &[("commit_tracker.show_deleted_for", "1s")]].concat();
    let (world, tracker, uid, first) = tracked(&settings).await;
    let other = world.kustomization("other").await;
    world.applied("other", &[(&first, long_ago())]).await;
    world.accounted(&other, &first).await;
    // What waits ages until it is not selected any more.
    let age = "flux_commit_tracker_oldest_unapplied_commit_age_seconds{k8s_resource_name=\"shop\"";
    world.publish(&world.commit("second")).await;
    shows(&tracker, age, |shown| !shown.is_empty() && !shown[0].ends_with(" 0")).await;
    world.change("Kustomization", "shop", json!({"metadata": {"labels": {"app": null}}})).await;
    shows(&tracker, age, <[_]>::is_empty).await;
    world.delete("Kustomization", "other").await;
    // What is forgotten and not shown any more leaves the cluster with the next write.
    shows(&tracker, "flux_commit_tracker_commits_total{k8s_resource_name=\"other\"", <[_]>::is_empty).await;
    let third = world.kustomization("third").await;
    world.applied("third", &[(&first, long_ago())]).await;
    eventually("it is forgotten", async || world.entry(&other).await.map_or(Ok(()), Err)).await;
    world.accounted(&third, &first).await;
    assert!(world.entry(&uid).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_write_loses_nothing_and_counts_nothing_twice() {
    // The first write is the ledger's head: before that nothing has begun.
    let deaths = (2..=7).flat_map(|write| [Death::Before(write), Death::After(write)]);
    futures::future::join_all(deaths.chain([Death::After(1)]).map(crash)).await;
}

async fn crash(death: Death) {
    let (world, uid, first) = settled(&[]).await;
    let tracker = world.tracker_that_dies(death);
    world.begun().await;
    let (second, third) = (world.commit("second"), world.commit("third"));
    let done = async {
        world.accounted(&uid, &first).await;
        world.moves(&first, &second).await;
        world.accounted(&uid, &second).await;
    };
    tokio::select! {
        () = done => {}
        () = tracker.dead() => {}
    }
    tracker.kill().await;
    let steps = [(&*first, long_ago()), (&*second, Timestamp::now()), (&*third, Timestamp::now())];
    world.applied("shop", &steps).await;
    let _tracker = world.tracker();
    assert_eq!(world.counted(&uid, &third).await, 2, "{death:?}");
}
