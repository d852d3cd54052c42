//! What is counted of deliveries. Grafana: `webhooks/metrics.go`.

use std::time::Duration;

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use windlass_api::JobAction;
use windlass_repository::webhook::Event;
use windlass_telemetry::{MetricKind, Metrics, Stage, Stages, metric_rows};

metric_rows! {
    pub METRICS, "grafana_provisioning_webhook_";
    EVENTS = "events_processed_total", MetricKind::Counter, ["job"],
        "Deliveries of webhooks, by the job that was queued: `pull`, `pr` or `none`.";
}

/// What is counted of deliveries. Cheap to clone.
#[derive(Clone)]
pub struct WebhookMetrics {
    events: Counter<u64>,
    stages: Stages,
}

impl WebhookMetrics {
    /// The instruments of a process.
    pub fn new(metrics: &Metrics) -> Self {
        Self { events: EVENTS.counter(&metrics.meter("webhooks")), stages: Stages::new(metrics) }
    }

    /// A delivery was understood, of which comes this job.
    pub(super) fn processed(&self, event: &Event, job: Option<JobAction>) {
        let job = job.map_or_else(|| "none".to_owned(), |action| action.as_str().to_owned());
        self.events.add(1, &[KeyValue::new("job", job)]);
        if let Event::Push(push) = event
            && let Some(pushed) = push.at.and_then(|at| Timestamp::from_second(at).ok())
        {
            let took = Duration::try_from(Timestamp::now().duration_since(pushed)).unwrap_or_default();
            self.stages.took(Stage::Delivered, took);
        }
    }

    /// A job was queued, so long after its delivery began to come in.
    pub(super) fn queued(&self, took: Duration) {
        self.stages.took(Stage::Queued, took);
    }
}
