//! Removing fields that the schema does not know.

use serde_json::{Map, Value};

use super::{Additional, Schema, push_index};
use crate::bounds::may_be_told;

impl Schema {
    /// Removes unknown fields and appends their paths to `unknown`.
    ///
    /// `metadata` of the object itself is left alone; of an embedded resource everything in it is kept.
    pub fn prune(&self, object: &mut Map<String, Value>, unknown: &mut Vec<String>) {
        self.prune_object(object, &mut String::new(), unknown);
    }

    pub(super) fn prune_value(&self, value: &mut Value, path: &mut String, unknown: &mut Vec<String>) {
        match value {
            Value::Object(object) => self.prune_object(object, path, unknown),
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    let length = path.len();
                    push_index(path, index);
                    schema.prune_value(item, path, unknown);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }

    fn prune_object(&self, object: &mut Map<String, Value>, path: &mut String, unknown: &mut Vec<String>) {
        // A node that may be anything at all says so by preserving unknown fields.
        object.retain(|name, value| {
            if self.embedded && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                return true;
            }
            let length = path.len();
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
            let schema = self.field(name);
            if let Some(schema) = schema {
                schema.prune_value(value, path, unknown);
            }
            let known =
                schema.is_some() || self.preserve_unknown || matches!(self.additional, Additional::Any);
            if !known && may_be_told(unknown) {
                unknown.push(path.clone());
            }
            path.truncate(length);
            known
        });
    }
}
