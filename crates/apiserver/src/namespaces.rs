//! Which namespaces there are, where nothing may be created any more, and what marks one that is being deleted.
//!
//! Namespaces are implicit here, unless the server was built to ask for them: a Namespace object is not needed to put
//! objects into it.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use windlass_api::status;

use crate::failure::{Failure, Result};
use crate::kinds::Kind;
use crate::meta::Meta;
use windlass_apimachinery::metadata;
use windlass_store::{Event, EventKind, Object};

type Document = Map<String, Value>;

/// What is known of namespaces, which is changed with what is stored of them.
#[derive(Debug)]
pub(crate) struct Namespaces {
    /// Those that there are, and whether nothing may be created in them any more.
    stored: HashMap<String, bool>,
    /// Whether nothing may be created in one that there is not.
    must_exist: bool,
}

impl Namespaces {
    pub(crate) fn new(must_exist: bool) -> Self {
        Self { stored: HashMap::new(), must_exist }
    }

    /// Refuses to create an object of this name where nothing may be created.
    pub(crate) fn check(&self, kind: &Kind, name: &str, namespace: &str) -> Result<()> {
        match self.stored.get(namespace) {
            Some(true) => Err(Failure::namespace_terminating(kind, name, namespace)),
            None if self.must_exist => Err(status::not_found("", "namespaces", namespace).into()),
            Some(false) | None => Ok(()),
        }
    }

    /// A Namespace is there.
    pub(crate) fn put(&mut self, object: &Object) {
        let terminating = Meta::of(object).deletion_timestamp.is_some();
        self.stored.insert(object.key.name().to_owned(), terminating);
    }

    /// A Namespace was written or removed.
    pub(crate) fn follow(&mut self, event: &Event) {
        match event.kind {
            EventKind::Deleted => drop(self.stored.remove(event.object.key.name())),
            EventKind::Added | EventKind::Modified => self.put(&event.object),
        }
    }
}

/// Marks a Namespace as being deleted.
pub(crate) fn mark(document: &mut Document, now: &str) {
    metadata::of(document).insert("deletionTimestamp".to_owned(), json!(now));
    if let Value::Object(status) = document.entry("status").or_insert_with(|| json!({})) {
        status.insert("phase".to_owned(), json!("Terminating"));
    }
}

/// Whether a Namespace has finalizers in its spec: its content was not removed yet.
pub(crate) fn holds_content(document: &Document) -> bool {
    let finalizers = document.get("spec").and_then(|spec| spec.get("finalizers"));
    finalizers.and_then(Value::as_array).is_some_and(|finalizers| !finalizers.is_empty())
}
