//! The operator's instruments, under Grafana's names. Grafana: `jobs/metrics.go`.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, UpDownCounter};
use windlass_api::{JobAction, JobState, JobStatus};
use windlass_lease_queue::{End, Observer, PruneReason};

/// Bounds in seconds: Grafana's, with finer ones below, since a claim here is a matter of milliseconds.
const WAIT: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];
const DURATION: [f64; 10] = [0.05, 0.25, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 1200.0];

/// What the operator counts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct JobMetrics {
    queue_size: Gauge<u64>,
    queue_wait: Histogram<f64>,
    claimed: Counter<u64>,
    claim_conflicts: Counter<u64>,
    claim_errors: Counter<u64>,
    processed: Counter<u64>,
    duration: Histogram<f64>,
    operations: Counter<u64>,
    in_flight: UpDownCounter<i64>,
    busy: Counter<f64>,
    yields: Counter<u64>,
    reaped: Counter<u64>,
    pruned: Counter<u64>,
    drivers: Gauge<u64>,
    events: Counter<u64>,
}

impl JobMetrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str, about: &'static str| {
            meter.u64_counter(format!("grafana_provisioning_{name}")).with_description(about).build()
        };
        let seconds = |name: &'static str, about: &'static str, bounds: &[f64]| {
            meter
                .f64_histogram(format!("grafana_provisioning_{name}"))
                .with_description(about)
                .with_unit("s")
                .with_boundaries(bounds.to_vec())
                .build()
        };
        let gauge = |name: &'static str, about: &'static str| {
            meter.u64_gauge(format!("grafana_provisioning_{name}")).with_description(about).build()
        };
        Self {
            queue_size: gauge("jobs_queue_size", "Jobs that wait, by action."),
            queue_wait: seconds("jobs_queue_wait_seconds", "From a job's creation to its claim.", &WAIT),
            claimed: counter("jobs_claimed_total", "Claims won, by driver."),
            claim_conflicts: counter("jobs_claim_conflicts_total", "Claims that another replica won."),
            yields: counter(
                "jobs_claims_yielded_total",
                "Claims given back since another job of the repository ran, by driver.",
            ),
            claim_errors: counter("jobs_claim_errors_total", "Claims that failed otherwise."),
            processed: counter("jobs_processed_total", "Jobs run, by action and outcome."),
            duration: seconds("jobs_duration_seconds", "Time that a job ran.", &DURATION),
            operations: counter("jobs_resource_operations_total", "What jobs did to resources."),
            in_flight: meter
                .i64_up_down_counter("grafana_provisioning_jobs_in_flight")
                .with_description("Jobs that run now.")
                .build(),
            busy: meter
                .f64_counter("grafana_provisioning_jobs_busy_seconds_total")
                .with_description("Time that drivers spent on jobs.")
                .with_unit("s")
                .build(),
            reaped: counter("jobs_reaped_total", "Jobs failed because their attempts were used up."),
            pruned: counter(
                "jobs_history_pruned_total",
                "Records of finished jobs that were deleted, by the limit they were over: age, count or bytes.",
            ),
            drivers: gauge("jobs_concurrent_driver_num_drivers", "Drivers of this process."),
            events: counter("events_processed_total", "Notifications taken in, by source."),
        }
    }

    pub(crate) fn drivers(&self, number: usize) {
        self.drivers.record(number as u64, &[]);
    }

    pub(crate) fn notified(&self, source: &'static str) {
        self.events.add(1, &[KeyValue::new("resource", "jobs"), KeyValue::new("source", source)]);
    }

    /// Waiting jobs by action; actions without any are reported as 0.
    pub(crate) fn queue_size(&self, waiting: impl Iterator<Item = String>) {
        let mut counts: Vec<(String, u64)> =
            JobAction::ALL.iter().map(|action| (action.as_str().to_owned(), 0)).collect();
        for action in waiting {
            if let Some((_, count)) = counts.iter_mut().find(|(known, _)| *known == action) {
                *count += 1;
            }
        }
        for (action, count) in counts {
            self.queue_size.record(count, &[KeyValue::new("action", action)]);
        }
    }

    /// A job that ended with this status.
    pub(crate) fn finished(&self, action: &str, status: &JobStatus) {
        let outcome = KeyValue::new("outcome", status.state.as_str());
        let action = KeyValue::new("action", known(action));
        let changes: i64 = status.summary.iter().map(|kind| kind.write + kind.delete).sum();
        let bucket = KeyValue::new("resources_changed_bucket", bucket(status.state, changes));
        self.processed.add(1, &[action.clone(), outcome.clone()]);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of one job")]
        let seconds = (status.finished - status.started).max(0) as f64 / 1000.0;
        self.duration.record(seconds, &[action.clone(), bucket, outcome]);
        for kind in &status.summary {
            let group = KeyValue::new("group", kind.group.clone());
            let name = KeyValue::new("kind", kind.kind.clone());
            for (operation, outcome, count) in [
                ("created", "success", kind.create),
                ("updated", "success", kind.update),
                ("deleted", "success", kind.delete),
                ("ignored", "success", kind.noop),
                ("failed", "error", kind.error),
                ("failed", "warning", kind.warning),
            ] {
                let Ok(count @ 1..) = u64::try_from(count) else { continue };
                let labels = [
                    action.clone(),
                    KeyValue::new("operation", operation),
                    KeyValue::new("outcome", outcome),
                    group.clone(),
                    name.clone(),
                ];
                self.operations.add(count, &labels);
            }
        }
    }
}

impl Observer for JobMetrics {
    fn claimed(&self, driver: usize, action: &str, wait: Duration) {
        self.claimed.add(1, &[driver_id(driver)]);
        self.queue_wait.record(wait.as_secs_f64(), &[KeyValue::new("action", known(action))]);
    }

    fn conflict(&self, driver: usize) {
        self.claim_conflicts.add(1, &[driver_id(driver)]);
    }

    fn yielded(&self, driver: usize) {
        self.yields.add(1, &[driver_id(driver)]);
    }

    fn claim_failed(&self, driver: usize) {
        self.claim_errors.add(1, &[driver_id(driver)]);
    }

    fn started(&self, driver: usize, action: &str) {
        self.in_flight.add(1, &[driver_id(driver), KeyValue::new("action", known(action))]);
    }

    fn ended(&self, driver: usize, action: &str, busy: Duration, _end: End) {
        let labels = [driver_id(driver), KeyValue::new("action", known(action))];
        self.in_flight.add(-1, &labels);
        self.busy.add(busy.as_secs_f64(), &labels);
    }

    fn pruned(&self, why: PruneReason, count: u64) {
        self.pruned.add(count, &[KeyValue::new("reason", why.as_str())]);
    }

    fn reaped(&self, action: &str) {
        self.reaped.add(1, &[KeyValue::new("action", known(action))]);
    }
}

fn driver_id(driver: usize) -> KeyValue {
    KeyValue::new("driver_id", driver.to_string())
}

/// An action as a label's value: whatever a client made up is one value, so that labels stay few.
fn known(action: &str) -> String {
    match JobAction::parse(action) {
        JobAction::Other(_) => "other".to_owned(),
        action => action.as_str().to_owned(),
    }
}

fn bucket(state: JobState, changes: i64) -> &'static str {
    match changes {
        _ if state == JobState::Error => "unknown",
        ..=0 => "0",
        1..=10 => "1-10",
        11..=50 => "11-50",
        51..=100 => "51-100",
        101..=500 => "101-500",
        501..=1000 => "501-1000",
        _ => "1000+",
    }
}
