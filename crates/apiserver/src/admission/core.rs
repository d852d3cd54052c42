//! The few rules of the core kinds.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Object, events};
use crate::failure::FieldError;
use crate::kinds::{Builtin, Kind, definition};
use crate::metadata;

/// At most this many bytes of data in a Secret or a `ConfigMap`.
const DATA_MAX: usize = 1024 * 1024;

/// Sets what these kinds default, as soon as an object is read: who writes it owns that too.
pub(crate) fn default(builtin: Builtin, object: &mut Object) {
    match builtin {
        Builtin::Secret => {
            if let Some(Value::Object(texts)) = object.remove("stringData") {
                // Data that is no map is refused by the schema.
                if let Value::Object(data) = object.entry("data").or_insert_with(|| json!({})) {
                    for (key, text) in texts {
                        data.insert(key, json!(STANDARD.encode(text.as_str().unwrap_or_default())));
                    }
                }
            }
            object.entry("type").or_insert_with(|| json!("Opaque"));
        }
        Builtin::Namespace => {
            let name = metadata::text(object, "name").to_owned();
            // A name that is generated is not there yet.
            if !name.is_empty()
                && let Value::Object(labels) =
                    metadata::of(object).entry("labels").or_insert_with(|| json!({}))
            {
                labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
            }
        }
        Builtin::ConfigMap | Builtin::Event | Builtin::Lease | Builtin::Definition => {}
    }
}

/// Sets what the server decides of these kinds.
pub(super) fn fill_in(builtin: Builtin, old: Option<&Object>, object: &mut Object) {
    default(builtin, object);
    match builtin {
        Builtin::Namespace => fill_in_namespace(old, object),
        Builtin::Definition => definition::fill_in(old, object),
        Builtin::Event => events::fill_in(object),
        Builtin::Secret | Builtin::ConfigMap | Builtin::Lease => {}
    }
}

/// What the server says of a Namespace, whatever a client says: where it is in its life, and that its content holds
/// it.
fn fill_in_namespace(old: Option<&Object>, object: &mut Object) {
    let Some(old) = old else {
        object.insert("status".to_owned(), json!({ "phase": "Active" }));
        if let Value::Object(spec) = object.entry("spec").or_insert_with(|| json!({}))
            && let Value::Array(finalizers) = spec.entry("finalizers").or_insert_with(|| json!([]))
            && !finalizers.contains(&json!("kubernetes"))
        {
            finalizers.push(json!("kubernetes"));
        }
        return;
    };
    for field in ["spec", "status"] {
        match old.get(field) {
            Some(value) => object.insert(field.to_owned(), value.clone()),
            None => object.remove(field),
        };
    }
}

/// Everything that is wrong with an object of a core kind beside its schema. Values of Secrets are not shown.
pub(crate) fn validate(kind: &Kind, new: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if kind.builtin == Some(Builtin::Definition) {
        return definition::validate(old, new);
    }
    if !matches!(kind.builtin, Some(Builtin::Secret | Builtin::ConfigMap)) {
        return errors;
    }
    let mut size = 0;
    for field in ["data", "binaryData"] {
        let Some(Value::Object(data)) = new.get(field) else { continue };
        for (key, value) in data {
            let valid = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
            if key.is_empty()
                || key.len() > 253
                || !key.chars().all(valid)
                || matches!(key.as_str(), "." | "..")
            {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. \
                    'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                errors.push(FieldError::invalid(format!("{field}[{key}]"), &json!(key), detail));
            }
            let length = value.as_str().unwrap_or_default().len();
            let encoded = field == "binaryData" || kind.builtin == Some(Builtin::Secret);
            size += if encoded { length / 4 * 3 } else { length };
        }
    }
    if size > DATA_MAX {
        errors.push(FieldError::too_long("data", DATA_MAX as u64));
    }
    let Some(old) = old else { return errors };
    if kind.builtin == Some(Builtin::Secret) && old.get("type") != new.get("type") {
        let found = new.get("type").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("type", &found, "field is immutable"));
    }
    if old.get("immutable") == Some(&json!(true)) {
        if new.get("immutable") != Some(&json!(true)) {
            errors.push(FieldError::forbidden("immutable", "field is immutable when `immutable` is set"));
        }
        for field in ["data", "binaryData"] {
            if old.get(field) != new.get(field) {
                errors.push(FieldError::forbidden(field, "field is immutable when `immutable` is set"));
            }
        }
    }
    errors
}
