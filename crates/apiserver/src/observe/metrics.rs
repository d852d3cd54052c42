//! Series of requests, under kube-apiserver's names.

use std::time::Duration;

use http::StatusCode;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, UpDownCounter};
use windlass_telemetry::Metrics;

use super::about::About;

/// As a real server has them.
const BUCKETS: [f64; 22] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 60.0,
];

/// What is counted of requests. Cheap to clone.
///
/// | series | kind | labels |
/// |---|---|---|
/// | `apiserver_request_total` | counter | `verb`, `dry_run`, `group`, `version`, `resource`, `subresource`, `scope`, `component`, `code` |
/// | `apiserver_request_duration_seconds` | histogram, without watches | the same but `code` |
/// | `apiserver_current_inflight_requests` | gauge | `request_kind`: `mutating` or `readOnly` |
/// | `apiserver_longrunning_requests` | gauge: watches | `verb`, `group`, `version`, `resource`, `subresource`, `scope`, `component` |
///
/// A resource that is not served has no name in them.
#[derive(Clone)]
pub struct RequestMetrics {
    total: Counter<u64>,
    duration: Histogram<f64>,
    inflight: UpDownCounter<i64>,
    long_running: UpDownCounter<i64>,
}

impl RequestMetrics {
    /// The instruments of a process.
    pub fn new(metrics: &Metrics) -> Self {
        let meter = metrics.meter("apiserver");
        let total = meter.u64_counter("apiserver_request_total");
        let duration = meter.f64_histogram("apiserver_request_duration_seconds");
        let inflight = meter.i64_up_down_counter("apiserver_current_inflight_requests");
        let long_running = meter.i64_up_down_counter("apiserver_longrunning_requests");
        Self {
            total: total.with_description("Requests that were answered, by HTTP code.").build(),
            duration: duration
                .with_description("From a request's headers to its answer's, without watches.")
                .with_boundaries(BUCKETS.to_vec())
                .build(),
            inflight: inflight.with_description("Requests that are not answered yet.").build(),
            long_running: long_running.with_description("Watches that are open.").build(),
        }
    }

    /// A request came in; it is in flight until what this returns is dropped. None for a watch.
    pub(super) fn begin(&self, about: &About) -> Option<LongRunning> {
        let kind = if about.is_mutating() { "mutating" } else { "readOnly" };
        let labels = vec![KeyValue::new("request_kind", kind)];
        (!about.is_watch()).then(|| LongRunning::new(&self.inflight, labels))
    }

    /// A request was answered.
    pub(super) fn ended(&self, about: &About, status: StatusCode, took: Option<Duration>) {
        let mut labels = labels(about);
        labels.push(KeyValue::new("dry_run", about.dry_run));
        if let Some(took) = took {
            self.duration.record(took.as_secs_f64(), &labels);
        }
        labels.push(KeyValue::new("code", status.as_u16().to_string()));
        self.total.add(1, &labels);
    }

    /// A watch was opened; it is until what this returns is dropped.
    pub(super) fn long_running(&self, about: &About) -> LongRunning {
        LongRunning::new(&self.long_running, labels(about))
    }
}

fn labels(about: &About) -> Vec<KeyValue> {
    vec![
        KeyValue::new("verb", about.metric_verb()),
        KeyValue::new("group", about.group.clone()),
        KeyValue::new("version", about.version.clone()),
        KeyValue::new("resource", about.resource.clone()),
        KeyValue::new("subresource", about.subresource.clone()),
        KeyValue::new("scope", about.scope()),
        KeyValue::new("component", "apiserver"),
    ]
}

/// Counts while it lives.
pub(super) struct LongRunning {
    counter: UpDownCounter<i64>,
    labels: Vec<KeyValue>,
}

impl LongRunning {
    fn new(counter: &UpDownCounter<i64>, labels: Vec<KeyValue>) -> Self {
        counter.add(1, &labels);
        Self { counter: counter.clone(), labels }
    }
}

impl Drop for LongRunning {
    fn drop(&mut self) {
        self.counter.add(-1, &self.labels);
    }
}
