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
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::Temporality;
use tokio::sync::{Mutex, Notify};
use tokio::time::{MissedTickBehavior, sleep, timeout};
use tonic::transport::Channel;

use super::chunks::Chunks;
use super::client::{Client, FIRST_PAUSE, Failed, LONGEST_PAUSE};
use super::fate::TARGET;
use super::stdout::Lines;
use super::wire;
use crate::resource::ProcessResource;
use crate::sources::Sources;
use crate::{CumulativeSource, CumulativeView};

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
    /// Told when a flush begins.
    flushed: Notify,
}

/// One telling of everything: how it goes.
#[derive(Default)]
struct Pass {
    /// At least one request came to its end.
    asked: bool,
    /// What failed first, but for what may pass: that comes before all else.
    failed: Option<Failed>,
}

impl Pass {
    fn fail(&mut self, failed: Failed) {
        if self.failed.is_none() || matches!(failed, Failed::Passing { .. }) {
            self.failed = Some(failed);
        }
    }

    /// Whether there is no use in asking for more.
    fn is_over(&self) -> bool {
        matches!(self.failed, Some(Failed::Passing { .. } | Failed::Unwanted(_)))
    }
}

impl Pusher {
    pub(crate) fn new(
        sources: Arc<Sources>,
        resource: ProcessResource,
        lines: Option<Lines>,
        otlp: Option<Otlp>,
    ) -> Self {
        Self { sources, resource, lines, otlp, under_way: Mutex::default(), flushed: Notify::new() }
    }

    /// Exports at every interval, for as long as it is let.
    pub(crate) async fn run(&self, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is due at once, when there is nothing to tell yet.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            tokio::select! {
                // What failed was noted, and is told again next time.
                _ = self.export(self.lines.as_ref()) => {}
                // What is flushed is newer, and a slow collector may take minutes for all of this.
                () = self.flushed.notified() => {}
            }
        }
    }

    /// Exports now, and again while the collector is away, for at most `deadline`.
    pub(crate) async fn flush(&self, deadline: Duration) -> Result<(), FlushError> {
        self.flushed.notify_waiters();
        let mut last = None;
        let flushed = async {
            let mut pause = FIRST_PAUSE;
            let mut lines = self.lines.as_ref();
            loop {
                match self.export(lines.take()).await {
                    Ok(()) => return Ok(()),
                    Err(Failed::Passing { error, after }) => {
                        last = Some(error);
                        sleep(pause.max(after)).await;
                    }
                    Err(failed) => return Err(FlushError::Refused(failed.into_error())),
                }
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        };
        match timeout(deadline, flushed).await {
            Ok(flushed) => flushed,
            Err(_) => Err(FlushError::Deadline { deadline, last }),
        }
    }

    /// Tells everything once. What one request carried and the collector did not take does not keep it from the next.
    async fn export(&self, lines: Option<&Lines>) -> Result<(), Failed> {
        let _under_way = self.under_way.lock().await;
        // Writing waits for nobody, so it comes first.
        if let Some(lines) = lines {
            for source in self.sources.all() {
                let Some(view) = source.view() else { continue };
                for parts in Chunks::new(Arc::clone(&view)) {
                    lines.cumulative(&*view, &parts);
                    // Others want their turn.
                    tokio::task::yield_now().await;
                }
                if self.otlp.is_none() {
                    view.taken();
                }
            }
        }
        let Some(otlp) = &self.otlp else { return Ok(()) };
        let mut pass = Pass::default();
        for source in self.sources.all() {
            if pass.is_over() {
                break;
            }
            let Some(view) = source.view() else { continue };
            let resource = self.resource.of_source(view.identity());
            if otlp.send(&*source, &view, Timestamp::now(), &resource, &mut pass).await {
                view.taken();
            }
        }
        if pass.asked {
            otlp.client.fate().tell(pass.failed.as_ref());
        }
        pass.failed.map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Pusher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pusher").field("sources", &self.sources).finish_non_exhaustive()
    }
}

/// A collector of metrics that are not the SDK's.
pub(crate) struct Otlp {
    client: Client<MetricsServiceClient<Channel>>,
    /// The variables ask for deltas, which was not said yet.
    delta_to_be_refused: AtomicBool,
}

impl Otlp {
    pub(crate) fn new(client: Client<MetricsServiceClient<Channel>>, asked: Temporality) -> Self {
        Self { client, delta_to_be_refused: AtomicBool::new(asked != Temporality::Cumulative) }
    }

    /// Sends what a view says, until all was asked for or the pass is over. Answers whether all of it was taken.
    async fn send(
        &self,
        source: &dyn CumulativeSource,
        view: &Arc<dyn CumulativeView>,
        time: Timestamp,
        resource: &[KeyValue],
        pass: &mut Pass,
    ) -> bool {
        if self.delta_to_be_refused.swap(false, Ordering::Relaxed) {
            tracing::warn!(
                target: TARGET,
                scope = view.scope(),
                "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE asks for deltas: series that are kept in the cluster \
                 are sums since their start whoever exports them, and are sent so; the process's own metrics are sent \
                 as asked",
            );
        }
        let mut is_taken = true;
        let mut chunks = Chunks::new(Arc::clone(view));
        while !pass.is_over()
            && let Some(parts) = chunks.next()
        {
            if !source.is_current() {
                return false;
            }
            let result = self.client.request(wire::request(resource.to_vec(), &**view, time, parts)).await;
            pass.asked = true;
            if let Err(failed) = result {
                self.client.fate().count(&failed);
                pass.fail(failed);
                is_taken = false;
            }
        }
        is_taken
    }
}
