//! Whether a schema is structural: every field has one type, told outside of `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! The rules and their words are those of apiextensions-apiserver's `schema` package.

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::field_error::FieldError;

/// Where a schema stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

pub(super) type Node = Map<String, Value>;

/// Everything about the schema at `path` that is not structural.
pub(super) fn problems(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(node) = schema.as_object() else { return errors };
    invariants(node, Level::Root, path, &mut errors);
    complete(node, Some(node), path, path, &mut errors);
    errors.sort_by_key(ToString::to_string);
    errors
}

pub(super) fn text<'a>(node: &'a Node, name: &str) -> &'a str {
    node.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn flag(node: &Node, name: &str) -> bool {
    node.get(name) == Some(&Value::Bool(true))
}

pub(super) fn properties(node: &Node) -> impl Iterator<Item = (&String, &Node)> {
    let properties = node.get("properties").and_then(Value::as_object).into_iter().flatten();
    properties.filter_map(|(name, schema)| Some((name, schema.as_object()?)))
}

pub(super) fn inner<'a>(node: &'a Node, name: &str) -> Option<&'a Node> {
    node.get(name).and_then(Value::as_object)
}

pub(super) fn list<'a>(node: &'a Node, name: &str) -> impl Iterator<Item = (usize, &'a Node)> {
    let schemas = node.get(name).and_then(Value::as_array).into_iter().flatten();
    schemas.enumerate().filter_map(|(index, schema)| Some((index, schema.as_object()?)))
}

fn invariants(node: &Node, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(node, "type");
    if kind == "array" && !node.contains_key("items") {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
    if let Some(items) = inner(node, "items") {
        invariants(items, Level::Item, &format!("{path}.items"), errors);
    }
    for (name, schema) in properties(node) {
        invariants(schema, Level::Field, &format!("{path}.properties[{name}]"), errors);
    }
    let additional = format!("{path}.additionalProperties");
    if node.contains_key("additionalProperties") && level == Level::Root {
        errors.push(FieldError::forbidden(&additional, "must not be used at the root"));
    }
    if let Some(schema) = inner(node, "additionalProperties") {
        invariants(schema, Level::Field, &additional, errors);
    }
    let (int_or_string, preserve, embedded) = (
        flag(node, "x-kubernetes-int-or-string"),
        flag(node, "x-kubernetes-preserve-unknown-fields"),
        flag(node, "x-kubernetes-embedded-resource"),
    );
    for (set, name) in
        [(preserve, "x-kubernetes-preserve-unknown-fields"), (embedded, "x-kubernetes-embedded-resource")]
    {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(format!("{path}.{name}"), &json!(true), detail));
        }
    }
    let either = json!([{ "type": "integer" }, { "type": "string" }]);
    let skip_any = node.get("anyOf") == Some(&either);
    let skip_first_all =
        node.get("allOf").and_then(|schemas| schemas.get(0)).is_some_and(|first| first["anyOf"] == either);
    values(node, skip_any, skip_first_all, path, errors);
    let at_type = format!("{path}.type");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if kind.is_empty() {
            FieldError::required(at_type, detail)
        } else {
            FieldError::invalid(at_type, &json!(kind), detail)
        });
    } else if kind.is_empty() && !int_or_string && !preserve {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(at_type, detail));
    } else if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(at_type, &json!(kind), "must be object at the root"));
    }
    if embedded && node.contains_key("additionalProperties") {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(additional, detail));
    }
    object_fields(node, level, embedded, path, errors);
    if embedded && !preserve && properties(node).next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
}

/// `apiVersion`, `kind` and `metadata` of a whole object.
fn object_fields(node: &Node, level: Level, embedded: bool, path: &str, errors: &mut Vec<FieldError>) {
    let whole = level == Level::Root || embedded;
    for (name, schema) in properties(node) {
        let at = format!("{path}.properties[{name}]");
        match name.as_str() {
            "kind" | "apiVersion" if whole && text(schema, "type") != "string" => {
                let found = json!(text(schema, "type"));
                errors.push(FieldError::invalid(format!("{at}.type"), &found, "must be string"));
            }
            "metadata" => {
                if whole && text(schema, "type") != "object" {
                    let found = json!(text(schema, "type"));
                    errors.push(FieldError::invalid(format!("{at}.type"), &found, "must be object"));
                }
                let says_more = schema.iter().any(|(field, value)| match field.as_str() {
                    "type" | "default" => false,
                    "properties" => value.as_object().is_none_or(|properties| {
                        !properties.keys().all(|name| matches!(name.as_str(), "name" | "generateName"))
                    }),
                    _ => true,
                });
                if level == Level::Root && says_more {
                    let detail = "must not specify anything other than name and generateName, but metadata is \
                                  implicitly specified";
                    errors.push(FieldError::forbidden(at, detail));
                }
            }
            _ => {}
        }
    }
}

/// The parts that restrict values.
fn values(node: &Node, skip_any: bool, skip_first_all: bool, path: &str, errors: &mut Vec<FieldError>) {
    if !skip_any {
        for (index, schema) in list(node, "anyOf") {
            nested(schema, false, &format!("{path}.anyOf[{index}]"), errors);
        }
    }
    for (index, schema) in list(node, "allOf") {
        nested(schema, skip_first_all && index == 0, &format!("{path}.allOf[{index}]"), errors);
    }
    for (index, schema) in list(node, "oneOf") {
        nested(schema, false, &format!("{path}.oneOf[{index}]"), errors);
    }
    if let Some(schema) = inner(node, "not") {
        nested(schema, false, &format!("{path}.not"), errors);
    }
    let pattern = text(node, "pattern");
    if !pattern.is_empty()
        && let Err(error) = Regex::new(pattern)
    {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {reason}");
        errors.push(FieldError::invalid(format!("{path}.pattern"), &json!(pattern), &detail));
    }
}

/// A schema inside `allOf`, `anyOf`, `oneOf` or `not`.
fn nested(node: &Node, skip_any: bool, path: &str, errors: &mut Vec<FieldError>) {
    values(node, skip_any, false, path, errors);
    if let Some(items) = inner(node, "items") {
        nested(items, false, &format!("{path}.items"), errors);
    }
    for (name, schema) in properties(node) {
        nested(schema, false, &format!("{path}.properties[{name}]"), errors);
    }
    for (name, detail) in [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
        ("x-kubernetes-embedded-resource", "must be false to be structural"),
        ("x-kubernetes-int-or-string", "must be false to be structural"),
        ("x-kubernetes-list-map-keys", "must be empty to be structural"),
        ("x-kubernetes-list-type", "must be undefined to be structural"),
        ("x-kubernetes-map-type", "must be undefined to be structural"),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ] {
        let zero = [json!(""), json!(false), json!([])];
        let set = node.get(name).is_some_and(|value| {
            name == "additionalProperties" || name == "default" || !zero.contains(value)
        });
        if set {
            errors.push(FieldError::forbidden(format!("{path}.{name}"), detail));
        }
    }
    if inner(node, "properties").is_some_and(|properties| properties.contains_key("metadata")) {
        let at = format!("{path}.properties[metadata]");
        errors.push(FieldError::forbidden(at, "must not be specified in a nested context"));
    }
}

/// Everything that the nested parts of `values` speak of must stand in `structure` as well.
fn complete(
    values: &Node,
    structure: Option<&Node>,
    at: &str,
    values_at: &str,
    errors: &mut Vec<FieldError>,
) {
    if let Some(schema) = inner(values, "not") {
        complete_nested(schema, structure, at, &format!("{values_at}.not"), errors);
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        for (index, schema) in list(values, name) {
            complete_nested(schema, structure, at, &format!("{values_at}.{name}[{index}]"), errors);
        }
    }
}

fn complete_nested(
    values: &Node,
    structure: Option<&Node>,
    at: &str,
    values_at: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(node) = structure else {
        errors.push(FieldError::required(at, &format!("because it is defined in {values_at}")));
        return;
    };
    complete(values, structure, at, values_at, errors);
    if let Some(items) = inner(values, "items") {
        let (at, values_at) = (format!("{at}.items"), format!("{values_at}.items"));
        complete_nested(items, inner(node, "items"), &at, &values_at, errors);
    }
    for (name, schema) in properties(values) {
        let of = |path: &str| format!("{path}.properties[{name}]");
        let found = inner(node, "properties").and_then(|properties| inner(properties, name));
        complete_nested(schema, found, &of(at), &of(values_at), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(schema: &Value) -> Vec<String> {
        problems(schema, "s").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_structural_schema_has_no_problems() {
        let schema = json!({ "type": "object", "properties": {
            "metadata": { "type": "object", "properties": { "name": { "type": "string" } } },
            "port": { "x-kubernetes-int-or-string": true, "anyOf": [{ "type": "integer" }, { "type": "string" }] },
            "spec": { "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } },
                "oneOf": [{ "required": ["a"] }, { "properties": { "b": { "pattern": "^x" } } }] } } });
        assert_eq!(found(&schema), [""; 0]);
    }

    #[test]
    fn each_rule_has_its_words() {
        let with = |property: Value| json!({ "type": "object", "properties": { "p": property } });
        for (schema, expected) in [
            (
                with(json!({})),
                "s.properties[p].type: Required value: must not be empty for specified object fields",
            ),
            (with(json!({ "type": "array" })), "s.properties[p].items: Required value: must be specified"),
            (
                with(json!({ "type": "array", "items": {} })),
                "s.properties[p].items.type: Required value: must not be empty for specified array items",
            ),
            (json!({ "type": "string" }), "s.type: Invalid value: \"string\": must be object at the root"),
            (
                json!({ "type": "object", "additionalProperties": true }),
                "s.additionalProperties: Forbidden: must not be used at the root",
            ),
            (
                with(json!({ "type": "string", "anyOf": [{ "description": "x" }] })),
                "s.properties[p].anyOf[0].description: Forbidden: must be empty to be structural",
            ),
            (
                json!({ "type": "object", "anyOf": [{ "properties": { "q": { "pattern": "x" } } }] }),
                "s.properties[q]: Required value: because it is defined in s.anyOf[0].properties[q]",
            ),
            (
                json!({ "type": "object", "properties": { "metadata": { "type": "object", "description": "x" } } }),
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but \
                 metadata is implicitly specified",
            ),
            (
                with(json!({ "type": "object", "x-kubernetes-embedded-resource": true })),
                "s.properties[p].properties: Required value: must not be empty if x-kubernetes-embedded-resource is \
                 true without x-kubernetes-preserve-unknown-fields",
            ),
        ] {
            assert_eq!(found(&schema), [expected], "{schema}");
        }
    }
}
