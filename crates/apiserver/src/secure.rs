//! `secure.<field>`: a raw value in a write becomes a sealed Secret, and the object keeps its name only.
//!
//! A write says `create` (the raw value), `name` (a Secret that exists) or `remove`. What a write leaves out stays
//! as it was. The raw value is taken out before anything else sees the object, and is never in an error or a log.

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Map, Value, json};
use windlass_api::ONE_SECRET;

use crate::failure::{Failure, FieldError, Result};
use crate::kinds::Kind;
use windlass_apimachinery::json::type_name;
use windlass_apimachinery::metadata::{self, LAST_APPLIED};
use windlass_apimachinery::schema;

type Object = Map<String, Value>;

/// What stands for a raw value while the object is judged: a name, as rules have it that names are.
pub const RAW_VALUE: &str = "raw-value-taken.windlass.dev";
/// At most this many characters in a value.
const LONGEST: usize = 24_576;

/// The raw values of one write, by field.
#[derive(Debug)]
pub(crate) struct Secrets {
    pub(crate) taken: Vec<(String, SecretString)>,
    /// Secrets of the old object that the new one no longer names.
    pub(crate) dropped: Vec<String>,
}

/// Refuses secure values of a wrong type, before anything else could print them. Null is absent.
pub(crate) fn check_types(kind: &Kind, object: &Object) -> Result<()> {
    if !holds_secrets(kind) {
        return Ok(());
    }
    let errors = match object.get("secure") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(fields)) => {
            fields.iter().flat_map(|(field, value)| wrong_types(&format!("secure.{field}"), value)).collect()
        }
        Some(other) => vec![schema::wrong_type("secure", "object", other)],
    };
    refuse(kind, object, errors)
}

fn wrong_types(path: &str, value: &Value) -> Vec<FieldError> {
    let value = match value {
        Value::Null => return Vec::new(),
        Value::Object(value) => value,
        other => return vec![schema::wrong_type(path, "object", other)],
    };
    let parts = [("create", "string"), ("name", "string"), ("remove", "boolean")];
    let wrong = parts.into_iter().filter_map(|(part, expected)| {
        let found = value.get(part).filter(|found| ![expected, "null"].contains(&type_name(found)))?;
        Some(schema::wrong_type(&format!("{path}.{part}"), expected, found))
    });
    wrong.collect()
}

/// Takes the raw values out of an object and carries over what it leaves out of the old one.
pub(crate) fn take(kind: &Kind, new: &mut Object, old: Option<&Object>) -> Result<Secrets> {
    let mut secrets = Secrets { taken: Vec::new(), dropped: Vec::new() };
    if !holds_secrets(kind) {
        return Ok(secrets);
    }
    scrub_last_applied(new);
    let before = old.and_then(|old| old.get("secure")).and_then(Value::as_object);
    if before.is_some_and(|before| !before.is_empty()) {
        new.entry("secure").or_insert_with(|| json!({}));
    }
    let Some(Value::Object(fields)) = new.get_mut("secure") else { return Ok(secrets) };
    for (field, value) in before.into_iter().flatten() {
        fields.entry(field).or_insert_with(|| value.clone());
    }
    let mut errors = Vec::new();
    fields.retain(|field, value| {
        let old_name = before.and_then(|before| name_of(before.get(field)));
        // Anything but an object or null was refused by `check_types`; null is judged by the schema.
        let Value::Object(value) = value else { return true };
        let removed = value.remove("remove") == Some(json!(true));
        // A patch of `remove` or `create` alone still has the old name beside it.
        let renamed = name_in(value).is_some_and(|name| Some(name) != old_name);
        let mut twice = removed && renamed;
        if let Some(raw) = take_raw(value) {
            twice |= renamed || removed;
            if raw.expose_secret().chars().count() > LONGEST {
                errors.push(FieldError::too_long(format!("secure.{field}.create"), LONGEST as u64));
            }
            secrets.taken.push((field.clone(), raw));
        }
        if twice {
            errors.push(FieldError::forbidden(format!("secure.{field}"), ONE_SECRET));
        }
        let kept = !removed && !value.is_empty();
        let name = name_in(value);
        if let Some(old_name) = old_name
            && (!kept || name != Some(old_name))
        {
            secrets.dropped.push(old_name.to_owned());
        }
        kept
    });
    if fields.is_empty() {
        new.remove("secure");
    }
    refuse(kind, new, errors)?;
    Ok(secrets)
}

/// Raw values that were taken out of a document to apply, by field. While owners are worked out, a name stands for
/// each of them.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    values: Vec<(String, SecretString)>,
}

/// Takes the raw values out of a document to apply.
pub(crate) fn withhold(kind: &Kind, applied: &mut Object) -> Withheld {
    let mut withheld = Withheld::default();
    if !holds_secrets(kind) {
        return withheld;
    }
    for (field, value) in applied.get_mut("secure").and_then(Value::as_object_mut).into_iter().flatten() {
        let raw = value.as_object_mut().and_then(take_raw);
        withheld.values.extend(raw.map(|raw| (field.clone(), raw)));
    }
    withheld
}

/// Takes a raw value out of a field. Who writes one owns the name that takes its place.
fn take_raw(value: &mut Object) -> Option<SecretString> {
    let Some(Value::String(raw)) = value.remove("create") else { return None };
    if raw.is_empty() {
        return None;
    }
    value.insert("name".to_owned(), json!(RAW_VALUE));
    Some(raw.into())
}

impl Withheld {
    /// Puts the values back where their names stand in the merged object.
    pub(crate) fn put_back(&self, object: &mut Object) {
        let Some(Value::Object(fields)) = object.get_mut("secure") else { return };
        for (field, raw) in &self.values {
            if let Some(Value::Object(value)) = fields.get_mut(field)
                && name_in(value) == Some(RAW_VALUE)
            {
                value.remove("name");
                value.insert("create".to_owned(), json!(raw.expose_secret()));
            }
        }
    }

    /// Removes what stands for the values.
    pub(crate) fn leave_out(&self, object: &mut Object) {
        let Some(Value::Object(fields)) = object.get_mut("secure") else { return };
        for (field, _) in &self.values {
            if let Some(Value::Object(value)) = fields.get_mut(field) {
                value.remove("name");
            }
        }
    }
}

/// What an apply or a patch has taken out of an object is to be removed, where an update that leaves it out keeps it.
pub(crate) fn remove_missing(kind: &Kind, old: &Object, new: &mut Object) {
    let Some(Value::Object(before)) = old.get("secure").filter(|_| holds_secrets(kind)) else { return };
    for field in before.keys() {
        let Value::Object(fields) = new.entry("secure").or_insert_with(|| json!({})) else { return };
        if fields.get(field).is_none_or(Value::is_null) {
            fields.insert(field.clone(), json!({ "remove": true }));
        }
    }
}

fn holds_secrets(kind: &Kind) -> bool {
    kind.builtin.is_none() && kind.stored().schema.has_property("secure")
}

fn refuse(kind: &Kind, object: &Object, errors: Vec<FieldError>) -> Result<()> {
    Failure::refuse(&kind.kind, &kind.group, metadata::text(object, "name"), errors)
}

/// The name of a Secret in a field.
pub(crate) fn name_of(value: Option<&Value>) -> Option<&str> {
    name_in(value?.as_object()?)
}

fn name_in(value: &Object) -> Option<&str> {
    value.get("name")?.as_str().filter(|name| !name.is_empty())
}

/// `kubectl apply` repeats the whole document in an annotation, raw values included.
fn scrub_last_applied(object: &mut Object) {
    let Some(Value::Object(metadata)) = object.get_mut("metadata") else { return };
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return };
    let Some(Value::String(applied)) = annotations.get_mut(LAST_APPLIED) else { return };
    if !applied.contains("\"create\"") {
        return;
    }
    let Ok(mut document) = serde_json::from_str::<Value>(applied) else {
        annotations.remove(LAST_APPLIED);
        return;
    };
    if let Some(Value::Object(fields)) = document.get_mut("secure") {
        for value in fields.values_mut().filter_map(Value::as_object_mut) {
            value.remove("create");
        }
    }
    *applied = document.to_string();
}
