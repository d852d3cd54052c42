//! Objects as documents.

use serde_json::{Map, Value};

pub(crate) type Object = Map<String, Value>;

/// A text in the metadata; empty when there is none.
pub(crate) fn metadata_text<'a>(object: &'a Object, field: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata[field].as_str()).unwrap_or_default()
}
