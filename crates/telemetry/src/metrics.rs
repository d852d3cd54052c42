//! OpenTelemetry instruments, read as Prometheus text.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::{MeterProviderBuilder, SdkMeterProvider};
use prometheus::Registry;

use crate::CumulativeSource;
use crate::export::cumulative::{CumulativeExporter, FlushError};
use crate::sources::Sources;
use crate::text::Scrape;

/// The instruments of one process (or of one test: there is no global registry).
///
/// A name reaches the text exactly as its owner wrote it: counters are named `…_total` and durations
/// `…_seconds` by their owners, nothing is appended, and no scope or target labels are added.
/// Histograms of durations need explicit boundaries; the SDK's own are made for milliseconds.
#[derive(Clone, Debug)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    registry: Registry,
    provider: SdkMeterProvider,
    sources: Arc<Sources>,
    /// Exports the series of the sources, where they are exported.
    exporter: OnceLock<Arc<CumulativeExporter>>,
}

/// Why metrics could not be set up or rendered.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The exporter could not be registered.
    #[error("failed to set up the metrics exporter")]
    Register(#[source] opentelemetry_sdk::error::OTelSdkError),
    /// The instruments could not be written as text.
    #[error("failed to render the metrics")]
    Render(#[source] prometheus::Error),
}

impl Metrics {
    /// Makes an empty set that is only scraped.
    pub fn new() -> Result<Self, MetricsError> {
        Self::build(|builder| builder)
    }

    /// Makes an empty set with what `configure` adds: readers that export, a resource, views.
    pub(crate) fn build(
        configure: impl FnOnce(MeterProviderBuilder) -> MeterProviderBuilder,
    ) -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let exporter = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_units()
            .without_counter_suffixes()
            .without_target_info()
            .scope_info_enabled(false)
            .build()
            .map_err(MetricsError::Register)?;
        let provider = configure(SdkMeterProvider::builder().with_reader(exporter)).build();
        let sources = Arc::default();
        Ok(Self { inner: Arc::new(Inner { registry, provider, sources, exporter: OnceLock::new() }) })
    }

    /// The meter of one component; instruments are made once, and kept by their owner.
    pub fn meter(&self, name: &'static str) -> Meter {
        self.inner.provider.meter(name)
    }

    /// Exports the last values, where they are exported, and ends.
    pub(crate) fn shutdown(&self) -> OTelSdkResult {
        self.inner.provider.shutdown()
    }

    /// Exports the series of this source from now on, beside the process's own metrics, and shows them on `/metrics`.
    pub fn add_source(&self, source: Arc<dyn CumulativeSource>) {
        self.inner.sources.add(source);
    }

    /// Exports the series of the sources now, again while the collector does not answer, for at most `deadline`: for a
    /// leader that is about to step down. Done at once where nothing is exported.
    pub async fn flush_sources(&self, deadline: Duration) -> Result<(), FlushError> {
        match self.inner.exporter.get() {
            Some(exporter) => exporter.flush(deadline).await,
            None => Ok(()),
        }
    }

    pub(crate) fn sources(&self) -> &Arc<Sources> {
        &self.inner.sources
    }

    /// Sets what exports the series of the sources.
    pub(crate) fn export_sources_with(&self, exporter: Arc<CumulativeExporter>) {
        // Set once, when telemetry starts.
        let _ = self.inner.exporter.set(exporter);
    }

    /// The current values in the Prometheus text format.
    pub fn render(&self) -> Result<String, MetricsError> {
        Ok(self.scrape()?.collect())
    }

    /// The current values in the Prometheus text format, in pieces of bounded size: those of sources may be many,
    /// and are put together as they are read.
    pub(crate) fn scrape(&self) -> Result<Scrape, MetricsError> {
        Scrape::new(self.inner.registry.gather(), self.inner.sources.scraped()).map_err(MetricsError::Render)
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::KeyValue;

    use super::*;

    #[test]
    fn names_and_labels_reach_the_text_exactly_as_given() {
        let metrics = Metrics::new().unwrap();
        let meter = metrics.meter("jobs");
        let jobs = meter.u64_counter("grafana_jobs_processed_total").with_description("Jobs.").build();
        jobs.add(3, &[KeyValue::new("action", "pull")]);
        meter.u64_counter("plain_counter").build().add(1, &[]);
        meter
            .f64_histogram("job_duration_seconds")
            .with_unit("s")
            .with_boundaries(vec![0.5, 1.0])
            .build()
            .record(0.7, &[]);
        meter.i64_up_down_counter("queue_size").build().add(2, &[]);

        let text = metrics.render().unwrap();
        let samples: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                "grafana_jobs_processed_total{action=\"pull\"} 3",
                "job_duration_seconds_bucket{le=\"0.5\"} 0",
                "job_duration_seconds_bucket{le=\"1\"} 1",
                "job_duration_seconds_bucket{le=\"+Inf\"} 1",
                "job_duration_seconds_sum 0.7",
                "job_duration_seconds_count 1",
                "plain_counter 1",
                "queue_size 2",
            ]
        );
        assert!(text.contains("# HELP grafana_jobs_processed_total Jobs."), "{text}");
        assert!(text.contains("# TYPE grafana_jobs_processed_total counter"), "{text}");
    }

    #[test]
    fn two_sets_share_nothing() {
        let (one, other) = (Metrics::new().unwrap(), Metrics::new().unwrap());
        one.meter("a").u64_counter("seen_total").build().add(1, &[]);
        assert!(one.render().unwrap().contains("seen_total 1"));
        assert_eq!(other.render().unwrap(), "");
    }
}
