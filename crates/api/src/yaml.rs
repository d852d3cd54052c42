//! YAML, always with the same options.

use serde_json::Value;

/// A text that is not YAML, or not YAML that we accept.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
}

/// Reads one YAML document into JSON.
pub fn parse(text: &str) -> Result<Value, Error> {
    serde_saphyr::from_str(text).map_err(|error| Error { message: error.to_string() })
}

/// Writes a value as YAML that Go's readers read back as the same value.
pub fn to_string<T: serde::Serialize>(value: &T) -> Result<String, Error> {
    serde_saphyr::to_string(value).map_err(|error| Error { message: error.to_string() })
}
