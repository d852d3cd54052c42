//! Exporters that say once that a collector is lost, then count.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::logs::{LogBatch, LogExporter};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// Log lines of this target are not exported: a lost collector cannot be told of its loss.
pub(crate) const TARGET: &str = "windlass_telemetry::export";

/// How exports to one collector go, for all signals together.
pub(crate) struct Outcomes {
    endpoint: String,
    failing: AtomicBool,
    failures: AtomicU64,
    counter: OnceLock<Counter<u64>>,
}

impl fmt::Debug for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Outcomes {
    /// Of a collector whose endpoint may be shown.
    pub(crate) fn new(endpoint: String) -> Arc<Self> {
        Arc::new(Self {
            endpoint,
            failing: AtomicBool::new(false),
            failures: AtomicU64::new(0),
            counter: OnceLock::new(),
        })
    }

    /// Where failures are counted from now on; exporters are made before the meters are.
    pub(crate) fn count_with(&self, counter: Counter<u64>) {
        // Set once, when telemetry starts.
        let _ = self.counter.set(counter);
    }

    /// Batches that did not reach the collector.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, signal: &'static str, result: OTelSdkResult) -> OTelSdkResult {
        match &result {
            Ok(()) => {
                if self.failing.swap(false, Ordering::Relaxed) {
                    tracing::info!(target: TARGET, endpoint = self.endpoint, "the collector answers again");
                }
            }
            // What comes after the shutdown is not lost on the way.
            Err(OTelSdkError::AlreadyShutdown) => {}
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if let Some(counter) = self.counter.get() {
                    counter.add(1, &[KeyValue::new("signal", signal)]);
                }
                if !self.failing.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        target: TARGET,
                        endpoint = self.endpoint,
                        signal,
                        %error,
                        "failed to reach the collector; further failures are only counted, in otel_export_failures_total",
                    );
                }
            }
        }
        result
    }
}

/// An exporter whose outcomes are noted.
pub(crate) struct Watched<E> {
    inner: E,
    outcomes: Arc<Outcomes>,
}

impl<E> Watched<E> {
    pub(crate) fn new(inner: E, outcomes: &Arc<Outcomes>) -> Self {
        Self { inner, outcomes: Arc::clone(outcomes) }
    }
}

impl<E> fmt::Debug for Watched<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watched").finish_non_exhaustive()
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.inner.export(batch).await;
        self.outcomes.note("traces", result)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for Watched<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let result = self.inner.export(batch).await;
        self.outcomes.note("logs", result)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Watched<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let result = self.inner.export(metrics).await;
        self.outcomes.note("metrics", result)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}
