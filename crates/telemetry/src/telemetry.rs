//! The one set-up of a process's logs, traces and metrics, and their orderly end.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::{Aggregation, Instrument, InstrumentKind, PeriodicReader, Stream};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tonic::transport::Channel;
use tracing::Metadata;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{Layer, Registry};

use crate::log::{self, Ids, InitLogsError, Output};
use crate::push::client::{Client, Service};
use crate::push::cumulative::{Otlp, Pusher};
use crate::push::error::CollectorError;
use crate::push::exporters::Exporter;
use crate::push::fate::{Outcomes, TARGET};
use crate::push::queue::{QueuedLogs, QueuedSpans};
use crate::push::settings::{self, Collector, Signal};
use crate::push::stdout::Lines;
use crate::push::unmet::unmet;
use crate::resource::ProcessResource;
use crate::spans::Shared;
use crate::variables::environment;
use crate::{ErrorChain, LogFormat, LogOutput, Metrics, MetricsError, Spans, TelemetryMode};

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
    spans: Spans,
    tracers: Option<SdkTracerProvider>,
    loggers: Option<SdkLoggerProvider>,
    outcomes: Arc<Outcomes>,
    /// The task that pushes what sources say.
    pushing: Option<AbortHandle>,
}

/// What goes to a collector, where it is wanted.
struct ToCollector {
    spans: Option<Exporter<TraceServiceClient<Channel>>>,
    logs: Option<Exporter<LogsServiceClient<Channel>>>,
    metrics: Option<Exporter<MetricsServiceClient<Channel>>>,
    sources: Option<Otlp>,
}

impl ToCollector {
    fn new(
        collector: &Collector,
        outcomes: &Arc<Outcomes>,
        runtime: &Handle,
    ) -> Result<Self, CollectorError> {
        let temporality = settings::temporality(&environment);
        Ok(Self {
            spans: client(collector, outcomes, runtime)?.map(Exporter::new),
            logs: client(collector, outcomes, runtime)?.map(Exporter::new),
            metrics: client(collector, outcomes, runtime)?
                .map(|client| Exporter::new(client).with_temporality(temporality)),
            sources: client(collector, outcomes, runtime)?.map(|client| Otlp::new(client, temporality)),
        })
    }
}

fn client<S: Service>(
    collector: &Collector,
    outcomes: &Arc<Outcomes>,
    runtime: &Handle,
) -> Result<Option<Client<S>>, CollectorError> {
    if !S::SIGNAL.is_wanted(&environment) {
        return Ok(None);
    }
    Client::new(collector, &environment, outcomes, runtime).map(Some)
}

impl Telemetry {
    /// Sets everything up, once in a process; panics are logged from here on.
    ///
    /// Nothing is sent yet, and no collector has to be there: one that is not is said once, then counted.
    pub fn start(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        let (telemetry, layers) = Self::build(options, &Output::from(options.output))?;
        log::install(Registry::default().with(layers))?;
        if options.mode.otlp() {
            for line in unmet(&options.collector, &environment) {
                tracing::warn!(target: TARGET, "{line}");
            }
        }
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
            let ids = if mode.otlp() { Ids::Shown } else { Ids::Left };
            layers.push(log::layer(options.format, ids, output.clone()).with_filter(filter).boxed());
        }
        let of_process = ProcessResource::new(&options.service, options.version, &environment);
        let resource = of_process.0.clone();
        let outcomes = Arc::new(Outcomes::default());
        let runtime = Handle::try_current().map_err(|_none| TelemetryError::NoRuntime);
        let to_collector = if mode.otlp() {
            let runtime = runtime.as_ref().map_err(|_none| TelemetryError::NoRuntime)?;
            Some(ToCollector::new(&options.collector, &outcomes, runtime)?)
        } else {
            None
        };
        let (span_exporter, log_exporter, metric_exporter, otlp) = match to_collector {
            Some(ToCollector { spans, logs, metrics, sources }) => (spans, logs, metrics, sources),
            None => (None, None, None, None),
        };
        let lines = mode.stdout_signals().then(|| Lines::new(output.clone()));

        let loggers = log_exporter.map(|exporter| {
            let queued = QueuedLogs::new(exporter, &environment, &outcomes);
            SdkLoggerProvider::builder().with_resource(resource.clone()).with_log_processor(queued).build()
        });
        if let Some(loggers) = &loggers {
            let filter = log::filter(&options.filter)?.and(filter_fn(is_ours));
            layers.push(OpenTelemetryTracingBridge::new(loggers).with_filter(filter).boxed());
        }

        let mut processors = Vec::new();
        // Lines come first, here and below: writing them at the end waits for no collector.
        processors
            .extend(lines.clone().map(|lines| QueuedSpans::new(lines, &resource, &environment, &outcomes)));
        processors.extend(
            span_exporter.map(|exporter| QueuedSpans::new(exporter, &resource, &environment, &outcomes)),
        );
        let tracers = (!processors.is_empty()).then(|| {
            let mut builder =
                SdkTracerProvider::builder().with_resource(resource.clone()).with_sampler(Sampler::AlwaysOn);
            for processor in &processors {
                builder = builder.with_span_processor(Shared(Arc::clone(processor)));
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
            if let Some(lines) = lines.clone() {
                builder = builder.with_reader(
                    PeriodicReader::builder(lines).with_interval(settings::interval(&environment)).build(),
                );
            }
            if let Some(exporter) = metric_exporter {
                builder = builder.with_reader(
                    PeriodicReader::builder(exporter).with_interval(settings::interval(&environment)).build(),
                );
            }
            builder
        })?;
        let pushing = if mode.otlp() || mode.stdout_signals() {
            let pusher = Arc::new(Pusher::new(Arc::clone(metrics.sources()), of_process, lines, otlp));
            metrics.push_with(Arc::clone(&pusher));
            Some(
                runtime?
                    .spawn(async move { pusher.run(settings::interval(&environment)).await })
                    .abort_handle(),
            )
        } else {
            None
        };
        outcomes.count_with(&metrics.meter("telemetry"));
        let spans = Spans::new(processors);
        Ok((Self { metrics, spans, tracers, loggers, outcomes, pushing }, layers))
    }

    /// Where instruments are made.
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Where spans are told that `tracing` cannot tell of: those with times and ids of their own.
    pub fn spans(&self) -> Spans {
        self.spans.clone()
    }

    /// Requests that the collector did not take so far, or not whole.
    pub fn export_failures(&self) -> u64 {
        self.outcomes.failures()
    }

    /// Sends what is waiting, each signal beside the others and what sources say beside them, all within `deadline`.
    /// What a dead or slow collector did not take by then is lost, and said so.
    pub async fn shutdown(self, deadline: Duration) {
        let Self { metrics, tracers, loggers, pushing, .. } = self;
        if let Some(pushing) = pushing {
            pushing.abort();
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
            tracing::warn!(target: TARGET, error = %ErrorChain(&error), "what sources say was not sent to its end");
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
