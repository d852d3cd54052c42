//! Spans of what happened elsewhere: with times and ids of their own, told once it is over.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks, SpanProcessor};

use crate::push::queue::QueuedSpans;

/// A span that is over, with everything that is known of it.
///
/// Whoever tells the same thing twice makes its ids from what it is, so that the second telling is the first span again.
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

/// Where finished spans are told: to whom the process's own go.
#[derive(Clone, Default)]
pub struct Spans {
    processors: Arc<[Arc<QueuedSpans>]>,
}

impl Spans {
    /// Where nothing is told: in modes without traces, and in tests.
    pub fn nowhere() -> Self {
        Self::default()
    }

    pub(crate) fn new(processors: Vec<Arc<QueuedSpans>>) -> Self {
        Self { processors: processors.into() }
    }

    /// Whether somebody listens; what is costly to put together can be left out otherwise.
    pub fn is_told(&self) -> bool {
        !self.processors.is_empty()
    }

    /// Tells a span. Never waits: what does not fit into the queue of a slow collector is dropped.
    pub fn tell(&self, span: FinishedSpan) {
        let Some((last, others)) = self.processors.split_last() else { return };
        let data = data(span);
        for processor in others {
            processor.on_end(data.clone());
        }
        last.on_end(data);
    }

    /// Does `inside` with this span as the current one: log lines that it writes carry the span's ids.
    pub fn within<T>(&self, trace_id: TraceId, span_id: SpanId, inside: impl FnOnce() -> T) -> T {
        if !self.is_told() {
            return inside();
        }
        let _attached = Context::current().with_remote_span_context(context(trace_id, span_id)).attach();
        inside()
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("listeners", &self.processors.len()).finish()
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

/// A processor that the tracer provider and [`Spans`] share. It was told its resource before.
#[derive(Debug)]
pub(crate) struct Shared(pub(crate) Arc<QueuedSpans>);

impl SpanProcessor for Shared {
    fn on_start(&self, span: &mut opentelemetry_sdk::trace::Span, context: &Context) {
        self.0.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        self.0.on_end(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: std::time::Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }
}
