//! A Kustomization that is pointed at another source: what it applied before is accounted for all the same.

use std::time::Duration;

use jiff::Timestamp;
use windlass_commit_tracker::ledger::Outcome;

use super::world::{Process, World, eventually, long_ago};
use super::{revisions, settled};

/// Revisions of artifacts.
fn artifact(number: usize) -> String {
    format!("latest@sha256:{number:064}")
}

/// A moment after everything that was merged until now, in the whole seconds of Git and Flux.
fn soon() -> Timestamp {
    Timestamp::now() + Duration::from_secs(3)
}

/// A world with one Kustomization that applied an artifact of the first commit long before any tracker.
async fn settled_on_artifacts() -> (World, String, String) {
    let world = World::new().await.set("commit_tracker.exporter_info", "none");
    let first = world.commit("first");
    world.repository("apps").await;
    world.source("OCIRepository", "images").await;
    world.source("Bucket", "store").await;
    let uid = world.kustomization("shop", "apps").await;
    world.switch("shop", "OCIRepository", "images").await;
    world.publish_artifact("OCIRepository", "images", &artifact(1), world.built(&first, long_ago())).await;
    world.applied_from("shop", &[(&artifact(1), Some(&first), long_ago())]).await;
    (world, uid, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn from_git_to_artifacts_each_commit_is_counted_once() {
    let (world, uid, first) = settled().await;
    let world = world.set("commit_tracker.exporter_info", "none");
    let _tracker = world.tracker();
    world.accounted(&uid, &first).await;
    let second = world.commit("second");
    let at = Timestamp::now();
    world.publish("apps", &second).await;
    world.applied("shop", &[(&first, long_ago()), (&second, at)]).await;
    assert_eq!(world.accounted(&uid, &second).await.commits.counted, 1);

    world.source("OCIRepository", "images").await;
    world.publish_artifact("OCIRepository", "images", &artifact(2), world.built(&second, soon())).await;
    world.switch("shop", "OCIRepository", "images").await;
    let before = [(first.as_str(), None, long_ago()), (second.as_str(), None, at)];
    let (same, next) = (artifact(2), artifact(4));
    let same = (same.as_str(), Some(second.as_str()), soon());
    world.applied_from("shop", &[before[0], before[1], same]).await;
    // Series of another kind of source begin anew.
    let entry = world.accounted(&uid, same.0).await;
    assert_eq!((entry.commits.counted, revisions(&entry, Outcome::Empty)), (0, 1), "{entry:?}");

    world.commit("third");
    let fourth = world.commit("fourth");
    world.publish_artifact("OCIRepository", "images", &next, world.built(&fourth, soon())).await;
    world.applied_from("shop", &[before[0], before[1], same, (&next, Some(&fourth), soon())]).await;
    let entry = world.accounted(&uid, &next).await;
    assert_eq!((entry.commits.counted, entry.commits.baseline), (2, 0), "{entry:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_counted_of_another_kind_of_source_is_told_until_somebody_took_it() {
    let (world, uid, first) = settled().await;
    let world = world.set("commit_tracker.exporter_info", "none");
    let tracker = world.tracker();
    world.accounted(&uid, &first).await;
    let second = world.commit("second");
    world.applied("shop", &[(&first, long_ago()), (&second, Timestamp::now())]).await;
    assert_eq!(world.accounted(&uid, &second).await.commits.counted, 1);
    world.source("OCIRepository", "images").await;
    let built = artifact(2);
    world.publish_artifact("OCIRepository", "images", &built, world.built(&second, soon())).await;
    world.switch("shop", "OCIRepository", "images").await;
    world.applied_from("shop", &[(&first, None, long_ago()), (&built, Some(&second), soon())]).await;
    world.accounted(&uid, &built).await;
    let shows = async |process: &Process| {
        eventually("both are shown", || async {
            let text = process.context.metrics.render().unwrap();
            let counted = |kind: &str, count: u64| {
                text.lines().any(|line| {
                    line.starts_with("flux_commit_tracker_commits_total{")
                        && line.contains(&format!("k8s_source_kind=\"{kind}\",outcome=\"counted\"}} {count}"))
                })
            };
            if counted("GitRepository", 1) && counted("OCIRepository", 0) {
                Ok(())
            } else {
                Err(text.clone())
            }
        })
        .await;
    };
    shows(&tracker).await;
    tracker.stop().await;
    shows(&world.tracker()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_that_is_the_first_brings_what_came_since_the_last_commit() {
    let (world, uid, first) = settled().await;
    let world = world.set("commit_tracker.exporter_info", "none");
    let _tracker = world.tracker();
    world.accounted(&uid, &first).await;
    world.commit("second");
    let third = world.commit("third");
    world.source("OCIRepository", "images").await;
    let built = artifact(3);
    world.publish_artifact("OCIRepository", "images", &built, world.built(&third, soon())).await;
    world.switch("shop", "OCIRepository", "images").await;
    world.applied_from("shop", &[(&first, None, long_ago()), (&built, Some(&third), soon())]).await;
    let entry = world.accounted(&uid, &built).await;
    assert_eq!((entry.commits.counted, entry.commits.baseline), (2, 0), "{entry:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn from_artifacts_to_git_what_no_artifact_had_is_counted() {
    let (world, uid, first) = settled_on_artifacts().await;
    let _tracker = world.tracker();
    world.accounted(&uid, &artifact(1)).await;
    let second = world.commit("second");
    // Merged before the artifact of the second one is applied, and not in it.
    let third = world.commit("third");
    let (old, new) = (artifact(1), artifact(2));
    let steps =
        [(old.as_str(), Some(first.as_str()), long_ago()), (new.as_str(), Some(second.as_str()), soon())];
    world.publish_artifact("OCIRepository", "images", &new, world.built(&second, Timestamp::now())).await;
    world.applied_from("shop", &steps).await;
    assert_eq!(world.accounted(&uid, &new).await.commits.counted, 1);

    world.publish("apps", &third).await;
    world.switch("shop", "GitRepository", "apps").await;
    let at = soon() + Duration::from_secs(3);
    world.applied_from("shop", &[steps[0], steps[1], (&third, None, at)]).await;
    let entry = world.accounted(&uid, &third).await;
    assert_eq!((entry.commits.counted, entry.commits.baseline), (1, 0), "{entry:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_source_had_before_is_not_counted() {
    let (world, uid, first) = settled_on_artifacts().await;
    let _tracker = world.tracker();
    world.accounted(&uid, &artifact(1)).await;
    let (old, months) = (artifact(1), Timestamp::now() - Duration::from_hours(24 * 90));
    let mut steps = vec![(old.as_str(), Some(first.as_str()), long_ago())];
    let revision = |number: usize| format!("sha256:{number:064}");
    let (long_built, built) = (revision(1), revision(2));
    world.publish_artifact("Bucket", "store", &long_built, world.built("build-1", months)).await;
    world.switch("shop", "Bucket", "store").await;
    steps.push((&long_built, None, Timestamp::now()));
    world.applied_from("shop", &steps).await;
    let entry = world.accounted(&uid, &long_built).await;
    assert_eq!((entry.commits.counted, entry.commits.baseline), (0, 1), "{entry:?}");

    world.publish_artifact("Bucket", "store", &built, world.built("build-2", Timestamp::now())).await;
    steps.push((&built, None, soon()));
    world.applied_from("shop", &steps).await;
    let entry = world.accounted(&uid, &built).await;
    assert_eq!((entry.commits.counted, entry.commits.baseline), (1, 1), "{entry:?}");
}
