//! `CustomResourceDefinition`s as documents: their typed form, what is defaulted, and what a write may not change.
//!
//! What their schemas may hold is judged in `structural` and `keywords`, what else they may say in `validate`;
//! names are claimed in [`names`].

mod keywords;
pub mod names;
mod structural;
mod validate;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionSpec, CustomResourceDefinitionStatus,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

pub use self::keywords::known_format;
use self::structural::text;
pub use self::validate::validate;
use crate::bounds::may_be_told;
use crate::schema::push_index;

/// Holds a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

type Object = Map<String, Value>;

/// Brings `spec` and `status` into their typed form and fills in defaults, which whoever writes the definition owns. The
/// paths of fields that no definition has are appended.
///
/// Refused is a value of a wrong type.
pub fn conform(object: &mut Object, unknown: &mut Vec<String>) -> Result<(), String> {
    typed::<CustomResourceDefinitionSpec>(object, "spec", unknown)?;
    if object.contains_key("status") {
        typed::<CustomResourceDefinitionStatus>(object, "status", unknown)?;
    }
    default_spec(object);
    Ok(())
}

fn typed<T: DeserializeOwned + Serialize>(
    object: &mut Object,
    field: &str,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    let given = match object.get(field) {
        None | Some(Value::Null) => json!({}),
        Some(given) => given.clone(),
    };
    let failed = |error: &serde_json::Error| {
        format!(
            "CustomResourceDefinition in version \"v1\" cannot be handled as a CustomResourceDefinition: json: cannot \
             unmarshal {field}: {error}"
        )
    };
    let value: T = T::deserialize(&given).map_err(|error| failed(&error))?;
    let mut value = serde_json::to_value(value).map_err(|error| failed(&error))?;
    drop_empty_lists(&mut value);
    make_whole(&mut value);
    note_unknown(&given, &value, &mut field.to_owned(), unknown);
    object.insert(field.to_owned(), value);
    Ok(())
}

/// Numbers without a fraction are written without one, as a real server does.
pub(crate) fn make_whole(value: &mut Value) {
    /// Larger ones are not exact.
    const MAX: f64 = 9e15;
    match value {
        Value::Number(number) => {
            let float =
                number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < MAX);
            if let Some(whole) = float.and_then(|float| format!("{float:.0}").parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(fields) => fields.values_mut().for_each(make_whole),
        _ => {}
    }
}

/// Lists without entries are left out of the lists that definitions leave out when empty.
fn drop_empty_lists(value: &mut Value) {
    const OMITTED: [&str; 6] = [
        "shortNames",
        "categories",
        "additionalPrinterColumns",
        "selectableFields",
        "required",
        "conditions",
    ];
    match value {
        Value::Object(object) => {
            object.retain(|name, value| {
                !(OMITTED.contains(&name.as_str()) && value.as_array().is_some_and(Vec::is_empty))
            });
            object.values_mut().for_each(drop_empty_lists);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty_lists),
        _ => {}
    }
}

fn note_unknown(given: &Value, kept: &Value, path: &mut String, unknown: &mut Vec<String>) {
    let length = path.len();
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => {
            for (name, value) in given {
                path.push('.');
                path.push_str(name);
                match kept.get(name) {
                    Some(kept) => note_unknown(value, kept, path, unknown),
                    None if value.is_null() || value.as_array().is_some_and(Vec::is_empty) => {}
                    None if may_be_told(unknown) => unknown.push(path.clone()),
                    None => {}
                }
                path.truncate(length);
            }
        }
        (Value::Array(given), Value::Array(kept)) => {
            for (index, (given, kept)) in given.iter().zip(kept).enumerate() {
                push_index(path, index);
                note_unknown(given, kept, path, unknown);
                path.truncate(length);
            }
        }
        _ => {}
    }
}

/// Keeps the status of a definition the server's own.
pub fn fill_in(old: Option<&Object>, new: &mut Object) {
    let storage = storage_version(new).map(str::to_owned);
    if old.is_none() {
        let stored: Vec<&String> = storage.iter().collect();
        let status = json!({ "conditions": null, "acceptedNames": { "plural": "", "kind": "" },
            "storedVersions": stored });
        new.insert("status".to_owned(), status);
        return;
    }
    if let (Some(storage), Some(Value::Object(status))) = (storage, new.get_mut("status"))
        && let Value::Array(stored) = status.entry("storedVersions").or_insert_with(|| json!([]))
        && !stored.iter().any(|version| *version == json!(storage))
    {
        stored.push(json!(storage));
    }
}

fn default_spec(object: &mut Object) {
    let Some(Value::Object(spec)) = object.get_mut("spec") else { return };
    if let Some(Value::Object(names)) = spec.get_mut("names") {
        let kind = text(names, "kind").to_owned();
        for (field, name) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
            if text(names, field).is_empty() && !kind.is_empty() {
                names.insert(field.to_owned(), json!(name));
            }
        }
    }
    spec.entry("conversion").or_insert_with(|| json!({ "strategy": "None" }));
}

/// The name of the version that is marked as the storage version, of the first if several are.
fn storage_version(object: &Object) -> Option<&str> {
    let versions = object.get("spec")?.get("versions")?.as_array()?;
    versions.iter().find(|version| version["storage"] == true)?["name"].as_str()
}

/// A definition that the server was built with, as it is stored but for its metadata.
pub fn own(crd: &CustomResourceDefinition) -> Result<Object, String> {
    let document = serde_json::to_value(crd).map_err(|error| error.to_string())?;
    let Value::Object(mut object) = document else { return Err("it is no object".to_owned()) };
    conform(&mut object, &mut Vec::new())?;
    fill_in(None, &mut object);
    Ok(object)
}

/// What the client is warned about that creates this definition.
pub fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for version in object["spec"]["versions"].as_array().into_iter().flatten() {
        walk(&version["schema"]["openAPIV3Schema"], &mut |node| {
            let format = text(node, "format");
            if !format.is_empty() && !keywords::known_format(text(node, "type"), format) {
                let warning = format!("unrecognized format {format:?}");
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        });
    }
    warnings
}

/// Visits each schema of a schema, itself included.
fn walk(schema: &Value, visit: &mut impl FnMut(&Object)) {
    let Some(node) = schema.as_object() else { return };
    visit(node);
    for name in ["items", "additionalProperties", "not"] {
        if let Some(inner) = node.get(name) {
            walk(inner, visit);
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for inner in node.get(name).and_then(Value::as_array).into_iter().flatten() {
            walk(inner, visit);
        }
    }
    for inner in node.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::values) {
        walk(inner, visit);
    }
}

/// The condition of this type.
fn condition<'a>(object: &'a Object, kind: &str) -> Option<&'a Value> {
    let conditions = object.get("status")?.get("conditions")?.as_array()?;
    conditions.iter().find(|one| one["type"] == kind)
}

/// Whether the condition of this type is `True`.
pub fn is_true(object: &Object, kind: &str) -> bool {
    condition(object, kind).is_some_and(|one| one["status"] == "True")
}

/// Sets a condition; its time of transition changes with its status only.
pub fn set_condition(object: &mut Object, kind: &str, status: &str, reason: &str, message: &str, now: &str) {
    let Some(Value::Object(fields)) = object.get_mut("status") else { return };
    let conditions = fields.entry("conditions").or_insert_with(|| json!([]));
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    let mut condition = json!({ "type": kind, "status": status, "lastTransitionTime": now, "reason": reason,
        "message": message });
    match conditions.iter_mut().find(|one| one["type"] == kind) {
        Some(old) => {
            if old["status"] == status && old["lastTransitionTime"].is_string() {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
}

/// Marks a definition as being deleted, held until its objects are gone.
pub fn mark_deleted(document: &mut Object, now: &str) {
    let fields = crate::metadata::of(document);
    fields.insert("deletionTimestamp".to_owned(), json!(now));
    let finalizers = fields.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.contains(&json!(CLEANUP))
    {
        finalizers.push(json!(CLEANUP));
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(document, "Terminating", "True", "InstanceDeletionPending", message, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_no_definition_has_are_named_and_dropped() {
        let mut object = json!({ "spec": { "group": "example.org", "nope": 1, "versions": [
            { "name": "v1", "schema": { "openAPIV3Schema": { "type": "object", "strange": true } } }] } })
        .as_object()
        .cloned()
        .unwrap();
        let mut unknown = Vec::new();
        conform(&mut object, &mut unknown).unwrap();
        assert_eq!(unknown, ["spec.nope", "spec.versions[0].schema.openAPIV3Schema.strange"]);
        assert_eq!(object["spec"].get("nope"), None);
    }

    #[test]
    fn a_condition_keeps_its_time_while_its_status_stays() {
        let mut object = json!({ "status": { "conditions": null } }).as_object().cloned().unwrap();
        set_condition(&mut object, "Established", "False", "a", "b", "1");
        set_condition(&mut object, "Established", "False", "c", "d", "2");
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "1");
        assert_eq!(object["status"]["conditions"][0]["reason"], "c");
        set_condition(&mut object, "Established", "True", "c", "d", "3");
        assert_eq!(object["status"]["conditions"][0]["lastTransitionTime"], "3");
        assert!(is_true(&object, "Established"));
    }
}
