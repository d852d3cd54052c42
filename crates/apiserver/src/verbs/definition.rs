//! What is particular about writing definitions: those of Windlass stay as they are.

use http::Method;
use serde_json::{Map, Value};

use super::Context;
use crate::failure::{Failure, Result};
use windlass_apimachinery::definition;
use windlass_apimachinery::metadata;

const OWN: &str = "it belongs to Windlass, which serves this kind itself: only its labels and annotations can be \
    changed";

impl Context {
    /// Refuses to delete a definition that the server was built with, and to change its status.
    pub(super) fn check_own_definition(&self, method: &Method) -> Result<()> {
        let Some(name) = &self.target.name else { return Ok(()) };
        let changes = method == Method::DELETE || self.target.is_status();
        if changes && self.inner.catalog.is_own(name) {
            return Err(Failure::forbidden(self.kind(), name, OWN));
        }
        Ok(())
    }

    /// Refuses another spec for a definition that the server was built with; the same one is let through, so that
    /// applying our own documents changes nothing and fails nowhere.
    pub(crate) fn keep_own(&self, old: Option<&Map<String, Value>>, new: &Map<String, Value>) -> Result<()> {
        let name = metadata::text(new, "name");
        match old {
            Some(old) if self.inner.catalog.is_own(name) && old.get("spec") != new.get("spec") => {
                Err(Failure::forbidden(self.kind(), name, OWN))
            }
            _ => Ok(()),
        }
    }

    /// What the writer of a definition is warned about.
    pub(super) fn definition_warnings(&self, plain: &[u8]) -> Vec<String> {
        let method = &self.parts.method;
        let Ok(object) = serde_json::from_slice::<Value>(plain) else { return Vec::new() };
        let own = self.inner.catalog.is_own(object["metadata"]["name"].as_str().unwrap_or_default());
        if own || method == Method::DELETE {
            return Vec::new();
        }
        definition::warnings(&object, method == Method::POST)
    }
}
