//! Fields of events and spans as JSON values.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};

/// The fields of one event or span.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields(pub(super) Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        let name = field.name();
        // A field written as `r#type` is called `type`.
        self.0.insert(name.strip_prefix("r#").unwrap_or(name).to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no NaN and no infinity: those are written as text rather than lost.
        let number = serde_json::Number::from_f64(value).map(Value::Number);
        self.insert(field, number.unwrap_or_else(|| Value::String(value.to_string())));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.insert(field, crate::ErrorChain(value).to_string().into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}").into());
    }
}
