//! Pushes what sources say: at every interval, and once more at the end.
//!
//! One export is under way at a time, and each carries the whole state, so nothing is queued: what a collector did not
//! take is told again by the next. A view is sent in pieces, each put together when the one before was answered.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, sleep, timeout};
use tonic::codec::CompressionEncoding;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Extensions, Request, Status};

use super::chunks::Chunks;
use super::otlp::CollectorError;
use super::settings::{Collector, Signal, Variables, asks_for_delta};
use super::stdout::Lines;
use super::watched::{Outcomes, TARGET};
use super::wire;
use crate::resource::ProcessResource;
use crate::sources::Sources;
use crate::{CumulativeSource, CumulativeView};

/// How long is waited before a flush asks a collector again that did not answer; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest such wait.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Why a flush did not send everything.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlushError {
    /// The collector did not take it in time.
    #[error("failed to send everything to the collector within {deadline:?}")]
    Deadline {
        /// The time there was.
        deadline: Duration,
        /// How the last attempt failed; none when the first was still under way.
        #[source]
        last: Option<OTelSdkError>,
    },
    /// The collector does not want it.
    #[error("failed to send everything to the collector")]
    Refused(#[source] OTelSdkError),
}

/// Pushes what the sources of one process say.
pub(crate) struct Pusher {
    sources: Arc<Sources>,
    resource: ProcessResource,
    lines: Option<Lines>,
    otlp: Option<Otlp>,
    /// Held by the one export that is under way.
    under_way: Mutex<()>,
}

/// What a flush does after an attempt failed.
enum Failed {
    /// Asks again: the collector may come back.
    Passing(OTelSdkError),
    /// Gives up.
    Final(OTelSdkError),
}

impl Pusher {
    pub(crate) fn new(
        sources: Arc<Sources>,
        resource: ProcessResource,
        lines: Option<Lines>,
        otlp: Option<Otlp>,
    ) -> Self {
        Self { sources, resource, lines, otlp, under_way: Mutex::default() }
    }

    /// Exports at every interval, for as long as it is let.
    pub(crate) async fn run(&self, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is due at once, when there is nothing to tell yet.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            // What failed was noted, and is told again next time.
            let _ = self.export(self.lines.as_ref()).await;
        }
    }

    /// Exports now, and again while the collector is away, for at most `deadline`.
    pub(crate) async fn flush(&self, deadline: Duration) -> Result<(), FlushError> {
        let mut last = None;
        let flushed = async {
            let mut pause = FIRST_PAUSE;
            let mut lines = self.lines.as_ref();
            loop {
                match self.export(lines.take()).await {
                    Ok(()) => return Ok(()),
                    Err(Failed::Final(error)) => return Err(FlushError::Refused(error)),
                    Err(Failed::Passing(error)) => last = Some(error),
                }
                sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        };
        match timeout(deadline, flushed).await {
            Ok(flushed) => flushed,
            Err(_) => Err(FlushError::Deadline { deadline, last }),
        }
    }

    async fn export(&self, lines: Option<&Lines>) -> Result<(), Failed> {
        let _under_way = self.under_way.lock().await;
        for source in self.sources.all() {
            let Some(view) = source.view() else { continue };
            let time = Timestamp::now();
            if let Some(lines) = lines {
                for parts in Chunks::new(Arc::clone(&view)) {
                    lines.cumulative(&*view, &parts);
                    // Writing does not wait for anybody; others want their turn.
                    tokio::task::yield_now().await;
                }
            }
            if let Some(otlp) = &self.otlp {
                let resource = self.resource.of_source(view.identity());
                otlp.send(&*source, &view, time, &resource).await?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pusher").field("sources", &self.sources).finish_non_exhaustive()
    }
}

/// A collector of metrics that are not the SDK's.
pub(crate) struct Otlp {
    client: MetricsServiceClient<Channel>,
    headers: MetadataMap,
    timeout: Duration,
    outcomes: Arc<Outcomes>,
    /// The variables ask for deltas, which was not said yet.
    delta_to_be_refused: AtomicBool,
}

impl Otlp {
    /// Nothing is sent yet; must be called on a Tokio runtime, which carries the connection.
    pub(crate) fn new(
        collector: &Collector,
        variables: Variables<'_>,
        outcomes: &Arc<Outcomes>,
    ) -> Result<Self, CollectorError> {
        let failed = |source| CollectorError::Connect { endpoint: collector.shown(variables), source };
        let limit = Signal::Metrics.timeout(variables);
        let mut endpoint =
            Endpoint::from_shared(collector.url(Signal::Metrics, variables)).map_err(failed)?.timeout(limit);
        if let Some(tls) = collector.tls(Signal::Metrics, variables)? {
            endpoint = endpoint.tls_config(tls).map_err(failed)?;
        }
        let mut client = MetricsServiceClient::new(endpoint.connect_lazy());
        if Signal::Metrics.gzip(variables) {
            client = client
                .send_compressed(CompressionEncoding::Gzip)
                .accept_compressed(CompressionEncoding::Gzip);
        }
        Ok(Self {
            client,
            headers: Signal::Metrics.headers(variables),
            timeout: limit,
            outcomes: Arc::clone(outcomes),
            delta_to_be_refused: AtomicBool::new(asks_for_delta(variables)),
        })
    }

    async fn send(
        &self,
        source: &dyn CumulativeSource,
        view: &Arc<dyn CumulativeView>,
        time: Timestamp,
        resource: &[KeyValue],
    ) -> Result<(), Failed> {
        if self.delta_to_be_refused.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                target: TARGET,
                scope = view.scope(),
                "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE asks for deltas: series that are kept in the cluster \
                 are sums since their start whoever exports them, and are sent so; the process's own metrics are sent \
                 as asked",
            );
        }
        for parts in Chunks::new(Arc::clone(view)) {
            if !source.is_current() {
                return Ok(());
            }
            let request = wire::request(resource.to_vec(), &**view, time, parts);
            let (result, passing) = self.request(request).await;
            if let Err(error) = self.outcomes.note("metrics", result) {
                return Err(if passing { Failed::Passing(error) } else { Failed::Final(error) });
            }
        }
        Ok(())
    }

    /// One request, with whether its failure may pass.
    async fn request(&self, request: ExportMetricsServiceRequest) -> (OTelSdkResult, bool) {
        let request = Request::from_parts(self.headers.clone(), Extensions::new(), request);
        let mut client = self.client.clone();
        // The connection knows the limit for an answer; this one also covers what comes before it is connected.
        match timeout(self.timeout, client.export(request)).await {
            Ok(Ok(response)) => (taken(response.into_inner()), false),
            Ok(Err(status)) => {
                let passing = matches!(
                    status.code(),
                    Code::Unavailable
                        | Code::Cancelled
                        | Code::DeadlineExceeded
                        | Code::ResourceExhausted
                        | Code::Aborted
                        | Code::OutOfRange
                        | Code::DataLoss
                );
                (Err(OTelSdkError::InternalFailure(said(&status))), passing)
            }
            Err(_) => (Err(OTelSdkError::Timeout(self.timeout)), true),
        }
    }
}

/// Whether the collector took all of it.
fn taken(response: ExportMetricsServiceResponse) -> OTelSdkResult {
    match response.partial_success {
        Some(part) if part.rejected_data_points > 0 => Err(OTelSdkError::InternalFailure(format!(
            "the collector rejected {} data points: {}",
            part.rejected_data_points, part.error_message
        ))),
        _ => Ok(()),
    }
}

/// What a status says: the code, and the cause where it is this side's. What the other side writes may echo a token.
fn said(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(source) => format!("{:?}: {}", status.code(), crate::ErrorChain(source)),
        None => format!("{:?}", status.code()),
    }
}
