//! What spans and log records weigh: about so many bytes in memory, and as encoded.

use opentelemetry::logs::AnyValue;
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::logs::SdkLogRecord;
use opentelemetry_sdk::trace::SpanData;

/// What each thing weighs beside its text: ids, times, lengths.
const FRAME: usize = 64;
/// What each attribute weighs beside its text.
const ATTRIBUTE: usize = 16;

/// What a span weighs.
pub(super) fn of_span(span: &SpanData) -> usize {
    let events = span.events.iter().map(|event| FRAME + event.name.len() + of_attributes(&event.attributes));
    let links = span.links.iter().map(|link| FRAME + of_attributes(&link.attributes));
    let status = match &span.status {
        opentelemetry::trace::Status::Error { description } => description.len(),
        _ => 0,
    };
    2 * FRAME
        + span.name.len()
        + status
        + of_attributes(&span.attributes)
        + events.sum::<usize>()
        + links.sum::<usize>()
}

/// What a log record weighs.
pub(super) fn of_log(record: &SdkLogRecord) -> usize {
    let attributes =
        record.attributes_iter().map(|(key, value)| ATTRIBUTE + key.as_str().len() + of_any(value));
    2 * FRAME + record.body().map_or(0, of_any) + attributes.sum::<usize>()
}

fn of_attributes(attributes: &[KeyValue]) -> usize {
    attributes
        .iter()
        .map(|attribute| ATTRIBUTE + attribute.key.as_str().len() + of_value(&attribute.value))
        .sum()
}

fn of_value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.as_str().len(),
        Value::Array(_) => value.as_str().len(),
        _ => 8,
    }
}

fn of_any(value: &AnyValue) -> usize {
    match value {
        AnyValue::String(text) => text.as_str().len(),
        AnyValue::Bytes(bytes) => bytes.len(),
        AnyValue::ListAny(list) => list.iter().map(|value| ATTRIBUTE + of_any(value)).sum(),
        AnyValue::Map(map) => {
            map.iter().map(|(key, value)| ATTRIBUTE + key.as_str().len() + of_any(value)).sum()
        }
        _ => 8,
    }
}
