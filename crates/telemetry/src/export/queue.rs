//! The SDK's batch processors, with what finds no room in their queues counted: they keep that number to themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::{Context, InstrumentationScope};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder as LogConfigBuilder, BatchLogProcessor, LogExporter, LogProcessor, SdkLogRecord,
};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Span, SpanData, SpanExporter, SpanProcessor,
};

use super::report::ExportReporter;
use super::reported::Reported;
use crate::variables::Variables;

/// So many spans or log records wait at most, unless a variable says otherwise.
pub(crate) const ITEMS: usize = 2048;
/// How long spans wait for others before they are exported.
const SPAN_DELAY: Duration = Duration::from_secs(1);

/// How many items wait in a processor, those under way included.
#[derive(Debug)]
pub(crate) struct Queue {
    limit: usize,
    items: AtomicUsize,
    has_dropped: AtomicBool,
    is_logged: AtomicBool,
    reporter: Arc<ExportReporter>,
}

impl Queue {
    pub(super) fn new(limit: usize, reporter: Arc<ExportReporter>) -> Self {
        let (has_dropped, is_logged) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { limit, items: AtomicUsize::new(0), has_dropped, is_logged, reporter }
    }

    /// Whether there is room for one more, which it takes.
    fn enter(&self) -> bool {
        if self.items.fetch_add(1, Ordering::AcqRel) < self.limit {
            return true;
        }
        self.items.fetch_sub(1, Ordering::AcqRel);
        self.has_dropped.store(true, Ordering::Relaxed);
        self.reporter.count_dropped();
        false
    }

    /// Makes room for others. That some found none is logged here, on the exporter's thread: not while a span ends.
    pub(super) fn leave(&self, items: usize) {
        self.items.fetch_sub(items, Ordering::AcqRel);
        if self.has_dropped.load(Ordering::Relaxed) && !self.is_logged.swap(true, Ordering::Relaxed) {
            self.reporter.log_dropped(self.limit);
        }
    }
}

/// How many a variable lets wait.
fn limit(variables: Variables<'_>, name: &str) -> usize {
    variables(name).and_then(|text| text.trim().parse().ok()).filter(|limit| *limit > 0).unwrap_or(ITEMS)
}

/// A batch processor, and the queue before it where what finds no room is counted.
#[derive(Clone, Debug)]
pub(crate) struct Queued<P> {
    processor: P,
    queue: Option<Arc<Queue>>,
}

/// Spans that wait for an exporter. Ending one never waits. Clones share what waits.
pub(crate) type QueuedSpans = Queued<Arc<BatchSpanProcessor>>;

impl QueuedSpans {
    /// Spans for an exporter that nobody waits for.
    pub(crate) fn new<E: SpanExporter + 'static>(
        exporter: E,
        resource: &Resource,
        variables: Variables<'_>,
    ) -> Self {
        let mut config =
            BatchConfigBuilder::default().with_max_queue_size(limit(variables, "OTEL_BSP_MAX_QUEUE_SIZE"));
        if variables("OTEL_BSP_SCHEDULE_DELAY").is_none() {
            config = config.with_scheduled_delay(SPAN_DELAY);
        }
        let mut processor = BatchSpanProcessor::builder(exporter).with_batch_config(config.build()).build();
        processor.set_resource(resource);
        Self { processor: Arc::new(processor), queue: None }
    }

    /// Spans for a collector, of which those that find no room are counted.
    pub(crate) fn counted<E: SpanExporter + 'static>(
        mut exporter: Reported<E>,
        resource: &Resource,
        variables: Variables<'_>,
    ) -> Self {
        let queue = exporter.queue(limit(variables, "OTEL_BSP_MAX_QUEUE_SIZE"));
        Self { queue: Some(queue), ..Self::new(exporter, resource, variables) }
    }
}

/// Log records that wait for a collector. Writing one never waits.
pub(crate) type QueuedLogs = Queued<BatchLogProcessor>;

impl QueuedLogs {
    /// Log records of which those that find no room are counted.
    pub(crate) fn counted<E: LogExporter + 'static>(
        mut exporter: Reported<E>,
        variables: Variables<'_>,
    ) -> Self {
        let limit = limit(variables, "OTEL_BLRP_MAX_QUEUE_SIZE");
        let queue = Some(exporter.queue(limit));
        let config = LogConfigBuilder::default().with_max_queue_size(limit).build();
        Self { processor: BatchLogProcessor::builder(exporter).with_batch_config(config).build(), queue }
    }
}

impl<P> Queued<P> {
    fn has_room(&self) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.enter())
    }
}

impl SpanProcessor for QueuedSpans {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.processor.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if self.has_room() {
            self.processor.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.processor.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.processor.shutdown_with_timeout(timeout)
    }
}

impl LogProcessor for QueuedLogs {
    fn emit(&self, record: &mut SdkLogRecord, scope: &InstrumentationScope) {
        if self.has_room() {
            self.processor.emit(record, scope);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.processor.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.processor.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.processor.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_says_how_many_may_wait() {
        let set = |value: &'static str| move |_: &str| Some(value.to_owned());
        assert_eq!(limit(&set("16"), "OTEL_BSP_MAX_QUEUE_SIZE"), 16);
        for nonsense in ["0", "-1", "many"] {
            assert_eq!(limit(&set(nonsense), "OTEL_BSP_MAX_QUEUE_SIZE"), ITEMS, "{nonsense}");
        }
    }
}
