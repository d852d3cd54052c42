//! The operator's instruments, under Grafana's names.

mod reference;
mod table;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use windlass_api::conditions::reasons;
use windlass_api::{JobState, Repository, SyncTarget};
use windlass_runtime::{Clock, EventRecorder, ObjectKey, Store, TermQueue};
use windlass_telemetry::{MetricRow, Metrics, Stage, Stages, resources_bucket};

pub use self::reference::reference_markdown;
use crate::bring_up::TokenWanted;
use crate::error::{FinalizeError, Obstacle, ReconcileError};

/// The meter of everything about repositories.
pub(crate) const METER: &str = "repositories";

/// A gauge that is looked at when metrics are rendered. The meter keeps the callback; the instrument need not be kept.
macro_rules! gauge {
    ($meter:ident, $kind:ident, $row:expr, $callback:expr) => {{
        let row: &MetricRow = &$row;
        $meter.$kind(row.name).with_description(row.meaning).with_callback($callback).build();
    }};
}
/// What is counted of health checks, of repositories and of connections. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HealthMetrics {
    checks: Counter<u64>,
    duration: Histogram<f64>,
}

impl HealthMetrics {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let meter = &metrics.meter(METER);
        Self { checks: table::CHECKS.counter(meter), duration: table::CHECK_DURATION.seconds(meter) }
    }

    /// A `repository` or a `connection` was checked.
    pub(crate) fn checked(&self, resource: &'static str, success: bool, took: Duration) {
        let resource = KeyValue::new("resource", resource);
        self.duration.record(took.as_secs_f64(), std::slice::from_ref(&resource));
        self.checks.add(1, &[resource, outcome(success)]);
    }
}

/// What the operator counts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RepositoryMetrics {
    checks: HealthMetrics,
    queue_wait: Histogram<f64>,
    tokens: Counter<u64>,
    token_errors: Counter<u64>,
    token_duration: Histogram<f64>,
    token_reasons: Counter<u64>,
    token_left: Histogram<f64>,
    finalizers: Counter<u64>,
    finalizer_duration: Histogram<f64>,
    deletion_pending: Histogram<f64>,
    deletions: Counter<u64>,
    deletion_failures: Counter<u64>,
    rotations_overdue: Counter<u64>,
    errors: Counter<u64>,
    stages: Stages,
    clock: Arc<dyn Clock>,
}

impl RepositoryMetrics {
    /// Makes the instruments. Gauges are read from `repositories` and the queue whenever metrics are rendered, so that
    /// what was deleted is not told of any more.
    pub(crate) fn new(
        metrics: &Metrics,
        repositories: &Store<Repository>,
        queue: &TermQueue<ObjectKey>,
        events: &EventRecorder,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let meter = &metrics.meter(METER);
        observe_repositories(meter, repositories);
        observe_queue(meter, queue);
        let events = events.clone();
        let dropped = &table::EVENTS_DROPPED;
        meter
            .u64_observable_counter(dropped.name)
            .with_description(dropped.meaning)
            .with_callback(move |counter| counter.observe(events.dropped(), &[]))
            .build();
        Self {
            checks: HealthMetrics::new(metrics),
            queue_wait: table::QUEUE_WAIT.seconds(meter),
            tokens: table::TOKENS.counter(meter),
            token_errors: table::TOKEN_ERRORS.counter(meter),
            token_duration: table::TOKEN_DURATION.seconds(meter),
            token_reasons: table::TOKEN_REASONS.counter(meter),
            token_left: table::TOKEN_LEFT.seconds(meter),
            finalizers: table::FINALIZERS.counter(meter),
            finalizer_duration: table::FINALIZER_DURATION.seconds(meter),
            deletion_pending: table::DELETION_PENDING.seconds(meter),
            deletions: table::DELETIONS.counter(meter),
            deletion_failures: table::DELETION_FAILURES.counter(meter),
            rotations_overdue: table::ROTATION_OVERDUE.counter(meter),
            errors: table::ERRORS.counter(meter),
            stages: Stages::new(metrics),
            clock,
        }
    }

    /// A worker took a repository that was due for so long.
    pub(crate) fn taken(&self, waited: Duration) {
        self.queue_wait.record(waited.as_secs_f64(), &[]);
    }

    /// A pass begins over a repository as it is.
    pub(crate) fn begun(&self, repository: &Repository) {
        let now = self.clock.now();
        let millis = |millis: i64| Duration::from_millis(u64::try_from(millis).unwrap_or(0)).as_secs_f64();
        if let Some(deleted) = &repository.metadata.deletion_timestamp {
            let since = now.as_millisecond().saturating_sub(deleted.0.as_millisecond());
            self.deletion_pending.record(millis(since), &[]);
        }
        let ends = repository.status.token.as_ref().map_or(0, |token| token.expiration);
        if ends != 0 && !repository.spec.connection_name().is_empty() {
            self.token_left.record(millis(ends.saturating_sub(now.as_millisecond())), &[]);
        }
    }

    /// The repository was checked; with which reason, where that failed.
    pub(crate) fn checked(&self, failure: Option<&str>, took: Duration) {
        self.checks.checked("repository", failure.is_none(), took);
        if let Some(reason) = failure {
            self.count("health", cause(reason));
        }
    }

    /// A webhook could not be looked after.
    pub(crate) fn hook_failed(&self, reason: &str) {
        self.count("hook", cause(reason));
    }

    /// A token is asked for.
    pub(crate) fn token_wanted(&self, why: TokenWanted) {
        let reason = match why {
            TokenWanted::Missing => "missing",
            TokenWanted::Refused => "invalid",
            TokenWanted::Ending => "expiring",
        };
        self.token_reasons.add(1, &[KeyValue::new("reason", reason)]);
    }

    /// A connection gave a token, or did not, and with which reason.
    pub(crate) fn token(&self, failure: Option<&str>, took: Duration) {
        match failure {
            None => {
                self.tokens.add(1, &[]);
                self.token_duration.record(took.as_secs_f64(), &[]);
            }
            Some(reason) => {
                let cause = cause(reason);
                self.token_errors.add(1, &[KeyValue::new("cause", cause)]);
                self.count("token", cause);
            }
        }
    }

    /// A finalizer was run to its end, which had to do with so many resources.
    pub(crate) fn finalized(&self, finalizer: &'static str, resources: usize, took: Duration) {
        let finalizer = KeyValue::new("finalizer_type", finalizer);
        let bucket = KeyValue::new("resource_count_bucket", resources_bucket(resources as u64));
        self.finalizer_duration.record(took.as_secs_f64(), &[finalizer.clone(), bucket]);
        self.finalizers.add(1, &[finalizer, outcome(true)]);
    }

    /// Nothing of ours holds the repository any more.
    pub(crate) fn deleted(&self) {
        self.deletions.add(1, &[]);
    }

    /// A finalizer could not be run to its end.
    pub(crate) fn deletion_failed(&self, error: &FinalizeError) {
        self.finalizers.add(1, &[KeyValue::new("finalizer_type", error.finalizer), outcome(false)]);
        let stage = match error.obstacle {
            Obstacle::TakeOff(_) => "remove_finalizers",
            _ => "process_finalizers",
        };
        self.deletion_failures.add(1, &[KeyValue::new("stage", stage)]);
    }

    /// The secret of a webhook is old, and could not be changed, with which reason.
    pub(crate) fn rotation_overdue(&self, reason: &str) {
        self.rotations_overdue.add(1, &[KeyValue::new("cause", cause(reason))]);
    }

    /// What was seen of a repository: a pull that ended well, if that is the news.
    pub(crate) fn seen(&self, before: &Repository, now: &Repository) {
        let (was, is) = (&before.status.sync, &now.status.sync);
        if is.state == JobState::Success && is.finished != was.finished && now.status.health.healthy {
            let since = self.clock.now().as_millisecond().saturating_sub(is.finished);
            self.stages.took(Stage::Healthy, Duration::from_millis(u64::try_from(since).unwrap_or(0)));
        }
    }

    pub(crate) fn failed(&self, error: &ReconcileError) {
        let phase = match error {
            ReconcileError::Call(_) | ReconcileError::Interrupted => "status",
            // A call that fails is told of as one.
            ReconcileError::BringUp(_) => "panic",
            ReconcileError::QueueSync(_) => "sync",
            ReconcileError::Finalize(_) => "delete",
        };
        self.count(phase, "system");
    }

    pub(crate) fn panicked(&self) {
        self.count("panic", "system");
    }

    fn count(&self, phase: &'static str, cause: &'static str) {
        self.errors.add(1, &[KeyValue::new("phase", phase), KeyValue::new("cause", cause)]);
    }
}

/// Whether somebody has to do something about what a condition gives this reason for.
fn cause(reason: &str) -> &'static str {
    match reason {
        reasons::RATE_LIMITED | reasons::SERVICE_UNAVAILABLE => "system",
        _ => "user",
    }
}

/// Gauges of the queue, while there is one.
fn observe_queue(meter: &Meter, queue: &TermQueue<ObjectKey>) {
    let terms = queue.clone();
    gauge!(meter, u64_observable_gauge, table::QUEUE_SIZE, move |gauge| {
        if let Some(queue) = terms.current() {
            gauge.observe(queue.waiting() as u64, &[]);
        }
    });
    let terms = queue.clone();
    gauge!(meter, f64_observable_gauge, table::QUEUE_LAG, move |gauge| {
        if let Some(queue) = terms.current() {
            gauge.observe(queue.lag().as_secs_f64(), &[]);
        }
    });
}

/// Gauges of each repository that there is.
fn observe_repositories(meter: &Meter, repositories: &Store<Repository>) {
    let store = repositories.clone();
    gauge!(meter, u64_observable_gauge, table::HEALTH, move |gauge| {
        for repository in store.list() {
            gauge.observe(u64::from(repository.status.health.healthy), &labels(&repository));
        }
    });
    let store = repositories.clone();
    gauge!(meter, u64_observable_gauge, table::INFO, move |gauge| {
        for repository in store.list() {
            let spec = &repository.spec;
            let [namespace, name] = labels(&repository);
            let target = spec.sync.target.map_or("", SyncTarget::as_str);
            let (kind, target) = (KeyValue::new("type", spec.kind.as_str()), KeyValue::new("target", target));
            gauge.observe(1, &[namespace, name, kind, target]);
        }
    });
    let store = repositories.clone();
    gauge!(meter, f64_observable_gauge, table::LAST_SYNC, move |gauge| {
        for repository in store.list() {
            let last = repository.status.sync.finished.max(repository.status.sync.checked);
            if last > 0 {
                gauge.observe(last as f64 / 1000.0, &labels(&repository));
            }
        }
    });
    let store = repositories.clone();
    gauge!(meter, u64_observable_gauge, table::MANAGED, move |gauge| {
        for repository in store.list() {
            for count in &repository.status.stats {
                let [namespace, name] = labels(&repository);
                let group = KeyValue::new("group", count.group.clone());
                let resource = KeyValue::new("resource", count.resource.clone());
                let kind = [namespace, name, group, resource];
                gauge.observe(u64::try_from(count.count).unwrap_or(0), &kind);
            }
        }
    });
}

fn outcome(success: bool) -> KeyValue {
    KeyValue::new("outcome", if success { "success" } else { "error" })
}

fn labels(repository: &Repository) -> [KeyValue; 2] {
    [
        KeyValue::new("namespace", repository.metadata.namespace.clone().unwrap_or_default()),
        KeyValue::new("name", repository.metadata.name.clone().unwrap_or_default()),
    ]
}

#[cfg(test)]
mod tests;
