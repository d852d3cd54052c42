//! What waits to be exported: bounded in number and in bytes, and what finds no room is counted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder as LogConfigBuilder, BatchLogProcessor, LogBatch, LogExporter, LogProcessor,
    SdkLogRecord,
};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};

use super::fate::{Loss, Outcomes, TARGET};
use super::settings::Signal;
use super::weight;
use crate::variables::Variables;

/// So many spans or log records wait at most, unless a variable says otherwise.
pub(crate) const ITEMS: usize = 2048;
/// So much may all that wait weigh together, in bytes.
const WEIGHT: usize = 8 << 20;
/// How long spans wait for company before they are exported.
const SPAN_DELAY: Duration = Duration::from_secs(1);

/// How much waits, that under way included.
struct Queue {
    signal: Signal,
    limit: usize,
    items: AtomicUsize,
    weight: AtomicUsize,
    dropped: AtomicU64,
    said: AtomicBool,
    outcomes: Arc<Outcomes>,
}

impl Queue {
    fn new(signal: Signal, limit: usize, outcomes: &Arc<Outcomes>) -> Arc<Self> {
        Arc::new(Self {
            signal,
            limit,
            items: AtomicUsize::new(0),
            weight: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            said: AtomicBool::new(false),
            outcomes: Arc::clone(outcomes),
        })
    }

    /// Whether there is room for one more of this weight, which it has then.
    fn enter(&self, weight: usize) -> bool {
        let within =
            |most: usize, more: usize| move |now: usize| now.checked_add(more).filter(|sum| *sum <= most);
        let (set, get) = (Ordering::AcqRel, Ordering::Acquire);
        if self.items.fetch_update(set, get, within(self.limit, 1)).is_ok() {
            if self.weight.fetch_update(set, get, within(WEIGHT, weight)).is_ok() {
                return true;
            }
            self.items.fetch_sub(1, set);
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
        self.outcomes.lost(self.signal, 1, Loss::QueueFull);
        false
    }

    /// Makes room for others, and says once that some found none: whoever found none cannot, in the midst of a span's end.
    fn leave(&self, items: usize, weight: usize) {
        self.items.fetch_sub(items, Ordering::AcqRel);
        self.weight.fetch_sub(weight, Ordering::AcqRel);
        if self.dropped.load(Ordering::Relaxed) > 0 && !self.said.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: TARGET,
                signal = self.signal.name(),
                limit = self.limit,
                limit_bytes = WEIGHT,
                "too much waits to be exported, and more is lost; this is only counted from now on, in \
                 otel_lost_items_total",
            );
        }
    }
}

/// How many a variable lets wait.
fn limit(variables: Variables<'_>, name: &str) -> usize {
    variables(name).and_then(|text| text.trim().parse().ok()).filter(|limit| *limit > 0).unwrap_or(ITEMS)
}

/// An exporter that makes room once something was exported, or could not be.
struct Leaving<E> {
    inner: E,
    queue: Arc<Queue>,
}

impl<E> fmt::Debug for Leaving<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaving").finish_non_exhaustive()
    }
}

impl<E: SpanExporter> SpanExporter for Leaving<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let (items, weight) = (batch.len(), batch.iter().map(weight::of_span).sum());
        let result = self.inner.export(batch).await;
        self.queue.leave(items, weight);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for Leaving<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let (items, weight) = batch
            .iter()
            .fold((0, 0), |(items, weight), (record, _)| (items + 1, weight + weight::of_log(record)));
        let result = self.inner.export(batch).await;
        self.queue.leave(items, weight);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// Spans that wait for an exporter. Ending a span never waits.
pub(crate) struct QueuedSpans {
    inner: BatchSpanProcessor,
    queue: Arc<Queue>,
}

impl QueuedSpans {
    pub(crate) fn new<E: SpanExporter + 'static>(
        exporter: E,
        resource: &Resource,
        variables: Variables<'_>,
        outcomes: &Arc<Outcomes>,
    ) -> Arc<Self> {
        let limit = limit(variables, "OTEL_BSP_MAX_QUEUE_SIZE");
        let queue = Queue::new(Signal::Traces, limit, outcomes);
        let mut config = BatchConfigBuilder::default().with_max_queue_size(limit);
        if variables("OTEL_BSP_SCHEDULE_DELAY").is_none() {
            config = config.with_scheduled_delay(SPAN_DELAY);
        }
        let exporter = Leaving { inner: exporter, queue: Arc::clone(&queue) };
        let mut inner = BatchSpanProcessor::builder(exporter).with_batch_config(config.build()).build();
        inner.set_resource(resource);
        Arc::new(Self { inner, queue })
    }
}

impl fmt::Debug for QueuedSpans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedSpans").finish_non_exhaustive()
    }
}

impl SpanProcessor for QueuedSpans {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.inner.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.queue.enter(weight::of_span(&span)) {
            self.inner.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }
}

/// Log records that wait for an exporter. Writing one never waits.
pub(crate) struct QueuedLogs {
    inner: BatchLogProcessor,
    queue: Arc<Queue>,
}

impl QueuedLogs {
    pub(crate) fn new<E: LogExporter + 'static>(
        exporter: E,
        variables: Variables<'_>,
        outcomes: &Arc<Outcomes>,
    ) -> Self {
        let limit = limit(variables, "OTEL_BLRP_MAX_QUEUE_SIZE");
        let queue = Queue::new(Signal::Logs, limit, outcomes);
        let config = LogConfigBuilder::default().with_max_queue_size(limit).build();
        let exporter = Leaving { inner: exporter, queue: Arc::clone(&queue) };
        let inner = BatchLogProcessor::builder(exporter).with_batch_config(config).build();
        Self { inner, queue }
    }
}

impl fmt::Debug for QueuedLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueuedLogs").finish_non_exhaustive()
    }
}

impl LogProcessor for QueuedLogs {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if self.queue.enter(weight::of_log(record)) {
            self.inner.emit(record, scope);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_full_when_it_holds_its_number_or_its_weight() {
        let queue = Queue::new(Signal::Logs, 3, &Arc::default());
        assert!((0..3).all(|_| queue.enter(1)));
        assert!(!queue.enter(1), "three wait");
        queue.leave(3, 3);
        assert!(queue.enter(WEIGHT - 1));
        assert!(!queue.enter(2), "too heavy together");
        assert!(queue.enter(1));
        queue.leave(2, WEIGHT);
        assert!(!queue.enter(WEIGHT + 1), "too heavy alone");
        assert!(!queue.enter(usize::MAX));
        assert!((0..3).all(|_| queue.enter(1)), "what was refused takes no room");
        assert_eq!(queue.dropped.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_variable_says_how_many_may_wait() {
        let set = |value: &'static str| move |_: &str| Some(value.to_owned());
        assert_eq!(limit(&set("16"), "OTEL_BSP_MAX_QUEUE_SIZE"), 16);
        for nonsense in ["0", "-1", "many"] {
            assert_eq!(limit(&set(nonsense), "OTEL_BSP_MAX_QUEUE_SIZE"), ITEMS, "{nonsense}");
        }
    }
}
