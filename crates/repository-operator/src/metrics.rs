//! The operator's instruments, under Grafana's names.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use windlass_api::{JobState, Repository, SyncTarget};
use windlass_runtime::{Clock, EventRecorder, Store};
use windlass_telemetry::{Metrics, Stage, Stages};

use crate::reconcile::ReconcileError;

/// The meter of everything about repositories.
pub(crate) const METER: &str = "repositories";

/// What the operator counts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RepositoryMetrics {
    checks: Counter<u64>,
    check_duration: Histogram<f64>,
    tokens: Counter<u64>,
    token_errors: Counter<u64>,
    finalizers: Counter<u64>,
    rotations_overdue: Counter<u64>,
    errors: Counter<u64>,
    stages: Stages,
    clock: Arc<dyn Clock>,
}

impl RepositoryMetrics {
    /// Makes the instruments. Gauges are read from `repositories` whenever metrics are rendered, so that what was
    /// deleted is not told of any more.
    pub(crate) fn new(
        metrics: &Metrics,
        repositories: &Store<Repository>,
        events: &EventRecorder,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let meter = &metrics.meter(METER);
        observe(meter, repositories);
        let events = events.clone();
        meter
            .u64_observable_counter("windlass_repository_events_dropped_total")
            .with_description("Kubernetes Events about repositories that were not written.")
            .with_callback(move |counter| counter.observe(events.dropped(), &[]))
            .build();
        let counter = |name: &'static str, meaning: &'static str| {
            meter.u64_counter(name).with_description(meaning).build()
        };
        Self {
            check_duration: meter
                .f64_histogram("grafana_provisioning_health_checked_duration_seconds")
                .with_description("Time of a health check.")
                .with_unit("s")
                .with_boundaries(vec![0.1, 0.2, 0.5, 1.0, 2.0, 5.0])
                .build(),
            tokens: counter(
                "grafana_provisioning_repository_token_generated_total",
                "Tokens that connections gave to repositories.",
            ),
            token_errors: counter(
                "grafana_provisioning_repository_token_generation_errors_total",
                "Tokens that connections did not give.",
            ),
            finalizers: counter(
                "grafana_provisioning_finalizers_processed_total",
                "Finalizers of repositories that were run, by outcome.",
            ),
            rotations_overdue: counter(
                "grafana_provisioning_webhook_secret_rotation_overdue_total",
                "Looks at a webhook whose secret is to be changed and could not be.",
            ),
            checks: meter
                .u64_counter("grafana_provisioning_health_checked_total")
                .with_description("Health checks, by outcome.")
                .build(),
            errors: meter
                .u64_counter("grafana_provisioning_repository_reconcile_errors_total")
                .with_description("Passes over a repository that failed.")
                .build(),
            stages: Stages::new(metrics),
            clock,
        }
    }

    pub(crate) fn checked(&self, success: bool, took: Duration) {
        let resource = KeyValue::new("resource", "repository");
        self.check_duration.record(took.as_secs_f64(), std::slice::from_ref(&resource));
        self.checks.add(1, &[resource, outcome(success)]);
    }

    /// A connection gave a token, or did not.
    pub(crate) fn token(&self, given: bool) {
        if given { &self.tokens } else { &self.token_errors }.add(1, &[]);
    }

    /// A finalizer was run to its end, or failed.
    pub(crate) fn finalized(&self, finalizer: &'static str, success: bool) {
        self.finalizers.add(1, &[KeyValue::new("finalizer_type", finalizer), outcome(success)]);
    }

    /// The secret of a webhook is old, and could not be changed: because of what somebody has to do, or not.
    pub(crate) fn rotation_overdue(&self, is_theirs: bool) {
        let cause = if is_theirs { "user" } else { "system" };
        self.rotations_overdue.add(1, &[KeyValue::new("cause", cause)]);
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
        self.count(match error {
            ReconcileError::Call(_) | ReconcileError::Interrupted => "status",
            ReconcileError::QueueSync(_) => "sync",
            ReconcileError::Finalize(_) => "delete",
        });
    }

    pub(crate) fn panicked(&self) {
        self.count("panic");
    }

    fn count(&self, phase: &'static str) {
        self.errors.add(1, &[KeyValue::new("phase", phase), KeyValue::new("cause", "system")]);
    }
}

/// Gauges of each repository that there is. The meter keeps the callbacks; the instruments need not be kept.
fn observe(meter: &Meter, repositories: &Store<Repository>) {
    let store = repositories.clone();
    meter
        .u64_observable_gauge("grafana_provisioning_repository_health")
        .with_description("Whether a repository is healthy, 1 or 0.")
        .with_callback(move |gauge| {
            for repository in store.list() {
                gauge.observe(u64::from(repository.status.health.healthy), &labels(&repository));
            }
        })
        .build();
    let store = repositories.clone();
    meter
        .u64_observable_gauge("grafana_provisioning_repository_info")
        .with_description("What a repository is; always 1.")
        .with_callback(move |gauge| {
            for repository in store.list() {
                let spec = &repository.spec;
                let [namespace, name] = labels(&repository);
                let target = spec.sync.target.map_or("", SyncTarget::as_str);
                let (kind, target) =
                    (KeyValue::new("type", spec.kind.as_str()), KeyValue::new("target", target));
                gauge.observe(1, &[namespace, name, kind, target]);
            }
        })
        .build();
    let store = repositories.clone();
    meter
        .f64_observable_gauge("grafana_provisioning_repository_last_sync_timestamp_seconds")
        .with_description("When a repository was last in step, in Unix seconds: its last sync ended, or there was nothing to pull.")
        .with_callback(move |gauge| {
            for repository in store.list() {
                let last = repository.status.sync.finished.max(repository.status.sync.checked);
                if last > 0 {
                    gauge.observe(last as f64 / 1000.0, &labels(&repository));
                }
            }
        })
        .build();
    let store = repositories.clone();
    meter
        .u64_observable_gauge("grafana_provisioning_repository_managed_resources")
        .with_description("Objects that a repository manages, by kind.")
        .with_callback(move |gauge| {
            for repository in store.list() {
                for count in &repository.status.stats {
                    let [namespace, name] = labels(&repository);
                    let group = KeyValue::new("group", count.group.clone());
                    let resource = KeyValue::new("resource", count.resource.clone());
                    let kind = [namespace, name, group, resource];
                    gauge.observe(u64::try_from(count.count).unwrap_or(0), &kind);
                }
            }
        })
        .build();
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
