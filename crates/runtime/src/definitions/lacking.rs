//! Which fields a schema has that another one does not know.

use serde_json::Value;

/// The paths (`spec.parts[].name`) of the fields that `ours` has and that a server with `theirs` drops. Of a field that
/// is missing, what is below it is not listed.
pub(super) fn lacking(ours: &Value, theirs: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (name, schema) in fields(ours) {
        // Every object has these, whatever its definition says.
        if !matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
            field(name.clone(), name, schema, theirs, &mut found);
        }
    }
    found
}

fn field(path: String, name: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    if let Some(known) = theirs["properties"].get(name) {
        below(&path, ours, known, found);
    } else if keeps_unknown(theirs) {
        if let Some(known) = theirs.get("additionalProperties") {
            below(&path, ours, known, found);
        }
    } else {
        found.push(path);
    }
}

fn below(path: &str, ours: &Value, theirs: &Value, found: &mut Vec<String>) {
    // What is only referred to is none of a definition's own schemas.
    if theirs.get("$ref").is_some() || theirs.get("allOf").is_some() || theirs == &Value::Bool(true) {
        return;
    }
    for (name, schema) in fields(ours) {
        field(format!("{path}.{name}"), name, schema, theirs, found);
    }
    if let (Some(ours), Some(theirs)) = (ours.get("items"), theirs.get("items")) {
        below(&format!("{path}[]"), ours, theirs, found);
    }
    if let (Some(ours), Some(known)) = (ours.get("additionalProperties"), theirs.get("additionalProperties"))
    {
        below(&format!("{path}.*"), ours, known, found);
    }
}

fn keeps_unknown(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
        || schema.get("additionalProperties").is_some_and(|additional| additional != &Value::Bool(false))
}

fn fields(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema["properties"].as_object().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(properties: Value) -> Value {
        json!({"type": "object", "properties": properties})
    }

    #[test]
    fn fields_that_the_other_schema_does_not_have_are_named_by_their_paths() {
        let text = json!({"type": "string"});
        let list = |item: Value| json!({"type": "array", "items": item});
        let map = |value: Value| json!({"type": "object", "additionalProperties": value});
        let ours = object(json!({
            "metadata": object(json!({"name": text})),
            "spec": object(json!({
                "a": text, "new": object(json!({"x": text})),
                "parts": list(object(json!({"name": text, "count": text}))),
                "named": map(object(json!({"x": text, "y": text}))),
            })),
            "status": object(json!({"phase": text})),
        }));
        let theirs = object(json!({
            "metadata": {"allOf": [{"$ref": "#/components/schemas/ObjectMeta"}]},
            "spec": object(json!({
                "a": text, "old": text,
                "parts": list(object(json!({"name": text}))),
                "named": map(object(json!({"x": text}))),
            })),
        }));
        assert_eq!(lacking(&ours, &theirs), ["spec.named.*.y", "spec.new", "spec.parts[].count", "status"]);
        assert_eq!(lacking(&ours, &ours), Vec::<String>::new());
    }

    #[test]
    fn what_keeps_fields_that_it_does_not_know_lacks_none() {
        let ours = object(json!({"spec": object(json!({"a": object(json!({"b": {}}))}))}));
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        assert_eq!(lacking(&ours, &object(json!({"spec": open}))), Vec::<String>::new());
        let anything = json!({"type": "object", "additionalProperties": true});
        assert_eq!(lacking(&ours, &object(json!({"spec": anything}))), Vec::<String>::new());
        let mut partly = open.clone();
        partly["properties"] = json!({"a": object(json!({}))});
        assert_eq!(lacking(&ours, &object(json!({"spec": partly}))), ["spec.a.b"]);
    }
}
