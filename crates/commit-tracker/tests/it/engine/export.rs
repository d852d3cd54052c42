//! What is exported: the leader's alone, and the same series whoever leads.

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;

use super::world::{Death, lines, shows};
use super::{eventually, settled, tracked};

const TIMES: &str = "flux_commit_tracker_e2e_export_time_seconds";

/// The line of this many commits.
fn count(number: u32) -> [String; 1] {
    let series = r#"{k8s_resource_name="shop",k8s_namespace_name="apps",k8s_source_kind="GitRepository"}"#;
    [format!("{TIMES}_count{series} {number}")]
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_replicas_one_counts_and_shows_it_and_the_other_takes_over_where_it_was() {
    let (world, leader, uid, first) = tracked(&[]).await;
    let counted = format!("{TIMES}_count");
    shows(&leader, &counted, |shown| shown == count(0)).await;
    let second = world.commit("second");
    world.moves(&first, &second).await;
    world.accounted(&uid, &second).await;
    shows(&leader, &counted, |shown| shown == count(1)).await;
    let shown = lines(&leader, TIMES);

    let next = world.tracker();
    eventually("the next is ready", async || {
        Some(next.context.health.not_ready()).filter(|not_ready| !not_ready.is_empty()).map_or(Ok(()), Err)
    })
    .await;
    assert_eq!(lines(&next, TIMES), [""; 0], "it does not lead");
    leader.kill().await;
    shows(&next, TIMES, |now| now == shown).await;
    world.moves(&second, &world.commit("third")).await;
    shows(&next, &counted, |shown| shown == count(2)).await;
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pushed_is_not_scraped_as_well() {
    let (_world, pushes, ..) = tracked(&[("operator.telemetry_mode", "stdout-logs+otlp")]).await;
    shows(&pushes, "flux_commit_tracker_kustomizations", |own| !own.is_empty()).await;
    assert_eq!(lines(&pushes, "flux_commit_tracker_commits_total"), [""; 0]);
    pushes.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_only_observes_counts_and_writes_nothing_to_the_cluster() {
    let (world, _, first) = settled(&[("commit_tracker.observe_only", "auto")]).await;
    // It stands in nobody's way, and would have been in its own.
    let observer = world.tracker_that_dies(Death::Before(1));
    shows(&observer, &format!("{TIMES}_count"), |shown| shown == count(0)).await;
    let second = world.commit("second");
    world.publish(&second).await;
    world.moves(&first, &second).await;
    shows(&observer, &format!("{TIMES}_count"), |shown| shown == count(1)).await;
    let leases: Api<Lease> = Api::all(world.client.clone());
    assert_eq!(leases.list(&ListParams::default()).await.unwrap().items, []);
}
