//! Spans of what happened elsewhere: with times and ids of their own, recorded once it is over.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks, SpanProcessor as _};

use crate::export::queue::QueuedSpans;

/// A span that is over, with everything that is known of it.
///
/// Whoever may record the same thing twice makes its ids from what it is, so that it is the same span again.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedSpan {
    /// The instrumentation scope's name.
    pub scope: &'static str,
    /// Its name.
    pub name: Cow<'static, str>,
    /// What it stands for.
    pub kind: SpanKind,
    /// Its trace.
    pub trace_id: TraceId,
    /// Itself.
    pub span_id: SpanId,
    /// The span of the same trace that it is a part of; none for a root.
    pub parent: Option<SpanId>,
    /// When it began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// What is known of it.
    pub attributes: Vec<KeyValue>,
    /// What happened in it.
    pub events: Vec<Event>,
    /// Spans of other traces that it has to do with.
    pub links: Vec<Link>,
    /// How it ended.
    pub status: Status,
}

impl FinishedSpan {
    /// A span without attributes, events and links, whose status is not set.
    pub fn new(
        scope: &'static str,
        name: impl Into<Cow<'static, str>>,
        (trace_id, span_id): (TraceId, SpanId),
        (start, end): (Timestamp, Timestamp),
    ) -> Self {
        Self {
            scope,
            name: name.into(),
            kind: SpanKind::Internal,
            trace_id,
            span_id,
            parent: None,
            start,
            end,
            attributes: Vec::new(),
            events: Vec::new(),
            links: Vec::new(),
            status: Status::Unset,
        }
    }
}

/// Where finished spans are recorded: they go where the process's own go.
#[derive(Clone, Default)]
pub struct Spans {
    queues: Arc<[QueuedSpans]>,
}

impl Spans {
    /// Spans that are dropped: in modes without traces, and in tests.
    pub fn disabled() -> Self {
        Self::default()
    }

    pub(crate) fn new(queues: Vec<QueuedSpans>) -> Self {
        Self { queues: queues.into() }
    }

    /// Whether spans go anywhere; what is costly to put together can be left out otherwise.
    pub fn is_enabled(&self) -> bool {
        !self.queues.is_empty()
    }

    /// Records a span. Never waits: what does not fit into the queue of a slow collector is dropped.
    pub fn record(&self, span: FinishedSpan) {
        let Some((last, others)) = self.queues.split_last() else { return };
        let data = data(span);
        for queue in others {
            queue.on_end(data.clone());
        }
        last.on_end(data);
    }

    /// Does `inside` with this span as the current one: log lines that it writes carry the span's ids.
    pub fn within<T>(&self, trace_id: TraceId, span_id: SpanId, inside: impl FnOnce() -> T) -> T {
        if !self.is_enabled() {
            return inside();
        }
        let _attached = Context::current().with_remote_span_context(context(trace_id, span_id)).attach();
        inside()
    }

    /// Does `work` below this span, which may be recorded later: the spans that it begins are its children, and log lines
    /// carry its ids.
    pub async fn around<T>(&self, trace_id: TraceId, span_id: SpanId, work: impl Future<Output = T>) -> T {
        if !self.is_enabled() {
            return work.await;
        }
        let parent = Context::current().with_remote_span_context(context(trace_id, span_id));
        work.with_context(parent).await
    }
}

/// The same work below the span that is the current one here, for work that goes on as a task of its own.
pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    work.with_current_context()
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("queues", &self.queues.len()).finish()
    }
}

fn context(trace_id: TraceId, span_id: SpanId) -> SpanContext {
    SpanContext::new(trace_id, span_id, TraceFlags::SAMPLED, false, TraceState::default())
}

pub(crate) fn data(span: FinishedSpan) -> SpanData {
    let mut events = SpanEvents::default();
    events.events = span.events;
    let mut links = SpanLinks::default();
    links.links = span.links;
    SpanData {
        span_context: context(span.trace_id, span.span_id),
        parent_span_id: span.parent.unwrap_or(SpanId::INVALID),
        parent_span_is_remote: false,
        span_kind: span.kind,
        name: span.name,
        start_time: span.start.into(),
        end_time: span.end.into(),
        attributes: span.attributes,
        dropped_attributes_count: 0,
        events,
        links,
        status: span.status,
        instrumentation_scope: InstrumentationScope::builder(span.scope).build(),
    }
}
