//! One JSON object a line.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Map, Value};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use super::fields::Fields;
use super::{Output, TraceIds};

/// Writes each event, with the fields of its spans, as one line.
pub(super) struct JsonLayer {
    ids: TraceIds,
    output: Output,
}

impl JsonLayer {
    pub(super) fn new(ids: TraceIds, output: Output) -> Self {
        Self { ids, output }
    }
}

impl<S> Layer<S> for JsonLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Map::new();
        for span in
            context.event_scope(event).into_iter().flat_map(tracing_subscriber::registry::Scope::from_root)
        {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.extend(of_span.0.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        let mut of_event = Fields::default();
        event.record(&mut of_event);
        let message = of_event.0.remove("message");
        fields.extend(of_event.0);
        if let Some((trace, span)) = self.ids.current() {
            fields.insert("trace_id".to_owned(), trace.into());
            fields.insert("span_id".to_owned(), span.into());
        }

        let metadata = event.metadata();
        let line = line(level(*metadata.level()), metadata.target(), message, fields);
        // A log that cannot be written has nowhere to say so.
        let _ = self.output.make_writer_for(metadata).write_all(line.as_bytes());
    }
}

fn line(level: &str, target: &str, message: Option<Value>, mut fields: Map<String, Value>) -> String {
    let logger = match fields.remove("logger") {
        Some(Value::String(logger)) => logger,
        Some(other) => other.to_string(),
        None => target.to_owned(),
    };
    let message = match message {
        Some(Value::String(message)) => message,
        Some(other) => other.to_string(),
        None => String::new(),
    };
    // Written by hand, for the order of the keys; each part is JSON by itself.
    let mut line = format!(
        r#"{{"time":{},"level":"{level}","msg":{},"logger":{}"#,
        Value::from(format!("{:.6}", jiff::Timestamp::now())),
        Value::from(message),
        Value::from(logger),
    );
    for (name, value) in fields {
        let name = match name.as_str() {
            "time" | "level" | "msg" => format!("field_{name}"),
            _ => name,
        };
        // Writing to a string does not fail.
        let _ = write!(line, ",{}:{value}", Value::from(name));
    }
    line.push_str("}\n");
    line
}

fn level(level: Level) -> &'static str {
    match level {
        Level::TRACE => "trace",
        Level::DEBUG => "debug",
        Level::INFO => "info",
        Level::WARN => "warn",
        Level::ERROR => "error",
    }
}
