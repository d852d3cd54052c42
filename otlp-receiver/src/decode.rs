//! Spans and log records as plain values.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as wire;

/// Attributes by name; what is not text is written as text (`3`, `true`, `[a, b]`).
pub type Attributes = BTreeMap<String, String>;

/// A span as it was sent. Times are nanoseconds since 1970, ids lower-case hex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Who sent it.
    pub resource: Attributes,
    /// The instrumentation scope's name.
    pub scope: String,
    /// Its name.
    pub name: String,
    /// Its kind in lower case: `internal`, `server`, `client`, `producer`, `consumer`, or `unspecified`.
    pub kind: &'static str,
    /// Its trace.
    pub trace_id: String,
    /// Itself.
    pub span_id: String,
    /// Its parent; empty for a root.
    pub parent_span_id: String,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Its attributes.
    pub attributes: Attributes,
    /// What happened in it.
    pub events: Vec<SpanEvent>,
    /// Spans that it names.
    pub links: Vec<Link>,
    /// `unset`, `ok` or `error`.
    pub status: &'static str,
    /// What the status says.
    pub status_message: String,
}

/// An event of a span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpanEvent {
    /// Its name.
    pub name: String,
    /// When it was, nanoseconds since 1970.
    pub time: u64,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A span that another names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its trace.
    pub trace_id: String,
    /// Itself.
    pub span_id: String,
    /// The link's attributes.
    pub attributes: Attributes,
}

/// A log record as it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Who sent it.
    pub resource: Attributes,
    /// The instrumentation scope's name.
    pub scope: String,
    /// What it says.
    pub body: String,
    /// `TRACE`, `DEBUG`, `INFO`, `WARN`, `ERROR`.
    pub severity: String,
    /// Its attributes.
    pub attributes: Attributes,
    /// The trace it belongs to, lower-case hex; empty for none.
    pub trace_id: String,
    /// The span it belongs to, lower-case hex; empty for none.
    pub span_id: String,
}

pub(crate) fn span(resource: &Attributes, scope: &str, span: wire::Span) -> Span {
    let kind = span.kind();
    let status = span.status.unwrap_or_default();
    Span {
        resource: resource.clone(),
        scope: scope.to_owned(),
        name: span.name,
        kind: match kind {
            wire::span::SpanKind::Unspecified => "unspecified",
            wire::span::SpanKind::Internal => "internal",
            wire::span::SpanKind::Server => "server",
            wire::span::SpanKind::Client => "client",
            wire::span::SpanKind::Producer => "producer",
            wire::span::SpanKind::Consumer => "consumer",
        },
        trace_id: hex::encode(&span.trace_id),
        span_id: hex::encode(&span.span_id),
        parent_span_id: hex::encode(&span.parent_span_id),
        start: span.start_time_unix_nano,
        end: span.end_time_unix_nano,
        attributes: attributes(span.attributes),
        events: span
            .events
            .into_iter()
            .map(|event| SpanEvent {
                name: event.name,
                time: event.time_unix_nano,
                attributes: attributes(event.attributes),
            })
            .collect(),
        links: span
            .links
            .into_iter()
            .map(|link| Link {
                trace_id: hex::encode(&link.trace_id),
                span_id: hex::encode(&link.span_id),
                attributes: attributes(link.attributes),
            })
            .collect(),
        status: match status.code() {
            wire::status::StatusCode::Unset => "unset",
            wire::status::StatusCode::Ok => "ok",
            wire::status::StatusCode::Error => "error",
        },
        status_message: status.message,
    }
}

pub(crate) fn log(resource: &Attributes, scope: &str, record: LogRecord) -> Log {
    Log {
        resource: resource.clone(),
        scope: scope.to_owned(),
        body: record.body.map(text).unwrap_or_default(),
        severity: record.severity_text,
        attributes: attributes(record.attributes),
        trace_id: hex::encode(&record.trace_id),
        span_id: hex::encode(&record.span_id),
    }
}

pub(crate) fn resource(resource: Option<Resource>) -> Attributes {
    attributes(resource.unwrap_or_default().attributes)
}

pub(crate) fn attributes(attributes: Vec<KeyValue>) -> Attributes {
    attributes
        .into_iter()
        .map(|attribute| (attribute.key, attribute.value.map(text).unwrap_or_default()))
        .collect()
}

fn text(value: AnyValue) -> String {
    match value.value {
        Some(any_value::Value::StringValue(text)) => text,
        Some(any_value::Value::BoolValue(value)) => value.to_string(),
        Some(any_value::Value::IntValue(value)) => value.to_string(),
        Some(any_value::Value::DoubleValue(value)) => value.to_string(),
        Some(any_value::Value::BytesValue(bytes)) => hex::encode(&bytes),
        Some(any_value::Value::ArrayValue(array)) => {
            format!("[{}]", array.values.into_iter().map(text).collect::<Vec<_>>().join(", "))
        }
        Some(any_value::Value::KvlistValue(list)) => format!("{:?}", attributes(list.values)),
        Some(_) | None => String::new(),
    }
}
