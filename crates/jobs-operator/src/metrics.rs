//! The operator's instruments, under Grafana's names. Grafana: `jobs/metrics.go`.

mod reference;
mod table;

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, UpDownCounter};
use windlass_api::{JobAction, JobState, JobStatus};
use windlass_lease_queue::progress::{Phase, Recorder, Work};
use windlass_lease_queue::{End, Observer, PruneReason, Record};
use windlass_loki::DropReason;
use windlass_telemetry::{Metrics, Stage, Stages, resources_bucket};

pub use self::reference::reference_markdown;

/// What the operator counts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct JobMetrics {
    queue_size: Gauge<u64>,
    queue_wait: Histogram<f64>,
    claimed: Counter<u64>,
    claim_conflicts: Counter<u64>,
    contended: Counter<u64>,
    claim_errors: Counter<u64>,
    processed: Counter<u64>,
    duration: Histogram<f64>,
    incremental_phase: Histogram<f64>,
    full_phase: Histogram<f64>,
    sync: Histogram<f64>,
    operations: Counter<u64>,
    pull_request: Histogram<f64>,
    pull_request_comments: Counter<u64>,
    in_flight: UpDownCounter<i64>,
    busy: Counter<f64>,
    yields: Counter<u64>,
    reaped: Counter<u64>,
    pruned: Counter<u64>,
    loki_waiting: Gauge<u64>,
    loki_pushed: Counter<u64>,
    loki_dropped: Counter<u64>,
    drivers: Gauge<u64>,
    events: Counter<u64>,
    event_latency: Histogram<f64>,
    stages: Stages,
}

impl JobMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let meter = &metrics.meter("jobs");
        let (in_flight, busy) = (&table::IN_FLIGHT, &table::BUSY);
        Self {
            queue_size: table::QUEUE_SIZE.gauge(meter),
            queue_wait: table::QUEUE_WAIT.seconds(meter),
            claimed: table::CLAIMED.counter(meter),
            claim_conflicts: table::CLAIM_CONFLICTS.counter(meter),
            contended: table::CONTENDED.counter(meter),
            yields: table::YIELDS.counter(meter),
            claim_errors: table::CLAIM_ERRORS.counter(meter),
            processed: table::PROCESSED.counter(meter),
            duration: table::JOB_DURATION.seconds(meter),
            incremental_phase: table::INCREMENTAL_PHASE.seconds(meter),
            full_phase: table::FULL_PHASE.seconds(meter),
            sync: table::SYNC_DURATION.seconds(meter),
            operations: table::OPERATIONS.counter(meter),
            pull_request: table::PULL_REQUEST_DURATION.seconds(meter),
            pull_request_comments: table::PULL_REQUEST_COMMENTS.counter(meter),
            in_flight: meter.i64_up_down_counter(in_flight.name).with_description(in_flight.meaning).build(),
            busy: meter.f64_counter(busy.name).with_description(busy.meaning).with_unit("s").build(),
            reaped: table::REAPED.counter(meter),
            pruned: table::PRUNED.counter(meter),
            loki_waiting: table::LOKI_WAITING.gauge(meter),
            loki_pushed: table::LOKI_PUSHED.counter(meter),
            loki_dropped: table::LOKI_DROPPED.counter(meter),
            drivers: table::DRIVERS.gauge(meter),
            events: table::EVENTS.counter(meter),
            event_latency: table::EVENT_LATENCY.seconds(meter),
            stages: Stages::new(metrics),
        }
    }

    pub(crate) fn drivers(&self, number: usize) {
        self.drivers.record(number as u64, &[]);
    }

    /// A pull request was looked at.
    pub(crate) fn looked_at(&self, took: Duration, succeeded: bool) {
        self.pull_request.record(took.as_secs_f64(), &[outcome(succeeded)]);
    }

    /// A comment was written to a pull request, or refused.
    pub(crate) fn commented(&self, succeeded: bool) {
        self.pull_request_comments.add(1, &[outcome(succeeded)]);
    }

    /// A new job, so long after it was created.
    pub(crate) fn notified(&self, source: &'static str, latency: Duration) {
        let labels = [KeyValue::new("resource", "jobs"), KeyValue::new("source", source)];
        self.events.add(1, &labels);
        self.event_latency.record(latency.as_secs_f64(), &labels);
    }

    /// Waiting jobs by action; actions without any are reported as 0.
    pub(crate) fn queue_size<'a>(&self, waiting: impl Iterator<Item = &'a JobAction>) {
        let mut counts = JobAction::ALL.map(|action| (action, 0));
        for action in waiting {
            if let Some((_, count)) = counts.iter_mut().find(|(known, _)| known == action) {
                *count += 1;
            }
        }
        for (action, count) in counts {
            self.queue_size.record(count, &[KeyValue::new("action", action.as_str().to_owned())]);
        }
    }

    /// A job that ended with this status, and what it did on the way.
    pub(crate) fn finished(&self, action: &str, status: &JobStatus, recorder: &Recorder) {
        let outcome = KeyValue::new("outcome", status.state.as_str());
        let action = KeyValue::new("action", known(action));
        let changes: i64 = status.summary.iter().map(|kind| kind.write + kind.delete).sum();
        let bucket = KeyValue::new("resources_changed_bucket", bucket(status.state, changes));
        self.processed.add(1, &[action.clone(), outcome.clone()]);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds of one job")]
        let seconds = (status.finished - status.started).max(0) as f64 / 1000.0;
        self.duration.record(seconds, &[action.clone(), bucket, outcome]);
        for (done, count) in recorder.operations() {
            let labels = [
                action.clone(),
                KeyValue::new("operation", done.operation),
                KeyValue::new("outcome", done.outcome),
                KeyValue::new("reason", done.reason.clone()),
                KeyValue::new("group", done.group.clone()),
                KeyValue::new("kind", done.kind.clone()),
            ];
            self.operations.add(count, &labels);
        }
        for phase in recorder.phases() {
            let seconds = phase.took.as_secs_f64();
            let named = |name| [KeyValue::new("phase", name)];
            match (phase.work, phase.name) {
                (Work::FullSync, Some(name)) => self.full_phase.record(seconds, &named(name)),
                (Work::IncrementalSync, Some(name)) => self.incremental_phase.record(seconds, &named(name)),
                (Work::FullSync | Work::IncrementalSync, None) => {
                    self.sync.record(seconds, &[KeyValue::new("type", phase.work.as_str())]);
                    self.pulled(status, recorder, phase);
                }
                (Work::Write, _) => {}
            }
        }
    }
}

impl JobMetrics {
    /// The stages of a pull: what changed is fetched while it is compared, and applied afterwards.
    fn pulled(&self, status: &JobStatus, recorder: &Recorder, whole: &Phase) {
        let comparison = recorder
            .phases()
            .iter()
            .find(|phase| phase.name == Some("compare") && phase.start == whole.start);
        let compared = comparison.map_or(Duration::ZERO, |phase| phase.took);
        let since = whole.start.as_millisecond().saturating_sub(status.started);
        let before = Duration::from_millis(u64::try_from(since).unwrap_or(0));
        self.stages.took(Stage::Fetched, before + compared);
        self.stages.took(Stage::Applied, whole.took.saturating_sub(compared));
    }
}

impl Observer for JobMetrics {
    fn claimed(&self, driver: usize, action: &str, wait: Duration) {
        self.claimed.add(1, &[driver_id(driver)]);
        self.queue_wait.record(wait.as_secs_f64(), &[KeyValue::new("action", known(action))]);
        if action == JobAction::Pull.as_str() {
            self.stages.took(Stage::Claimed, wait);
        }
    }

    fn conflict(&self, driver: usize) {
        self.claim_conflicts.add(1, &[driver_id(driver)]);
        self.contended.add(1, &[driver_id(driver)]);
    }

    fn yielded(&self, driver: usize) {
        self.yields.add(1, &[driver_id(driver)]);
        self.contended.add(1, &[driver_id(driver)]);
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

    fn reaped(&self, job: &Record) {
        self.reaped.add(1, &[KeyValue::new("action", known(job.action()))]);
    }
}

impl windlass_loki::Observer for JobMetrics {
    fn waiting(&self, count: usize) {
        self.loki_waiting.record(count as u64, &[]);
    }

    fn pushed(&self, count: usize) {
        self.loki_pushed.add(count as u64, &[]);
    }

    fn dropped(&self, why: DropReason, count: usize) {
        self.loki_dropped.add(count as u64, &[KeyValue::new("reason", why.as_str())]);
    }
}

fn outcome(succeeded: bool) -> KeyValue {
    KeyValue::new("outcome", if succeeded { "success" } else { "error" })
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
    match state {
        JobState::Error => "unknown",
        _ => resources_bucket(u64::try_from(changes).unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests;
