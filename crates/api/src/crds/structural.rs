//! Derived schemas as Kubernetes wants them: structural, inline, without defaults.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The schema of a root type; `finish` adds what its Rust type does not say.
pub(super) fn schema_of<K: JsonSchema>(finish: impl FnOnce(&mut Value)) -> JSONSchemaProps {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<K>().to_value();
    rewrite(&mut schema);
    add_type_meta(&mut schema);
    finish(&mut schema);
    // The document is ours and small; if it were no schema, the tests over every definition would say so.
    serde_json::from_value(schema).unwrap_or_default()
}

/// `apiVersion` and `kind`, which the types keep to themselves.
fn add_type_meta(schema: &mut Value) {
    schema["properties"]["apiVersion"] = json!({
        "type": "string",
        "description": "Group and version of the schema that the object is written in."
    });
    schema["properties"]["kind"] = json!({ "type": "string", "description": "Kind of the object." });
    // A real API server brings the schema of metadata itself and refuses anything more, a description included.
    schema["properties"]["metadata"] = json!({ "type": "object" });
}

fn rewrite(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    object.remove("$schema");
    object.remove("title");
    // A default in a definition is written into every object; absent and zero are the same on this wire.
    object.remove("default");
    if let Some(Value::String(text)) = object.get_mut("description") {
        *text = unwrapped(text);
    }
    collapse_optional(object);
    // Lists are replaced as a whole unless they say otherwise: `x-kubernetes-list-type: map` is for conditions.
    if object.get("type").is_some_and(is_array) {
        object.entry("x-kubernetes-list-type").or_insert_with(|| "atomic".into());
    }
    collapse_enum(object);
    collapse_nullable_type(object);
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(rewrite);
    }
    for child in ["items", "additionalProperties"] {
        if let Some(child) = object.get_mut(child) {
            rewrite(child);
        }
    }
}

/// A doc comment without its line breaks, which `kubectl explain` would show beside its own; paragraphs stay.
fn unwrapped(text: &str) -> String {
    let joined = |paragraph: &str| paragraph.split('\n').map(str::trim).collect::<Vec<_>>().join(" ");
    let paragraphs = text.split("\n\n").map(|paragraph| {
        if paragraph.trim_start().starts_with("* ") { paragraph.to_owned() } else { joined(paragraph) }
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn is_array(kind: &Value) -> bool {
    kind == "array" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "array"))
}

/// `anyOf: [X, null]` becomes X that may be null; the description of the field wins over that of the type.
fn collapse_optional(object: &mut Map<String, Value>) {
    let Some(Value::Array(mut alternatives)) = object.remove("anyOf") else { return };
    alternatives.retain(|alternative| alternative.get("type") != Some(&Value::from("null")));
    if let [Value::Object(only)] = alternatives.as_mut_slice() {
        for (key, value) in std::mem::take(only) {
            object.entry(key).or_insert(value);
        }
        object.insert("nullable".to_owned(), Value::Bool(true));
    }
}

/// `oneOf` constants with descriptions become an enum, and the descriptions a list.
fn collapse_enum(object: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = object.remove("oneOf") else { return };
    let mut names = Vec::new();
    let mut lines = Vec::new();
    for alternative in &alternatives {
        let mut group: Vec<Value> = alternative.get("const").cloned().into_iter().collect();
        group.extend(alternative.get("enum").and_then(Value::as_array).cloned().unwrap_or_default());
        if let Some(description) = alternative.get("description").and_then(Value::as_str) {
            lines.extend(group.iter().map(|name| match name.as_str() {
                Some("") | None => format!("* (empty): {description}"),
                Some(name) => format!("* {name}: {description}"),
            }));
        }
        names.extend(group);
    }
    object.insert("type".to_owned(), "string".into());
    object.insert("enum".to_owned(), names.into());
    if !lines.is_empty() {
        let description = object.get("description").and_then(Value::as_str).unwrap_or_default();
        object.insert("description".to_owned(), format!("{description}\n\n{}", lines.join("\n")).into());
    }
    // An enum that may be null has to list null as a value, which clients do not write.
    object.remove("nullable");
}

/// `type: [X, null]` becomes X that may be null.
fn collapse_nullable_type(object: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = object.get("type") else { return };
    let Some(only) = types.iter().find(|kind| *kind != "null").cloned() else { return };
    object.insert("type".to_owned(), only);
    object.insert("nullable".to_owned(), Value::Bool(true));
}
