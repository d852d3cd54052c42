//! The operator's instruments, under Flux's names.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};
use windlass_api::flux::GitRepository;
use windlass_git::Git;
use windlass_runtime::{EventRecorder, ObjectKey, Store};

/// Flux's bounds, in seconds.
const BOUNDS: [f64; 10] = [0.01, 0.0384, 0.147, 0.565, 2.17, 8.31, 31.9, 122.0, 469.0, 1_800.0];

/// What the operator counts. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SourceMetrics {
    durations: Histogram<f64>,
    failures: Counter<u64>,
    artifacts: Counter<u64>,
}

impl SourceMetrics {
    pub(crate) fn new(
        meter: &Meter,
        objects: &Store<GitRepository>,
        events: &EventRecorder,
        git: &Git,
    ) -> Self {
        let (objects, events, git) = (objects.clone(), events.clone(), git.clone());
        meter
            .u64_observable_counter("windlass_source_events_dropped_total")
            .with_description("Kubernetes Events about sources that were not written.")
            .with_callback(move |counter| counter.observe(events.dropped(), &[]))
            .build();
        meter
            .u64_observable_counter("windlass_source_git_requests_total")
            .with_description("Requests that were sent to Git servers.")
            .with_callback(move |counter| counter.observe(git.request_count(), &[]))
            .build();
        meter
            .u64_observable_gauge("windlass_source_objects")
            .with_description("Sources that are looked after, by whether they are ready.")
            .with_callback(move |gauge| {
                let all = objects.list();
                let is_ready = |object: &&std::sync::Arc<GitRepository>| {
                    windlass_api::conditions::is_true(&object.status.conditions, "Ready")
                };
                let ready = all.iter().filter(is_ready).count();
                gauge.observe(ready as u64, &[KeyValue::new("ready", "true")]);
                gauge.observe((all.len() - ready) as u64, &[KeyValue::new("ready", "false")]);
            })
            .build();
        Self {
            durations: meter
                .f64_histogram("gotk_reconcile_duration_seconds")
                .with_description("How long passes over an object took.")
                .with_boundaries(BOUNDS.to_vec())
                .build(),
            failures: meter
                .u64_counter("windlass_source_failures_total")
                .with_description("Passes that came to no artifact, by the reason that the condition has.")
                .build(),
            artifacts: meter
                .u64_counter("windlass_source_artifacts_total")
                .with_description("Artifacts that were published.")
                .build(),
        }
    }

    pub(crate) fn passed(&self, key: &ObjectKey, took: Duration) {
        let labels = [
            KeyValue::new("kind", "GitRepository"),
            KeyValue::new("name", key.name.clone()),
            KeyValue::new("namespace", key.namespace.clone()),
        ];
        self.durations.record(took.as_secs_f64(), &labels);
    }

    pub(crate) fn failed(&self, reason: &'static str) {
        self.failures.add(1, &[KeyValue::new("reason", reason)]);
    }

    pub(crate) fn published(&self) {
        self.artifacts.add(1, &[]);
    }
}
