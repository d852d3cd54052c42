//! The library's exporters, with the outcome of each export reported.
//!
//! The library returns a text for an export that failed, and nothing for items that a collector rejected; the rest is in
//! its internal logs. So each export runs with a subscriber of its own, which reads them and keeps them from the
//! process's: what exporting logs is never exported.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::logs::{LogBatch, LogExporter};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use tracing::field::{Field, Visit};
use tracing::instrument::WithSubscriber as _;
use tracing::level_filters::LevelFilter;
use tracing::{Dispatch, Event, Subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::{Layer, Registry};

use super::error::ExportError;
use super::http::NETWORK;
use super::queue::Queue;
use super::report::ExportReporter;

/// An exporter whose exports are counted and logged.
pub(crate) struct Reported<E> {
    exporter: E,
    reporter: Arc<ExportReporter>,
    /// What waits for this exporter, where something does.
    queue: Option<Arc<Queue>>,
    findings: Arc<Mutex<Findings>>,
    observer: Dispatch,
}

impl<E> Reported<E> {
    pub(super) fn new(exporter: E, reporter: Arc<ExportReporter>) -> Self {
        let findings = Arc::<Mutex<Findings>>::default();
        let observer = Registry::default().with(LevelFilter::WARN).with(Observer(Arc::clone(&findings)));
        Self { exporter, reporter, queue: None, findings, observer: observer.into() }
    }

    /// The queue of what waits for this exporter: of so many items at most.
    pub(super) fn queue(&mut self, limit: usize) -> Arc<Queue> {
        let queue = Arc::new(Queue::new(limit, Arc::clone(&self.reporter)));
        self.queue = Some(Arc::clone(&queue));
        queue
    }

    /// Awaits an export of so many items, of which each is lost if it fails, and reports its outcome.
    async fn report(&self, items: usize, export: impl Future<Output = OTelSdkResult>) -> OTelSdkResult {
        let result = export.with_subscriber(self.observer.clone()).await;
        let findings = std::mem::take(&mut *self.findings.lock().unwrap_or_else(PoisonError::into_inner));
        self.reporter.report(findings.outcome(&result).as_ref(), items);
        if let Some(queue) = &self.queue {
            queue.leave(items);
        }
        result
    }
}

impl<E> fmt::Debug for Reported<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reported").finish_non_exhaustive()
    }
}

impl<E: SpanExporter> SpanExporter for Reported<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.report(batch.len(), self.exporter.export(batch)).await
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for Reported<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        self.report(batch.iter().count(), self.exporter.export(batch)).await
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Reported<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        // Sums are exported again, so no item is lost with a request; a difference that is lost shows in the failures.
        self.report(0, self.exporter.export(metrics)).await
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

/// What the internal logs say of one export.
#[derive(Default)]
struct Findings {
    /// Another attempt would not have fared better.
    is_refused: bool,
    rejected: Option<ExportError>,
    /// Why there was no answer over HTTP.
    network: Option<String>,
}

impl Findings {
    fn outcome(self, result: &OTelSdkResult) -> Option<ExportError> {
        let message = match result {
            Ok(()) => return self.rejected,
            Err(OTelSdkError::InternalFailure(message)) => message.clone(),
            Err(error) => error.to_string(),
        };
        if self.is_refused {
            return Some(ExportError::Refused(message));
        }
        Some(ExportError::Unavailable(self.network.unwrap_or(message)))
    }
}

/// Reads the warnings of one exporter.
struct Observer(Arc<Mutex<Findings>>);

impl<S: Subscriber> Layer<S> for Observer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut findings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event.metadata().name() {
            _ if event.metadata().target() == NETWORK => findings.network = Some(fields.text),
            "Export.Failed.NonRetryable" => findings.is_refused = true,
            name if name.ends_with(".PartialSuccess") => {
                findings.rejected = ExportError::rejected(fields.rejected, &fields.text);
            }
            _ => {}
        }
    }
}

/// The fields of an event that are read.
#[derive(Default)]
struct Fields {
    rejected: i64,
    text: String,
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name().starts_with("rejected_") {
            self.rejected = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if ["error", "error_message"].contains(&field.name()) {
            value.clone_into(&mut self.text);
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn fmt::Debug) {}
}
