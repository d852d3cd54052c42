//! What is exported: the leader's alone, and the same series whoever leads.

use jiff::Timestamp;

use super::settled;
use super::world::{Process, eventually};

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
