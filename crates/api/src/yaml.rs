//! YAML, always with the same options.
//!
//! Manifests are written for readers of YAML 1.1 (`defaultMode: 0644`, `on` and `yes` as booleans), and files
//! come from people we do not know: duplicate keys are errors, and what aliases may grow to is bounded.

mod edit;

use serde::Serialize;
use serde_json::Value;
use serde_saphyr::{
    Options,
    options::{DuplicateKeyPolicy, NonFiniteFloatPolicy},
};

pub use self::edit::{edited, is_same};

/// Most nodes in a document, with every alias counted as what it stands for.
const MAX_NODES: usize = 1_000_000;
/// Most bytes of text in a document, with every alias counted as what it stands for.
const MAX_TEXT: usize = 64 << 20;
/// Deepest nesting: twice what definitions of schemas come to, and half of what fits on a thread's stack without
/// optimisation, since the library reads by recursion.
const MAX_DEPTH: usize = 64;
/// Most nodes that aliases may repeat.
const MAX_REPEATED: usize = 100_000;

/// A text that is not YAML, or not YAML that we accept.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
}

/// Reads one YAML document into JSON.
///
/// Refuses duplicate keys, more than one document, numbers that JSON cannot hold, and documents that are
/// deeper or larger than a manifest has any reason to be, aliases expanded.
pub fn parse(text: &str) -> Result<Value, Error> {
    serde_saphyr::from_str_with_options(text, options(DuplicateKeyPolicy::Error))
        .map_err(|error| Error { message: first_line(&error) })
}

/// Writes a value as YAML that Go's readers read back as the same value.
pub fn to_string<T: Serialize>(value: &T) -> Result<String, Error> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).map_err(|error| Error { message: error.to_string() })
}

/// How documents are read, and the bounds that they are held to.
pub fn options(duplicate_keys: DuplicateKeyPolicy) -> Options {
    serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        strict_booleans: false,
        non_finite_float_policy: NonFiniteFloatPolicy::Reject,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_REPEATED,
        },
        budget: serde_saphyr::budget! {
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES,
            max_total_scalar_bytes: MAX_TEXT,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_documents: 2,
        }
    }
}

/// The error's own line: messages end up in tables and lists.
fn first_line(error: &serde_saphyr::Error) -> String {
    error.to_string().lines().next().unwrap_or("invalid YAML").to_owned()
}

#[cfg(test)]
mod tests;
