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

use self::world::{Death, World, eventually, long_ago};

fn revisions(entry: &Entry, outcome: Outcome) -> u64 {
    entry.revisions.iter().find(|(known, _)| *known == outcome).map_or(0, |(_, count)| *count)
}

/// The revisions that could not be looked into for good, and why.
fn stuck(entry: &Entry) -> Vec<(String, Problem)> {
    let stuck = entry.pending.iter().filter_map(|one| Some((one.step.revision.to_string(), one.problem?)));
    stuck.collect()
}

/// A world with one Kustomization that applied its first revision long before any tracker.
async fn settled() -> (World, String, String) {
    let world = World::new().await;
    let first = world.commit("first");
    world.repository("apps").await;
    world.publish("apps", &first).await;
    let uid = world.kustomization("shop", "apps").await;
    world.applied("shop", &[(&first, long_ago())]).await;
    (world, uid, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn commits_are_counted_once_over_restarts() {
    let (world, uid, first) = settled().await;
    let tracker = world.tracker();
    let entry = world.accounted(&uid, &first).await;
    assert_eq!((entry.commits.counted, revisions(&entry, Outcome::Baseline)), (0, 1));

    world.commit("second");
    let third = world.commit("third");
    world.publish("apps", &third).await;
    world.applied("shop", &[(&first, long_ago()), (&third, Timestamp::now())]).await;
    let entry = world.accounted(&uid, &third).await;
    assert_eq!(entry.commits.counted, 2, "the revision that was skipped came with the next");
    tracker.stop().await;

    let fourth = world.commit("fourth");
    world.applied("shop", &[(&third, Timestamp::now()), (&fourth, Timestamp::now())]).await;
    let tracker = world.tracker();
    let entry = world.accounted(&uid, &fourth).await;
    assert_eq!(entry.commits.counted, 3);
    assert_eq!(revisions(&entry, Outcome::Measured), 2);
    tracker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_roll_back_and_forward_again_counts_nothing_twice() {
    let (world, uid, first) = settled().await;
    let _tracker = world.tracker();
    world.accounted(&uid, &first).await;
    let second = world.commit("second");
    let now = Timestamp::now();
    world.applied("shop", &[(&first, long_ago()), (&second, now)]).await;
    world.accounted(&uid, &second).await;
    world.applied("shop", &[(&second, now), (&first, long_ago())]).await;
    world.applied("shop", &[(&first, long_ago()), (&second, now)]).await;
    let third = world.commit("third");
    world.applied("shop", &[(&first, long_ago()), (&second, now), (&third, Timestamp::now())]).await;
    assert_eq!(world.accounted(&uid, &third).await.commits.counted, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_kustomizations_of_one_source_cost_one_question() {
    let (world, _, first) = settled().await;
    let mut uids = Vec::new();
    for index in 0..50 {
        let name = format!("shop-{index}");
        uids.push(world.kustomization(&name, "apps").await);
        world.applied(&name, &[(&first, long_ago())]).await;
    }
    let _tracker = world.tracker();
    for uid in &uids {
        world.accounted(uid, &first).await;
    }
    let second = world.commit("second");
    let before = world.git_requests();
    world.publish("apps", &second).await;
    let now = Timestamp::now();
    for index in 0..50 {
        world.applied(&format!("shop-{index}"), &[(&first, long_ago()), (&second, now)]).await;
    }
    for uid in &uids {
        assert_eq!(world.accounted(uid, &second).await.commits.counted, 1);
    }
    let asked = world.git_requests() - before;
    assert!(asked <= 2, "{asked} requests for one revision: at most what the protocol is and the history");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_revisions_that_cannot_be_found_each_is_counted_once_over_restarts() {
    let (world, uid, first) = settled().await;
    let tracker = world.tracker();
    world.accounted(&uid, &first).await;
    let second = world.commit("second");
    let nobody_has = format!("main@sha1:{}", "f".repeat(40));
    world.hide();
    let now = Timestamp::now();
    let steps = [(&*first, long_ago()), (&second, now), (&nobody_has, now)];
    world.applied("shop", &steps).await;
    let failed = |entry: &Entry| -> u64 {
        let failed = entry.revisions.iter().filter(|(outcome, _)| matches!(outcome, Outcome::Failed(_)));
        failed.map(|(_, count)| count).sum()
    };
    let entry = world.remembered("both are stuck", &uid, |entry| stuck(entry).len() == 2).await;
    let both = [(second.clone(), Problem::NotFound), (nobody_has.clone(), Problem::NotFound)];
    assert_eq!((stuck(&entry), revisions(&entry, Outcome::Failed(Problem::NotFound))), (both.into(), 2));
    tracker.stop().await;

    // Whoever comes next asks about both again.
    let before = world.git_requests();
    let tracker = world.tracker();
    eventually("both are asked about", || async {
        let asked = world.git_requests() - before;
        if asked >= 2 { Ok(()) } else { Err(asked) }
    })
    .await;
    tracker.stop().await;
    let entry = world.entry(&uid).await.unwrap();
    assert_eq!((stuck(&entry).len(), failed(&entry)), (2, 2));

    // With the repository there again, the first is found; the other is not, for a reason of its own.
    world.unhide();
    let tracker = world.tracker();
    let is_alone = |entry: &Entry| stuck(entry).iter().map(|stuck| stuck.1).eq([Problem::Unreachable]);
    let entry = world.remembered("one is stuck", &uid, is_alone).await;
    assert_eq!(stuck(&entry), [(nobody_has.clone(), Problem::Unreachable)]);
    assert_eq!((failed(&entry), revisions(&entry, Outcome::Measured), entry.commits.counted), (2, 1, 1));
    let third = world.commit("third");
    world.applied("shop", &[steps[0], steps[1], steps[2], (&third, Timestamp::now())]).await;
    let entry = world.accounted(&uid, &third).await;
    assert_eq!((stuck(&entry), failed(&entry), entry.commits.counted), (Vec::new(), 2, 2));
    tracker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revision_of_more_commits_than_are_taken_is_told_as_truncated() {
    let (world, uid, first) = settled().await;
    let world = world.set("commit_tracker.max_commits", "2");
    let _tracker = world.tracker();
    let entry = world.accounted(&uid, &first).await;
    assert_eq!(revisions(&entry, Outcome::Truncated), 0, "what is baseline is not lost");
    for message in ["second", "third"] {
        world.commit(message);
    }
    let fourth = world.commit("fourth");
    world.applied("shop", &[(&first, long_ago()), (&fourth, Timestamp::now())]).await;
    let entry = world.accounted(&uid, &fourth).await;
    assert_eq!((entry.commits.counted, revisions(&entry, Outcome::Truncated)), (2, 1));
    let fifth = world.commit("fifth");
    world.applied("shop", &[(&fourth, long_ago()), (&fifth, Timestamp::now())]).await;
    let entry = world.accounted(&uid, &fifth).await;
    assert_eq!((entry.commits.counted, revisions(&entry, Outcome::Truncated)), (3, 1));
    assert_eq!(revisions(&entry, Outcome::Measured), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_right_after_a_failure_is_answered_by_another_question() {
    let (world, uid, first) = settled().await;
    let _tracker = world.tracker();
    world.accounted(&uid, &first).await;
    let second = world.commit("second");
    world.hide();
    world.applied("shop", &[(&first, long_ago()), (&second, Timestamp::now())]).await;
    world.remembered("it is stuck", &uid, |entry| !stuck(entry).is_empty()).await;
    world.unhide();
    world.change("GitRepository", "apps", json!({"spec": {"interval": "2m"}})).await;
    assert_eq!(world.accounted(&uid, &second).await.commits.counted, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_old_kustomization_applied_before_it_was_selected_is_not_counted() {
    let world = World::new().await.set("commit_tracker.all", "false").set("commit_tracker.selector", "team");
    let tracker = world.tracker();
    world.begun().await;
    world.repository("apps").await;
    world.commit("before");
    let first = world.commit("first");
    world.publish("apps", &first).await;
    let uid = world.kustomization("shop", "apps").await;
    // As after a month, of which its history remembers the revision that was run last, and no other with its manifests.
    let day = |number: u64| Timestamp::now() + Duration::from_hours(24 * number);
    world.applied_often("shop", &first, day(2), day(30)).await;
    world.change("Kustomization", "shop", json!({"metadata": {"labels": {"team": "a"}}})).await;
    let entry = world.accounted(&uid, &first).await;
    assert_eq!((entry.commits.counted, revisions(&entry, Outcome::Baseline)), (0, 1));
    tracker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_at_the_end_of_time_stops_nobody() {
    let (world, uid, first) = settled().await;
    let tracker = world.tracker();
    world.accounted(&uid, &first).await;
    let second = world.commit("second");
    world.applied("shop", &[(&first, long_ago()), (&second, Timestamp::MAX - Duration::from_mins(10))]).await;
    assert_eq!(world.accounted(&uid, &second).await.commits.counted, 1);
    tracker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_kustomization_is_forgotten_and_one_that_is_not_selected_any_more_is_not() {
    let (world, uid, first) = settled().await;
    let other = world.kustomization("other", "apps").await;
    world.applied("other", &[(&first, long_ago())]).await;
    let world = world.set("commit_tracker.all", "false").set("commit_tracker.selector", "app");
    let world = world.set("commit_tracker.show_deleted_for", "1s");
    let tracker = world.tracker();
    world.accounted(&uid, &first).await;
    world.accounted(&other, &first).await;
    world.change("Kustomization", "shop", json!({"metadata": {"labels": {"app": null}}})).await;
    world.delete("Kustomization", "other").await;
    // What is forgotten and not shown any more leaves the cluster with the next write.
    eventually("it is not shown any more", || async {
        let shown = tracker.context.metrics.render().unwrap();
        if shown.contains("k8s_resource_name=\"other\"") { Err(shown) } else { Ok(()) }
    })
    .await;
    let third = world.kustomization("third", "apps").await;
    world.applied("third", &[(&first, long_ago())]).await;
    eventually("it is forgotten", || async {
        match world.entry(&other).await {
            None => Ok(()),
            Some(entry) => Err(entry),
        }
    })
    .await;
    world.accounted(&third, &first).await;
    assert!(world.entry(&uid).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_ages_until_it_is_applied_or_its_kustomization_is_not_selected_any_more() {
    let (world, uid, first) = settled().await;
    let world = world.set("commit_tracker.all", "false").set("commit_tracker.selector", "app");
    let tracker = world.tracker();
    world.accounted(&uid, &first).await;
    let age = || {
        let text = tracker.context.metrics.render().unwrap();
        let mut lines = text.lines().filter(|line| {
            line.starts_with("flux_commit_tracker_oldest_unapplied_commit_age_seconds{")
                && line.contains("k8s_resource_name=\"shop\"")
        });
        lines.next().and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
    };
    let waits = |does: bool| {
        eventually("the age is as it should be", move || async move {
            let age = age();
            if age.is_some_and(|age| (age > 0.0) == does) { Ok(()) } else { Err(age) }
        })
    };
    waits(false).await;
    let second = world.commit("second");
    world.publish("apps", &second).await;
    waits(true).await;
    world.applied("shop", &[(&first, long_ago()), (&second, Timestamp::now())]).await;
    waits(false).await;
    let third = world.commit("third");
    world.publish("apps", &third).await;
    waits(true).await;
    world.change("Kustomization", "shop", json!({"metadata": {"labels": {"app": null}}})).await;
    eventually("nothing is said of it any more", || async { age().map_or(Ok(()), Err) }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_write_loses_nothing_and_counts_nothing_twice() {
    // The first write is the ledger's head: before that nothing has begun.
    let deaths = (2..=7).flat_map(|write| [Death::Before(write), Death::After(write)]);
    futures::future::join_all(deaths.chain([Death::After(1)]).map(crash)).await;
}

async fn crash(death: Death) {
    let (world, uid, first) = settled().await;
    let tracker = world.tracker_that_dies(death);
    world.begun().await;
    let second = world.commit("second");
    let third = world.commit("third");
    let done = async {
        world.accounted(&uid, &first).await;
        world.applied("shop", &[(&first, long_ago()), (&second, Timestamp::now())]).await;
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
    assert_eq!(world.accounted(&uid, &third).await.commits.counted, 2, "{death:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_replicas_one_counts_and_the_other_takes_over() {
    let (world, uid, first) = settled().await;
    let one = world.tracker();
    world.accounted(&uid, &first).await;
    let other = world.tracker();
    let second = world.commit("second");
    world.applied("shop", &[(&first, long_ago()), (&second, Timestamp::now())]).await;
    world.accounted(&uid, &second).await;
    eventually("the other is ready", || async {
        let not_ready = other.context.health.not_ready();
        if not_ready.is_empty() { Ok(()) } else { Err(not_ready) }
    })
    .await;
    one.kill().await;
    let third = world.commit("third");
    world.applied("shop", &[(&second, Timestamp::now()), (&third, Timestamp::now())]).await;
    assert_eq!(world.accounted(&uid, &third).await.commits.counted, 2);
    other.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_is_not_served_holds_up_no_other() {
    let (world, uid, first) = settled().await;
    let external = json!({"sourceRef": {"kind": "ExternalArtifact", "name": "x"}});
    world.kustomization("odd", "apps").await;
    world.change("Kustomization", "odd", json!({ "spec": external })).await;
    world.applied("odd", &[("sha256:1", Timestamp::now())]).await;
    let tracker = world.tracker();
    world.accounted(&uid, &first).await;
    assert_eq!(tracker.context.health.not_ready(), []);
}
