//! A Kustomization that is pointed at another source: what it applied before is accounted for all the same.

use std::time::Duration;

use jiff::Timestamp;
use windlass_commit_tracker::ledger::Outcome;

use super::tracked;
use super::world::{World, long_ago, shows};

/// Revisions of artifacts.
fn artifact(number: usize) -> String {
    format!("latest@sha256:{number:064}")
}

/// A moment after everything that was merged until now, in the whole seconds of Git and Flux.
fn soon() -> Timestamp {
    Timestamp::now() + Duration::from_secs(3)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_counted_of_another_kind_of_source_is_told_until_somebody_took_it() {
    let (world, tracker, uid, first) = tracked(&[("commit_tracker.exporter_info", "none")]).await;
    let (second, at) = (world.commit("second"), Timestamp::now());
    world.applied("shop", &[(&first, long_ago()), (&second, at)]).await;
    assert_eq!(world.counted(&uid, &second).await, 1);

    // The same commit as an artifact brings nothing new; series of another kind of source begin anew.
    world.switch_to("OCIRepository", &artifact(2), world.built(&second, soon())).await;
    let same = artifact(2);
    let steps = [(&*first, None, long_ago()), (&second, None, at), (&same, Some(&*second), soon())];
    world.applied_from("shop", &steps).await;
    let entry = world.accounted(&uid, &same).await;
    assert_eq!((entry.commits.counted, &*entry.revisions), (0, &[(Outcome::Empty, 1)][..]), "{entry:?}");
    let counted =
        |kind: &str, count: u64| format!("k8s_source_kind=\"{kind}\",outcome=\"counted\"}} {count}");
    let both = [counted("GitRepository", 1), counted("OCIRepository", 0)];
    let are_both = |shown: &[String]| both.iter().all(|end| shown.iter().any(|line| line.ends_with(end)));
    shows(&tracker, "flux_commit_tracker_commits_total{", are_both).await;
    tracker.stop().await;
    let next = world.tracker();
    shows(&next, "flux_commit_tracker_commits_total{", are_both).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn from_artifacts_to_git_what_no_artifact_had_is_counted() {
    let world = World::new(&[("commit_tracker.exporter_info", "none")]).await;
    let first = world.commit("first");
    let uid = world.kustomization("shop").await;
    world.switch_to("OCIRepository", &artifact(1), world.built(&first, long_ago())).await;
    world.applied_from("shop", &[(&artifact(1), Some(&first), long_ago())]).await;
    let _tracker = world.tracker();
    world.accounted(&uid, &artifact(1)).await;
    let second = world.commit("second");
    // Merged before the artifact of the second one is applied, and not in it.
    let third = world.commit("third");
    let (old, new) = (artifact(1), artifact(2));
    let mut steps = vec![(&*old, Some(&*first), long_ago()), (&new, Some(&second), soon())];
    world.publish_artifact("OCIRepository", "images", &new, world.built(&second, Timestamp::now())).await;
    world.applied_from("shop", &steps).await;
    assert_eq!(world.counted(&uid, &new).await, 1);

    world.publish(&third).await;
    world.switch("GitRepository", "apps").await;
    steps.push((&third, None, soon() + Duration::from_secs(3)));
    world.applied_from("shop", &steps).await;
    let entry = world.accounted(&uid, &third).await;
    assert_eq!((entry.commits.counted, entry.commits.baseline), (1, 0), "{entry:?}");
}
