use jiff::Timestamp;
use windlass_lease_queue::progress::{Failure, Phase, ResourceAction, ResourceResult};
use windlass_telemetry::{Metrics, metrics_differences};

use super::table::TABLE;
use super::*;

/// Everything that is ever told, once.
fn exercised() -> String {
    let metrics = Metrics::new().unwrap();
    let told = JobMetrics::new(&metrics);
    let second = Duration::from_secs(1);
    told.drivers(3);
    told.notified("live", second);
    told.queue_size([JobAction::Pull].iter());
    told.claimed(0, "pull", second);
    told.conflict(0);
    told.yielded(0);
    told.claim_failed(0);
    told.started(0, "pull");
    told.ended(0, "pull", second, End::Completed);
    told.reaped(&crate::trace::tests::record("a"));
    told.looked_at(second, true);
    told.commented(false);
    Observer::pruned(&told, PruneReason::Age, 1);
    windlass_loki::Observer::waiting(&told, 2);
    windlass_loki::Observer::pushed(&told, 1);
    windlass_loki::Observer::dropped(&told, DropReason::QueueFull, 1);

    let mut recorder = Recorder::new(1000);
    let result = |action| ResourceResult::new("a.json", "dashboard.grafana.app", "Dashboard", action);
    recorder.record(&result(ResourceAction::Renamed));
    recorder.record(
        &result(ResourceAction::Updated).failed(Failure::warning("ResourceInvalid", "it is no dashboard")),
    );
    for (work, name) in [
        (Work::FullSync, None),
        (Work::FullSync, Some("file_creations")),
        (Work::IncrementalSync, Some("apply")),
    ] {
        recorder.add_phase(Phase { work, name, start: Timestamp::UNIX_EPOCH, took: second });
    }
    told.finished("pull", &recorder.finish(Ok(()), 3000), &recorder);
    metrics.render().unwrap()
}

#[test]
fn every_metric_of_the_table_is_told_with_its_labels_and_no_other_is() {
    let text = exercised();
    assert_eq!(metrics_differences(TABLE, &text), Vec::<String>::new(), "{text}");
}

#[test]
fn operations_say_what_was_tried_and_why_it_failed() {
    let text = exercised();
    for labels in [
        r#"action="pull",group="dashboard.grafana.app",kind="Dashboard",operation="renamed",outcome="success",reason="""#,
        r#"action="pull",group="dashboard.grafana.app",kind="Dashboard",operation="updated",outcome="warning",reason="ResourceInvalid""#,
    ] {
        let line = format!("grafana_provisioning_jobs_resource_operations_total{{{labels}}} 1");
        assert!(text.lines().any(|other| other == line), "no {line} in\n{text}");
    }
}
