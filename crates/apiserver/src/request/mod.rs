//! From an HTTP request to what is asked, and from an answer to an HTTP response.

mod accept;
mod body;
mod path;
mod protobuf;
mod query;

pub(crate) use accept::{Accept, Shape};
pub(crate) use body::{BODY_LIMIT, read_bytes, read_document};
pub(crate) use path::{Route, Target};
pub(crate) use query::{
    FIELD_MANAGER_MAX, FieldValidation, ListQuery, Query, VersionMatch, WriteQuery, dry_run_error,
    is_printable,
};
