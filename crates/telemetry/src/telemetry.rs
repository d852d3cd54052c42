//! The one set-up of a process's logs, traces and metrics, and their orderly end.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{LogExporter, MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::{Aggregation, Instrument, InstrumentKind, PeriodicReader, Stream};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, TracerProviderBuilder};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tracing::Metadata;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::export::connection::Connection;
use crate::export::cumulative::{CollectorExporter, CumulativeExporter};
use crate::export::error::CollectorError;
use crate::export::queue::{QueuedLogs, QueuedSpans};
use crate::export::report::{ExportReports, TARGET};
use crate::export::reported::Reported;
use crate::export::settings::{self, Collector, Signal};
use crate::export::stdout::Lines;
use crate::export::unsupported::unsupported;
use crate::log::{self, InitLogsError, Output, TraceIds};
use crate::resource::ProcessResource;
use crate::variables::{Variables, environment};
use crate::{ErrorChain, LogFormat, LogOutput, Metrics, MetricsError, Spans, TelemetryMode};

/// Crates whose own events and spans come from exporting: exported, they would breed.
const EXPORTERS: [&str; 7] = ["h2", "hyper", "hyper_util", "opentelemetry", "reqwest", "tonic", "tower"];

/// What a process's subscriber is made of.
type Layers = Vec<Box<dyn Layer<Registry> + Send + Sync>>;

/// How a process exports its telemetry.
#[derive(Debug)]
pub struct TelemetryOptions {
    /// Where signals go.
    pub mode: TelemetryMode,
    /// How log lines on the process's output look.
    pub format: LogFormat,
    /// Which log lines are written: a level, or directives. Holds for the output and for the collector.
    pub filter: String,
    /// Where log lines go.
    pub output: LogOutput,
    /// The collector of the modes that have one.
    pub collector: Collector,
    /// `service.name`.
    pub service: String,
    /// `service.version`.
    pub version: &'static str,
    /// Scopes whose histograms are exported with exponential buckets (base 2) in place of their own.
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
    /// Exporting needs a Tokio runtime, and none is running here.
    #[error("failed to set up the export of telemetry: no Tokio runtime is running")]
    NoRuntime,
}

/// The logs, traces and metrics of one process. [`Telemetry::shutdown`] sends what is still waiting.
#[derive(Debug)]
pub struct Telemetry {
    metrics: Metrics,
    spans: Spans,
    tracers: Option<SdkTracerProvider>,
    loggers: Option<SdkLoggerProvider>,
    /// The task that exports the series of sources.
    exporting: Option<AbortHandle>,
}

/// Exporters to a collector, one a signal that is wanted there.
#[derive(Default)]
struct CollectorExporters {
    spans: Option<Reported<SpanExporter>>,
    logs: Option<Reported<LogExporter>>,
    metrics: Option<Reported<MetricExporter>>,
    cumulative: Option<CollectorExporter>,
}

impl CollectorExporters {
    fn new(
        collector: &Collector,
        variables: Variables<'_>,
        reports: &Arc<ExportReports>,
        runtime: &Handle,
    ) -> Result<Self, CollectorError> {
        let connect = |signal| Connection::new(signal, collector, variables, reports, runtime);
        let metrics = connect(Signal::Metrics)?;
        let temporality = settings::temporality(variables);
        Ok(Self {
            spans: connect(Signal::Traces)?.map(|to| to.span_exporter()).transpose()?,
            logs: connect(Signal::Logs)?.map(|to| to.log_exporter()).transpose()?,
            metrics: metrics.as_ref().map(|to| to.metric_exporter(temporality)).transpose()?,
            cumulative: metrics.map(|to| CollectorExporter::new(to, temporality)),
        })
    }
}

impl Telemetry {
    /// Sets everything up, once in a process; panics are logged from here on.
    ///
    /// Nothing is sent yet, and no collector has to be there: one that is not is logged once, then counted.
    pub fn start(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        let (telemetry, layers) = Self::build(options, &Output::from(options.output), &environment)?;
        log::install(Registry::default().with(layers))?;
        if options.mode.otlp() {
            for line in unsupported(&options.collector, &environment) {
                tracing::warn!(target: TARGET, "{line}");
            }
        }
        Ok(telemetry)
    }

    /// What [`Telemetry::start`] sets up, with any writer as the process's output, and without installing it.
    pub(crate) fn build(
        options: &TelemetryOptions,
        output: &Output,
        variables: Variables<'_>,
    ) -> Result<(Self, Layers), TelemetryError> {
        let mode = options.mode;
        let mut layers = Vec::new();
        if mode.stdout_logs() {
            let filter = log::filter(&options.filter)?;
            let ids = if mode.otlp() { TraceIds::Shown } else { TraceIds::Hidden };
            layers.push(log::layer(options.format, ids, output.clone()).with_filter(filter).boxed());
        }
        let resource = ProcessResource::new(&options.service, options.version, variables);
        let reports = Arc::new(ExportReports::default());
        let lines = mode.stdout_signals().then(|| Lines::new(output.clone()));
        let is_exporting = mode.otlp() || mode.stdout_signals();
        let runtime =
            is_exporting.then(Handle::try_current).transpose().map_err(|_| TelemetryError::NoRuntime)?;
        let to_collector = match &runtime {
            Some(runtime) if mode.otlp() => {
                CollectorExporters::new(&options.collector, variables, &reports, runtime)?
            }
            _ => CollectorExporters::default(),
        };

        let loggers = to_collector.logs.map(|exporter| {
            let queue = QueuedLogs::counted(exporter, variables);
            SdkLoggerProvider::builder().with_resource(resource.0.clone()).with_log_processor(queue).build()
        });
        if let Some(loggers) = &loggers {
            let filter = log::filter(&options.filter)?.and(filter_fn(is_ours));
            layers.push(OpenTelemetryTracingBridge::new(loggers).with_filter(filter).boxed());
        }

        let queues = span_queues(lines.clone(), to_collector.spans, &resource.0, variables);
        let tracers = (!queues.is_empty()).then(|| tracers(&queues, &resource.0));
        if let Some(tracers) = &tracers {
            let filter = log::filter(&options.filter)?.and(filter_fn(is_ours));
            let layer = tracing_opentelemetry::layer().with_tracer(tracers.tracer(options.service.clone()));
            layers.push(layer.with_filter(filter).boxed());
        }

        let interval = settings::interval(variables);
        let exponential: &[_] = if to_collector.metrics.is_some() { options.exponential } else { &[] };
        let metrics =
            metrics(lines.clone(), to_collector.metrics, resource.0.clone(), (interval, exponential))?;
        reports.count_with(&metrics.meter("telemetry"));
        let exporting = runtime.map(|runtime| {
            let sources = Arc::clone(metrics.sources());
            let exporter =
                Arc::new(CumulativeExporter::new(sources, resource, lines, to_collector.cumulative));
            metrics.export_sources_with(Arc::clone(&exporter));
            runtime.spawn(async move { exporter.run(interval).await }).abort_handle()
        });
        let spans = Spans::new(queues);
        Ok((Self { metrics, spans, tracers, loggers, exporting }, layers))
    }

    /// Where instruments are made.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Where spans are recorded that `tracing` has no way for: those with times and ids of their own.
    pub fn spans(&self) -> Spans {
        self.spans.clone()
    }

    /// Sends what is waiting, each signal beside the others and the series of sources beside them, all within `deadline`.
    /// What a dead or slow collector did not take by then is lost, which is logged.
    pub async fn shutdown(self, deadline: Duration) {
        let Self { metrics, tracers, loggers, exporting, .. } = self;
        if let Some(exporting) = exporting {
            exporting.abort();
        }
        let of_sources = metrics.clone();
        let mut endings = vec![ending(Signal::Metrics, move || metrics.shutdown())];
        endings
            .extend(tracers.map(|all| ending(Signal::Traces, move || all.shutdown_with_timeout(deadline))));
        endings.extend(loggers.map(|all| ending(Signal::Logs, move || all.shutdown_with_timeout(deadline))));
        let ended = endings
            .into_iter()
            .map(|(signal, ended)| async move { (signal, tokio::time::timeout(deadline, ended).await) });
        let (flushed, ended) = tokio::join!(of_sources.flush_sources(deadline), join_all(ended));
        if let Err(error) = flushed {
            tracing::warn!(target: TARGET, error = %ErrorChain(&error), "the series of sources were not sent to their end");
        }
        for (signal, ended) in ended {
            let signal = signal.name();
            let error = match ended {
                Ok(Ok(Ok(()))) => continue,
                Ok(Ok(Err(error))) => Some(ErrorChain(&error).to_string()),
                Ok(Err(_)) | Err(_) => None,
            };
            tracing::warn!(
                target: TARGET,
                signal,
                error,
                "telemetry was not sent to its end within {deadline:?}",
            );
        }
    }
}

/// The queues of spans. Lines come first, here and among metrics: writing them at the end waits for no collector.
fn span_queues(
    lines: Option<Lines>,
    exporter: Option<Reported<SpanExporter>>,
    resource: &Resource,
    variables: Variables<'_>,
) -> Vec<QueuedSpans> {
    let lines = lines.map(|lines| QueuedSpans::new(lines, resource, variables));
    let exporter = exporter.map(|exporter| QueuedSpans::counted(exporter, resource, variables));
    lines.into_iter().chain(exporter).collect()
}

fn tracers(queues: &[QueuedSpans], resource: &Resource) -> SdkTracerProvider {
    let builder =
        SdkTracerProvider::builder().with_resource(resource.clone()).with_sampler(Sampler::AlwaysOn);
    queues.iter().cloned().fold(builder, TracerProviderBuilder::with_span_processor).build()
}

fn metrics(
    lines: Option<Lines>,
    exporter: Option<Reported<MetricExporter>>,
    resource: Resource,
    (interval, exponential): (Duration, &'static [&'static str]),
) -> Result<Metrics, MetricsError> {
    Metrics::build(|mut builder| {
        builder = builder.with_resource(resource);
        if !exponential.is_empty() {
            builder = builder.with_view(move |instrument: &Instrument| buckets(instrument, exponential));
        }
        if let Some(lines) = lines {
            builder = builder.with_reader(PeriodicReader::builder(lines).with_interval(interval).build());
        }
        if let Some(exporter) = exporter {
            builder = builder.with_reader(PeriodicReader::builder(exporter).with_interval(interval).build());
        }
        builder
    })
}

/// Ends a signal on a thread of its own: that blocks, and takes its own view of deadlines.
fn ending(
    signal: Signal,
    end: impl FnOnce() -> OTelSdkResult + Send + 'static,
) -> (Signal, oneshot::Receiver<OTelSdkResult>) {
    let (done, ended) = oneshot::channel();
    std::thread::spawn(move || {
        // Nobody waits any more when the deadline has passed.
        let _ = done.send(end());
    });
    (signal, ended)
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
