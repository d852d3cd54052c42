//! The operator's instruments, under Grafana's names.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Meter};
use windlass_api::Repository;

use crate::reconcile::ReconcileError;

/// What the operator counts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct RepositoryMetrics {
    checks: Counter<u64>,
    errors: Counter<u64>,
    health: Gauge<u64>,
    last_sync: Gauge<f64>,
    managed: Gauge<u64>,
}

impl RepositoryMetrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        Self {
            checks: meter
                .u64_counter("grafana_provisioning_health_checked_total")
                .with_description("Health checks, by outcome.")
                .build(),
            errors: meter
                .u64_counter("grafana_provisioning_repository_reconcile_errors_total")
                .with_description("Passes over a repository that failed.")
                .build(),
            health: meter
                .u64_gauge("grafana_provisioning_repository_health")
                .with_description("Whether a repository is healthy, 1 or 0.")
                .build(),
            last_sync: meter
                .f64_gauge("grafana_provisioning_repository_last_sync_timestamp_seconds")
                .with_description("When a repository's last sync finished, in Unix seconds.")
                .build(),
            managed: meter
                .u64_gauge("grafana_provisioning_repository_managed_resources")
                .with_description("Objects that a repository manages, by kind.")
                .build(),
        }
    }

    pub(crate) fn checked(&self, success: bool) {
        let outcome = if success { "success" } else { "error" };
        self.checks.add(1, &[KeyValue::new("resource", "repository"), KeyValue::new("outcome", outcome)]);
    }

    pub(crate) fn failed(&self, error: &ReconcileError) {
        let phase = match error {
            ReconcileError::Call(_) => "status",
            ReconcileError::QueueSync(_) => "sync",
            ReconcileError::Finalize(_) => "delete",
        };
        self.errors.add(1, &[KeyValue::new("phase", phase), KeyValue::new("cause", "system")]);
    }

    pub(crate) fn observed(&self, repository: &Repository) {
        let labels = [
            KeyValue::new("namespace", repository.metadata.namespace.clone().unwrap_or_default()),
            KeyValue::new("name", repository.metadata.name.clone().unwrap_or_default()),
        ];
        self.health.record(u64::from(repository.status.health.healthy), &labels);
        if repository.status.sync.finished > 0 {
            self.last_sync.record(repository.status.sync.finished as f64 / 1000.0, &labels);
        }
        for count in &repository.status.stats {
            let [namespace, name] = labels.clone();
            let kind = [
                namespace,
                name,
                KeyValue::new("group", count.group.clone()),
                KeyValue::new("resource", count.resource.clone()),
            ];
            self.managed.record(u64::try_from(count.count).unwrap_or(0), &kind);
        }
    }
}
