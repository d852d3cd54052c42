//! From an HTTP request to what is asked, and from an answer to an HTTP response.

mod accept;
mod body;
mod path;
mod query;

pub(crate) use accept::{Accept, Shape};
pub(crate) use body::{check_type, read_bytes, read_document, read_object};
pub(crate) use path::{ApiPath, Part, Route, Target, verb_of};
pub(crate) use query::{
    FIELD_MANAGER_MAX, FieldValidation, ListQuery, Query, VersionMatch, WriteQuery, dry_run_error,
    is_printable,
};
