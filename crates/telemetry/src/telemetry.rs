//! The one set-up of a process's logs, traces and metrics, and their orderly end.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::{Aggregation, Instrument, InstrumentKind, PeriodicReader, Stream};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider,
};
use tracing::Metadata;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::log::{self, InitLogsError, Output};
use crate::push::otlp::{Collector, CollectorError, Exporters};
use crate::push::stdout::Lines;
use crate::push::watched::{Outcomes, TARGET};
use crate::{ErrorChain, LogFormat, LogOutput, Metrics, MetricsError, TelemetryMode};

/// How long spans wait for company before they are exported.
const SPAN_DELAY: Duration = Duration::from_secs(1);
/// How often metrics are pushed; `OTEL_METRIC_EXPORT_INTERVAL` (milliseconds) wins.
const METRIC_INTERVAL: Duration = Duration::from_secs(15);
/// Spans of this many names at most wait for a collector; more are dropped.
const SPAN_QUEUE: usize = 2048;

/// Crates whose own events and spans come from exporting: exported, they would breed.
const EXPORTERS: [&str; 7] = ["h2", "hyper", "hyper_util", "opentelemetry", "reqwest", "tonic", "tower"];

/// What a process's subscriber is made of.
type Layers = Vec<Box<dyn Layer<Registry> + Send + Sync>>;

/// How a process speaks of itself.
#[derive(Debug)]
pub struct TelemetryOptions {
    /// Where signals go.
    pub mode: TelemetryMode,
    /// How log lines on the process's output look.
    pub format: LogFormat,
    /// Which log lines are told: a level, or directives. Holds for the output and for the collector.
    pub filter: String,
    /// Where log lines go.
    pub output: LogOutput,
    /// The collector of the modes that have one.
    pub collector: Collector,
    /// `service.name`.
    pub service: String,
    /// `service.version`.
    pub version: &'static str,
    /// Scopes whose histograms are pushed with exponential buckets (base 2) in place of their own.
    pub exponential: &'static [&'static str],
}

/// Why telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TelemetryError {
    /// Logs could not be set up.
    #[error(transparent)]
    Logs(#[from] InitLogsError),
    /// Metrics could not be set up.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The collector's address or certificate cannot be used.
    #[error(transparent)]
    Collector(#[from] CollectorError),
    /// Pushing needs a Tokio runtime, and none is running here.
    #[error("failed to set up the export to the collector: no Tokio runtime is running")]
    NoRuntime,
}

/// The logs, traces and metrics of one process. [`Telemetry::shutdown`] sends what is still waiting.
#[derive(Debug)]
pub struct Telemetry {
    metrics: Metrics,
    tracers: Option<SdkTracerProvider>,
    loggers: Option<SdkLoggerProvider>,
    outcomes: Arc<Outcomes>,
}

impl Telemetry {
    /// Sets everything up, once in a process; panics are logged from here on.
    ///
    /// Nothing is sent yet, and no collector has to be there: one that is not is said once, then counted.
    pub fn start(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        let (telemetry, layers) = Self::build(options, &Output::from(options.output))?;
        log::install(Registry::default().with(layers))?;
        Ok(telemetry)
    }

    /// What [`Telemetry::start`] sets up, with any writer as the process's output, and without installing it.
    pub(crate) fn build(
        options: &TelemetryOptions,
        output: &Output,
    ) -> Result<(Self, Layers), TelemetryError> {
        let mode = options.mode;
        let mut layers = Vec::new();
        if mode.stdout_logs() {
            let filter = log::filter(&options.filter)?;
            layers.push(log::layer(options.format, output.clone()).with_filter(filter).boxed());
        }
        let resource = resource(&options.service, options.version);
        let outcomes = Outcomes::new(&options.collector.shown());
        let exporters = if mode.otlp() {
            tokio::runtime::Handle::try_current().map_err(|_none| TelemetryError::NoRuntime)?;
            Some(Exporters::new(&options.collector, &outcomes)?)
        } else {
            None
        };
        let (span_exporter, log_exporter, metric_exporter) = match exporters {
            Some(Exporters { spans, logs, metrics }) => (Some(spans), Some(logs), Some(metrics)),
            None => (None, None, None),
        };
        let lines = mode.stdout_signals().then(|| Lines::new(output.clone()));

        let loggers = log_exporter.map(|exporter| {
            SdkLoggerProvider::builder().with_resource(resource.clone()).with_batch_exporter(exporter).build()
        });
        if let Some(loggers) = &loggers {
            let filter = log::filter(&options.filter)?.and(filter_fn(is_ours));
            layers.push(OpenTelemetryTracingBridge::new(loggers).with_filter(filter).boxed());
        }

        let tracers = (span_exporter.is_some() || lines.is_some()).then(|| {
            let mut builder =
                SdkTracerProvider::builder().with_resource(resource.clone()).with_sampler(Sampler::AlwaysOn);
            if let Some(exporter) = span_exporter {
                builder = builder.with_span_processor(batched(exporter));
            }
            if let Some(lines) = &lines {
                builder = builder.with_span_processor(batched(lines.clone()));
            }
            builder.build()
        });
        if let Some(tracers) = &tracers {
            let filter = log::filter(&options.filter)?.and(filter_fn(is_ours));
            let layer = tracing_opentelemetry::layer().with_tracer(tracers.tracer(options.service.clone()));
            layers.push(layer.with_filter(filter).boxed());
        }

        let exponential = options.exponential;
        let metrics = Metrics::build(|mut builder| {
            builder = builder.with_resource(resource);
            if metric_exporter.is_some() && !exponential.is_empty() {
                builder = builder.with_view(move |instrument: &Instrument| buckets(instrument, exponential));
            }
            if let Some(exporter) = metric_exporter {
                builder =
                    builder.with_reader(PeriodicReader::builder(exporter).with_interval(interval()).build());
            }
            if let Some(lines) = lines {
                builder =
                    builder.with_reader(PeriodicReader::builder(lines).with_interval(interval()).build());
            }
            builder
        })?;
        let failures = metrics
            .meter("telemetry")
            .u64_counter("otel_export_failures_total")
            .with_description("Batches of a signal that did not reach the collector.")
            .build();
        outcomes.count_with(failures);
        Ok((Self { metrics, tracers, loggers, outcomes }, layers))
    }

    /// Where instruments are made.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// A tracer for spans that `tracing` cannot tell of, such as those with times of their own. None when traces go
    /// nowhere.
    pub fn tracer(&self, scope: &'static str) -> Option<SdkTracer> {
        self.tracers.as_ref().map(|tracers| tracers.tracer(scope))
    }

    /// Batches that did not reach the collector so far.
    pub fn export_failures(&self) -> u64 {
        self.outcomes.failures()
    }

    /// Sends what is waiting: logs, then traces, then metrics, all within `deadline`. What a dead or slow collector did
    /// not take by then is lost, and said so.
    pub async fn shutdown(self, deadline: Duration) {
        let Self { metrics, tracers, loggers, .. } = self;
        let (done, ended) = tokio::sync::oneshot::channel::<Vec<OTelSdkResult>>();
        // A thread of its own: shutting down blocks, and takes its own view of deadlines.
        std::thread::spawn(move || {
            let mut results = Vec::new();
            results.extend(loggers.map(|loggers| loggers.shutdown_with_timeout(deadline)));
            results.extend(tracers.map(|tracers| tracers.shutdown_with_timeout(deadline)));
            results.push(metrics.shutdown());
            // Nobody waits any more when the deadline has passed.
            let _ = done.send(results);
        });
        match tokio::time::timeout(deadline, ended).await {
            Ok(Ok(results)) => {
                for error in results.into_iter().filter_map(Result::err) {
                    tracing::warn!(target: TARGET, error = %ErrorChain(&error), "telemetry was not sent to its end");
                }
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(target: TARGET, "telemetry was not sent to its end within {deadline:?}");
            }
        }
    }
}

fn batched<E: opentelemetry_sdk::trace::SpanExporter + 'static>(exporter: E) -> BatchSpanProcessor {
    let config = BatchConfigBuilder::default()
        .with_scheduled_delay(SPAN_DELAY)
        .with_max_queue_size(SPAN_QUEUE)
        .build();
    BatchSpanProcessor::builder(exporter).with_batch_config(config).build()
}

/// Whether an event or span comes from us, and not from the exporters themselves.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    let krate = target.split("::").next().unwrap_or(target);
    target != TARGET
        && !EXPORTERS.iter().any(|exporter| krate == *exporter || krate.starts_with("opentelemetry"))
}

/// Exponential buckets for the histograms of these scopes, without the extremes of the whole life.
fn buckets(instrument: &Instrument, scopes: &[&str]) -> Option<Stream> {
    let applies =
        instrument.kind() == InstrumentKind::Histogram && scopes.contains(&instrument.scope().name());
    applies
        .then(|| {
            Stream::builder()
                .with_aggregation(Aggregation::Base2ExponentialHistogram {
                    max_size: 160,
                    max_scale: 20,
                    record_min_max: false,
                })
                .build()
                .ok()
        })
        .flatten()
}

fn interval() -> Duration {
    std::env::var("OTEL_METRIC_EXPORT_INTERVAL")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|millis| *millis > 0)
        .map_or(METRIC_INTERVAL, Duration::from_millis)
}

/// Who speaks: `service.*`, the process and the host, and what `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` say.
///
/// The command line is left out: it may carry tokens.
fn resource(service: &str, version: &'static str) -> Resource {
    let executable = std::env::current_exe().ok();
    let name = executable.as_ref().and_then(|path| path.file_name()).and_then(|name| name.to_str());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let mut attributes = vec![
        KeyValue::new("service.version", version),
        KeyValue::new("service.instance.id", instance()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
        KeyValue::new("process.runtime.name", "rust"),
        KeyValue::new("os.type", std::env::consts::OS),
        KeyValue::new("host.arch", std::env::consts::ARCH),
    ];
    attributes.extend(name.map(|name| KeyValue::new("process.executable.name", name.to_owned())));
    attributes.extend(host.map(|name| KeyValue::new("host.name", name.trim().to_owned())));
    let named = std::env::var("OTEL_SERVICE_NAME").is_ok_and(|name| !name.is_empty());
    let builder = Resource::builder().with_attributes(attributes);
    if named { builder.build() } else { builder.with_service_name(service.to_owned()).build() }
}

/// A random identity of this process.
fn instance() -> String {
    uuid::Uuid::new_v4().to_string()
}
