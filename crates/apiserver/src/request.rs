//! From an HTTP request to what is asked, and from an answer to an HTTP response.

mod accept;
mod body;
mod json_error;
mod path;
mod protobuf;
mod query;
pub(crate) mod yaml;

pub(crate) use accept::{Accept, Shape};
pub(crate) use body::{check_type, read_bytes, read_document, read_object};
pub(crate) use json_error::syntax_error;
pub(crate) use path::{Part, Route, Target};
pub(crate) use query::{
    FIELD_MANAGER_MAX, FieldValidation, ListQuery, Query, VersionMatch, WriteQuery, dry_run_error,
    is_printable,
};
