//! The operator's instruments, under Grafana's names.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use windlass_api::{JobState, Repository};
use windlass_runtime::{Clock, EventRecorder, Store};
use windlass_telemetry::{Metrics, Stage, Stages};

use crate::reconcile::ReconcileError;

/// The meter of everything about repositories.
pub(crate) const METER: &str = "repositories";

/// What the operator counts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RepositoryMetrics {
    checks: Counter<u64>,
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
        Self {
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

    pub(crate) fn checked(&self, success: bool) {
        let outcome = if success { "success" } else { "error" };
        self.checks.add(1, &[KeyValue::new("resource", "repository"), KeyValue::new("outcome", outcome)]);
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

fn labels(repository: &Repository) -> [KeyValue; 2] {
    [
        KeyValue::new("namespace", repository.metadata.namespace.clone().unwrap_or_default()),
        KeyValue::new("name", repository.metadata.name.clone().unwrap_or_default()),
    ]
}
