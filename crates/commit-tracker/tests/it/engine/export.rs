//! What is exported: the leader's alone, and the same series whoever leads.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::ListParams;

use super::settled;
use super::world::{Death, Process, eventually};

/// Waits until the process's metrics have this line alone for a name: what is recorded is shown a moment later.
async fn shows(process: &Process, name: &str, line: String) {
    eventually("it is shown", || async {
        let shown = lines(process, name);
        if shown == [line.clone()] { Ok(()) } else { Err(shown) }
    })
    .await;
}

/// The lines of a process's metrics that begin like this, without the bounds of buckets.
fn lines(process: &Process, name: &str) -> Vec<String> {
    let text = process.context.metrics.render().unwrap();
    text.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_alone_shows_what_was_counted_and_the_next_one_goes_on_with_it() {
    let (world, uid, first) = settled().await;
    let leader = world.tracker();
    world.accounted(&uid, &first).await;
    let series = r#"{k8s_resource_name="shop",k8s_namespace_name="apps",k8s_source_kind="GitRepository"}"#;
    let name = "flux_commit_tracker_e2e_export_time_seconds_count";
    shows(&leader, name, format!("{name}{series} 0")).await;

    let second = world.commit("second");
    world.publish("apps", &second).await;
    world.applied("shop", &[(&first, super::long_ago()), (&second, Timestamp::now())]).await;
    world.accounted(&uid, &second).await;
    shows(&leader, name, format!("{name}{series} 1")).await;
    let shown = lines(&leader, "flux_commit_tracker_e2e_export_time_seconds");

    let next = world.tracker();
    assert_eq!(lines(&next, "flux_commit_tracker_e2e"), [""; 0], "it does not lead");
    leader.stop().await;
    eventually("the next one shows the same", || async {
        let now = lines(&next, "flux_commit_tracker_e2e_export_time_seconds");
        if now == shown { Ok(()) } else { Err(now) }
    })
    .await;
    next.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_pushed_is_not_scraped_as_well() {
    let (world, uid, first) = settled().await;
    let world = world.set("operator.telemetry_mode", "stdout-logs+otlp");
    let pushes = world.tracker();
    world.accounted(&uid, &first).await;
    eventually("it shows what it tells of itself", || async {
        let own = lines(&pushes, "flux_commit_tracker_kustomizations");
        if own.is_empty() { Err(own) } else { Ok(()) }
    })
    .await;
    assert_eq!(lines(&pushes, "flux_commit_tracker_commits_total"), [""; 0]);
    pushes.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_only_observes_counts_and_writes_nothing_to_the_cluster() {
    let (world, _, first) = settled().await;
    let world = world.set("commit_tracker.observe_only", "auto");
    // It stands in nobody's way, and would have been in its own.
    let death = Death::Before(1);
    let observer = world.tracker_that_dies(death);
    let series = r#"{k8s_resource_name="shop",k8s_namespace_name="apps",k8s_source_kind="GitRepository"}"#;
    let name = "flux_commit_tracker_e2e_export_time_seconds_count";
    shows(&observer, name, format!("{name}{series} 0")).await;
    let second = world.commit("second");
    world.publish("apps", &second).await;
    world.applied("shop", &[(&first, super::long_ago()), (&second, Timestamp::now())]).await;
    shows(&observer, name, format!("{name}{series} 1")).await;
    let leases: Api<Lease> = Api::all(world.client.clone());
    assert_eq!(leases.list(&ListParams::default()).await.unwrap().items, []);
}
