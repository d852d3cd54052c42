//! What the core kinds have filled in and refused beyond their schemas.

mod events;

pub(crate) use self::events::validate as validate_event;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::failure::FieldError;
use crate::kinds::{Builtin, Kind};
use windlass_apimachinery::definition;
use windlass_apimachinery::metadata;
use windlass_apimachinery::names;

type Object = Map<String, Value>;

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
            // An empty list is not written.
            if let Some(Value::Object(spec)) = object.get_mut("spec")
                && spec.get("finalizers") == Some(&json!([]))
            {
                spec.remove("finalizers");
            }
            let name = metadata::text(object, "name").to_owned();
            // A name that is generated is not there yet.
            if !name.is_empty()
                && let Value::Object(labels) =
                    metadata::of(object).entry("labels").or_insert_with(|| json!({}))
            {
                labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
            }
        }
        _ => {}
    }
    if matches!(builtin, Builtin::Secret | Builtin::ConfigMap) {
        // Empty maps are not written.
        object.retain(|name, value| {
            !matches!((name.as_str(), value), ("data" | "binaryData", Value::Object(map)) if map.is_empty())
        });
    }
}

/// Sets what the server decides of these kinds.
pub(crate) fn fill_in(builtin: Builtin, old: Option<&Object>, object: &mut Object) {
    default(builtin, object);
    match builtin {
        Builtin::Namespace => fill_in_namespace(old, object),
        Builtin::Definition => definition::fill_in(old, object),
        Builtin::Event => events::fill_in(object),
        Builtin::Lease => {
            object.entry("spec").or_insert_with(|| json!({}));
        }
        Builtin::Secret | Builtin::ConfigMap | Builtin::Review(_) | Builtin::Scale => {}
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
        copy_field(old, object, field);
    }
}

/// Gives an object what another has in a field, and else nothing.
pub(crate) fn copy_field(from: &Object, to: &mut Object, field: &str) {
    match from.get(field) {
        Some(value) => to.insert(field.to_owned(), value.clone()),
        None => to.remove(field),
    };
}

/// Sets the finalizers of a Namespace, as whoever has removed its content may.
pub(crate) fn finalize(spec: Option<Value>, object: &mut Object) {
    let finalizers = spec
        .map(|spec| spec["finalizers"].clone())
        .filter(|one| one.as_array().is_some_and(|one| !one.is_empty()));
    if let Value::Object(spec) = object.entry("spec").or_insert_with(|| json!({})) {
        match finalizers {
            Some(finalizers) => spec.insert("finalizers".to_owned(), finalizers),
            None => spec.remove("finalizers"),
        };
    }
}

/// What the type of a Secret asks of its data.
fn check_type(secret: &Object, errors: &mut Vec<FieldError>) {
    let data = secret.get("data").unwrap_or(&Value::Null);
    let value = |key: &str| data.get(key).and_then(Value::as_str);
    let mut require = |key: &str| errors.push(FieldError::required(format!("data[{key}]"), ""));
    match secret.get("type").and_then(Value::as_str).unwrap_or_default() {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            let annotations =
                secret.get("metadata").map_or(&Value::Null, |metadata| &metadata["annotations"]);
            if annotations[ACCOUNT].as_str().unwrap_or_default().is_empty() {
                errors.push(FieldError::required(format!("metadata.annotations[{ACCOUNT}]"), ""));
            }
        }
        kind @ ("kubernetes.io/dockercfg" | "kubernetes.io/dockerconfigjson") => {
            let key = if kind.ends_with("json") { ".dockerconfigjson" } else { ".dockercfg" };
            match value(key).map(|text| STANDARD.decode(text).unwrap_or_default()) {
                None => require(key),
                Some(bytes) => {
                    if let Some(problem) = json_problem(&bytes) {
                        let shown = "<secret contents redacted>".into();
                        errors.push(FieldError::invalid(format!("data[{key}]"), &shown, &problem));
                    }
                }
            }
        }
        "kubernetes.io/basic-auth" if value("username").is_none() && value("password").is_none() => {
            require("username");
            require("password");
        }
        "kubernetes.io/ssh-auth" if value("ssh-privatekey").unwrap_or_default().is_empty() => {
            require("ssh-privatekey");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"].into_iter().filter(|key| value(key).is_none()) {
                require(key);
            }
        }
        _ => {}
    }
}

/// Why bytes are no JSON object.
fn json_problem(bytes: &[u8]) -> Option<String> {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(_) => Some("must be a JSON object".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

fn check_lease(spec: &Value, errors: &mut Vec<FieldError>) {
    for (field, least, detail) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        if spec[field].as_i64().is_some_and(|number| number < least) {
            errors.push(FieldError::invalid(format!("spec.{field}"), &spec[field], detail));
        }
    }
    let given = |field: &str| spec[field].as_str().is_some_and(|text| !text.is_empty());
    if given("preferredHolder") && !given("strategy") {
        let detail = "may only be specified if `strategy` is defined";
        errors.push(FieldError::forbidden("spec.preferredHolder", detail));
    }
}

/// Everything that is wrong with an object of a core kind beside its schema. Values of Secrets are not shown.
pub(crate) fn validate(kind: &Kind, new: &Object, old: Option<&Object>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if kind.builtin == Some(Builtin::Definition) {
        return definition::validate(old, new);
    }
    if kind.builtin == Some(Builtin::Lease) {
        check_lease(&new.get("spec").cloned().unwrap_or_default(), &mut errors);
    }
    if kind.builtin == Some(Builtin::Namespace) {
        metadata::check_namespace_finalizers(new, &mut errors);
    }
    if !matches!(kind.builtin, Some(Builtin::Secret | Builtin::ConfigMap)) {
        return errors;
    }
    let mut size = 0;
    for field in ["data", "binaryData"] {
        let Some(Value::Object(data)) = new.get(field) else { continue };
        for (key, value) in data {
            let place = format!("{field}[{key}]");
            for problem in names::data_key_problems(key) {
                errors.push(FieldError::invalid(&place, &json!(key), &problem));
            }
            if field == "data" && new.get("binaryData").is_some_and(|other| other.get(key).is_some()) {
                let detail = "duplicate of key present in binaryData";
                errors.push(FieldError::invalid(place, &json!(key), detail));
            }
            let length = value.as_str().unwrap_or_default().len();
            let encoded = field == "binaryData" || kind.builtin == Some(Builtin::Secret);
            size += if encoded { length / 4 * 3 } else { length };
        }
    }
    if size > DATA_MAX {
        // A real server does not say where the data of a ConfigMap is.
        let place = if kind.builtin == Some(Builtin::Secret) { "data" } else { "[]" };
        errors.push(FieldError::too_long(place, DATA_MAX as u64));
    }
    if kind.builtin == Some(Builtin::Secret) {
        check_type(new, &mut errors);
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
