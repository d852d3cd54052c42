//! Exports the series of sources, which outlive a process: at every interval, and once more at the end.
//!
//! One export is under way at a time, and each carries the whole state, so nothing is queued: what a collector did not
//! take is sent again by the next. A view is sent in chunks, each put together when the one before was answered.

mod chunks;
mod client;
mod encode;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry_sdk::metrics::Temporality;
use tokio::sync::{Mutex, Notify};
use tokio::time::{MissedTickBehavior, timeout};

use self::chunks::Chunks;
pub(super) use self::chunks::Part;
use self::client::Client;
use super::connection::Connection;
use super::error::ExportError;
use super::report::TARGET;
use super::stdout::Lines;
use crate::resource::ProcessResource;
use crate::sources::Sources;
use crate::{CumulativeSource, CumulativeView};

/// How a flush asks a collector again that does not answer.
const BACKOFF: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_secs(1))
    .without_max_times();

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
        last: Option<ExportError>,
    },
    /// The collector does not want it.
    #[error("failed to send everything to the collector")]
    Refused(#[source] ExportError),
}

/// Exports the series of one process's sources.
pub(crate) struct CumulativeExporter {
    sources: Arc<Sources>,
    resource: ProcessResource,
    lines: Option<Lines>,
    collector: Option<CollectorExporter>,
    /// Held by the one export that is under way.
    under_way: Mutex<()>,
    /// Notified when a flush begins.
    flushing: Notify,
}

/// The outcome of one export of everything.
#[derive(Default)]
struct Pass {
    /// At least one request was answered, or not in time.
    has_requested: bool,
    /// The first error, but an unavailable collector comes before all else.
    error: Option<ExportError>,
}

impl Pass {
    fn fail(&mut self, error: ExportError) {
        if self.error.is_none() || matches!(error, ExportError::Unavailable(_)) {
            self.error = Some(error);
        }
    }

    /// Whether further requests would fare no better.
    fn is_over(&self) -> bool {
        matches!(self.error, Some(ExportError::Unavailable(_) | ExportError::Denied(_)))
    }
}

impl CumulativeExporter {
    pub(crate) fn new(
        sources: Arc<Sources>,
        resource: ProcessResource,
        lines: Option<Lines>,
        collector: Option<CollectorExporter>,
    ) -> Self {
        Self { sources, resource, lines, collector, under_way: Mutex::default(), flushing: Notify::new() }
    }

    /// Exports at every interval, until it is dropped.
    pub(crate) async fn run(&self, interval: Duration) {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is due at once, when there is nothing to export yet.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            tokio::select! {
                // What failed was reported, and is sent again next time.
                _ = self.export(self.lines.as_ref()) => {}
                // What is flushed is newer, and a slow collector may take minutes for all of this.
                () = self.flushing.notified() => {}
            }
        }
    }

    /// Exports now, and again while the collector does not answer, for at most `deadline`.
    pub(crate) async fn flush(&self, deadline: Duration) -> Result<(), FlushError> {
        self.flushing.notify_waiters();
        let mut lines = self.lines.as_ref();
        let mut last = None;
        let flushed = (|| self.export(lines.take()))
            .retry(BACKOFF)
            .sleep(tokio::time::sleep)
            .when(|error| matches!(error, ExportError::Unavailable(_)))
            .notify(|error, _| last = Some(error.clone()));
        match timeout(deadline, flushed).await {
            Ok(flushed) => flushed.map_err(FlushError::Refused),
            Err(_) => Err(FlushError::Deadline { deadline, last }),
        }
    }

    /// Exports everything once. What one request carried and the collector did not take does not keep it from the next.
    async fn export(&self, lines: Option<&Lines>) -> Result<(), ExportError> {
        let _under_way = self.under_way.lock().await;
        // Writing waits for nobody, so it comes first.
        if let Some(lines) = lines {
            self.write(lines).await;
        }
        let Some(collector) = &self.collector else { return Ok(()) };
        let mut pass = Pass::default();
        for source in self.sources.all() {
            if pass.is_over() {
                break;
            }
            let Some(view) = source.view() else { continue };
            let resource = self.resource.of_source(view.identity());
            if collector.send(&*source, &view, Timestamp::now(), &resource, &mut pass).await {
                view.exported();
            }
        }
        if pass.has_requested {
            collector.client.reporter.log(pass.error.as_ref());
        }
        pass.error.map_or(Ok(()), Err)
    }

    /// Writes everything as lines.
    async fn write(&self, lines: &Lines) {
        for source in self.sources.all() {
            let Some(view) = source.view() else { continue };
            for parts in Chunks::new(Arc::clone(&view)) {
                lines.cumulative(&*view, &parts);
                // Others want their turn.
                tokio::task::yield_now().await;
            }
        }
    }
}

impl fmt::Debug for CumulativeExporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CumulativeExporter").field("sources", &self.sources).finish_non_exhaustive()
    }
}

/// Sends cumulative series to a collector.
pub(crate) struct CollectorExporter {
    client: Client,
    /// The variables ask for deltas, which was not logged yet.
    delta_to_refuse: AtomicBool,
}

impl CollectorExporter {
    pub(crate) fn new(connection: Connection, preference: Temporality) -> Self {
        let delta_to_refuse = AtomicBool::new(preference != Temporality::Cumulative);
        Self { client: Client::new(connection), delta_to_refuse }
    }

    /// Sends what a view holds, until all was sent or the pass is over. Returns whether all of it was taken.
    async fn send(
        &self,
        source: &dyn CumulativeSource,
        view: &Arc<dyn CumulativeView>,
        time: Timestamp,
        resource: &[KeyValue],
        pass: &mut Pass,
    ) -> bool {
        if self.delta_to_refuse.swap(false, Ordering::Relaxed) {
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
            let request = encode::request(resource.to_vec(), &**view, time, parts);
            pass.has_requested = true;
            if let Err(error) = self.client.request(request).await {
                self.client.reporter.count(&error);
                pass.fail(error);
                is_taken = false;
            }
        }
        is_taken
    }
}
