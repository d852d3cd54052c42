//! Stored objects as answers.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result, respond};
use crate::kinds::{Served, ServedKind};
use crate::request::{Accept, Query, Shape};
use crate::state::Inner;
use windlass_apimachinery::document::{self, Document};
use windlass_apimachinery::table::{self, IncludeObject};
use windlass_store::Object;

/// How an item of a list of a core kind starts.
const ITEM_HEAD: &str = r#"{"metadata":{"#;

/// Writes objects of one kind in the form that was asked for.
pub(super) struct Renderer<'a> {
    pub(super) inner: &'a Inner,
    pub(super) served: &'a ServedKind,
    pub(super) accept: Accept,
    pub(super) include: IncludeObject,
}

impl<'a> Renderer<'a> {
    pub(super) fn new(
        inner: &'a Inner,
        served: &'a ServedKind,
        accept: Accept,
        query: &Query,
    ) -> Result<Self> {
        let include = match query.get("includeObject") {
            None | Some("Metadata") => IncludeObject::Metadata,
            Some("None") => IncludeObject::None,
            Some("Object") => IncludeObject::Object,
            Some(other) => {
                return Err(Failure::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
                     'Metadata', 'Object', 'None', or empty"
                )));
            }
        };
        Ok(Self { inner, served, accept, include })
    }

    /// Appends an object as it stands in a list: there, core kinds are not repeated for each.
    pub(super) fn item(&self, object: &Object, out: &mut Vec<u8>) -> Result<()> {
        let plain = self.inner.shown(&self.served.kind, &object.value)?;
        if self.accept.shape == Shape::Whole && self.served.kind.builtin.is_some() {
            write_under(self.served.served(), ITEM_HEAD, &plain, object.revision, out);
        } else {
            self.plain(&plain, object.revision, out);
        }
        Ok(())
    }

    /// Appends an object, whose bytes these are in the clear, as it stands alone or in a watch event.
    pub(super) fn plain(&self, plain: &[u8], revision: u64, out: &mut Vec<u8>) {
        match self.accept.shape {
            Shape::Whole => write_whole(self.served, plain, revision, out),
            Shape::Metadata => Document::new(plain).write_partial(revision, out),
            Shape::Table { .. } => self.row(plain, revision, out),
        }
    }

    fn row(&self, plain: &[u8], revision: u64, out: &mut Vec<u8>) {
        let mut whole = Vec::new();
        if self.include == IncludeObject::Object {
            write_whole(self.served, plain, revision, &mut whole);
        }
        let columns = &self.served.served().columns;
        table::write_row(columns, plain, revision, &whole, self.include, (self.inner.now)(), out);
    }

    /// Appends the start of a table, up to its first row.
    pub(super) fn table_head(&self, metadata: &Value, with_columns: bool, out: &mut Vec<u8>) {
        let Shape::Table { version } = self.accept.shape else { return };
        let columns =
            if with_columns { table::definitions(&self.served.served().columns) } else { Value::Null };
        out.extend_from_slice(
            format!(
                "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/{version}\",\"metadata\":{metadata},\
                 \"columnDefinitions\":{columns},\"rows\":["
            )
            .as_bytes(),
        );
    }

    /// The answer that carries one object.
    pub(super) fn response(&self, status: StatusCode, plain: &[u8], revision: u64) -> Response {
        let mut out = Vec::with_capacity(plain.len() + 64);
        if let Shape::Table { .. } = self.accept.shape {
            self.table_head(&json!({ "resourceVersion": revision.to_string() }), true, &mut out);
            self.row(plain, revision, &mut out);
            out.extend_from_slice(b"]}");
        } else {
            self.plain(plain, revision, &mut out);
        }
        respond(status, self.accept.yaml, out)
    }
}

/// Appends an object in the version that was asked for.
pub(super) fn write_whole(served: &ServedKind, plain: &[u8], revision: u64, out: &mut Vec<u8>) {
    let version = served.served();
    write_under(version, &version.head, plain, revision, out);
}

fn write_under(version: &Served, head: &str, plain: &[u8], revision: u64, out: &mut Vec<u8>) {
    if !version.converts(revision) {
        Document::new(plain).write(head, revision, out);
        return;
    }
    let (plain, managed) = document::split(plain);
    let mut object: Map<String, Value> = serde_json::from_slice(&plain).unwrap_or_default();
    version.read(&mut object, revision);
    Document::new(&document::encode(&version.head, &object, managed)).write(head, revision, out);
}
