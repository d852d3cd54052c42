//! Whether a schema is structural: every field has one type, told outside of `allOf`, `anyOf`, `oneOf` and `not`.
//!
//! The rules are those of apiextensions-apiserver's `schema` package.

use regex::Regex;
use serde_json::{Map, Value};

use crate::field_error::{FieldError, Found};

/// Where a schema stands.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Level {
    #[default]
    Root,
    Item,
    Field,
    /// Inside `allOf`, `anyOf`, `oneOf` or `not`.
    Nested,
}

pub(super) type Node = Map<String, Value>;

/// What a schema may not say inside `allOf`, `anyOf`, `oneOf` or `not`.
const STRUCTURE: &str = "type additionalProperties default title description nullable \
    x-kubernetes-preserve-unknown-fields x-kubernetes-embedded-resource x-kubernetes-int-or-string \
    x-kubernetes-list-map-keys x-kubernetes-list-type x-kubernetes-map-type x-kubernetes-validations";

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

/// What of a schema itself, without those within it, is not structural.
pub(super) fn check(node: &Node, level: Level, at: &mut Found<'_>) {
    let pattern = text(node, "pattern");
    if let Err(error) = Regex::new(pattern) {
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let detail = format!("must be a valid regular expression, but isn't: error parsing regexp: {reason}");
        at.invalid(".pattern", pattern, &detail);
    }
    if level == Level::Nested {
        nested(node, at);
        return;
    }
    let kind = text(node, "type");
    if kind == "array" && !node.contains_key("items") {
        at.required(".items", "must be specified");
    }
    let (int_or_string, preserve, embedded) = (
        flag(node, "x-kubernetes-int-or-string"),
        flag(node, "x-kubernetes-preserve-unknown-fields"),
        flag(node, "x-kubernetes-embedded-resource"),
    );
    for (set, step) in
        [(preserve, ".x-kubernetes-preserve-unknown-fields"), (embedded, ".x-kubernetes-embedded-resource")]
    {
        if int_or_string && set {
            at.invalid(step, true, "must be false if x-kubernetes-int-or-string is true");
        }
    }
    if embedded && kind != "object" {
        type_error(kind, "must be object if x-kubernetes-embedded-resource is true", at);
    } else if kind.is_empty() && !int_or_string && !preserve {
        let place = match level {
            Level::Root => "at the root",
            Level::Item => "for specified array items",
            Level::Field | Level::Nested => "for specified object fields",
        };
        at.required(".type", &format!("must not be empty {place}"));
    } else if level == Level::Root && !kind.is_empty() && kind != "object" {
        at.invalid(".type", kind, "must be object at the root");
    }
    if node.contains_key("additionalProperties") && level == Level::Root {
        at.forbidden(".additionalProperties", "must not be used at the root");
    } else if node.contains_key("additionalProperties") && embedded {
        at.forbidden(".additionalProperties", "must not be used if x-kubernetes-embedded-resource is set");
    }
    if level == Level::Root || embedded {
        object_fields(node, level, at);
    }
    if embedded && !preserve && properties(node).next().is_none() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        at.required(".properties", detail);
    }
}

/// What is said of a schema that needs another type.
pub(super) fn type_error(kind: &str, detail: &str, at: &mut Found<'_>) {
    if kind.is_empty() {
        at.required(".type", detail);
    } else {
        at.invalid(".type", kind, detail);
    }
}

/// `apiVersion`, `kind` and `metadata` of a whole object.
fn object_fields(node: &Node, level: Level, at: &mut Found<'_>) {
    for (name, schema) in properties(node) {
        let expected = match name.as_str() {
            "kind" | "apiVersion" => "string",
            "metadata" => "object",
            _ => continue,
        };
        let mut at = at.below(&format!(".properties[{name}]"));
        if text(schema, "type") != expected {
            at.invalid(".type", text(schema, "type"), &format!("must be {expected}"));
        }
        let says_more =
            schema.keys().any(|field| !matches!(field.as_str(), "type" | "default" | "properties"))
                || properties(schema).any(|(name, _)| !matches!(name.as_str(), "name" | "generateName"));
        if level == Level::Root && name == "metadata" && says_more {
            let detail = "must not specify anything other than name and generateName, but metadata is implicitly \
                          specified";
            at.forbidden("", detail);
        }
    }
}

/// A schema inside `allOf`, `anyOf`, `oneOf` or `not`.
fn nested(node: &Node, at: &mut Found<'_>) {
    for name in STRUCTURE.split(' ') {
        // What is zero in Go is not there.
        let is_zero = |value: &Value| {
            matches!(value, Value::Bool(false)) || value == "" || value.as_array().is_some_and(Vec::is_empty)
        };
        let may_be_zero = !matches!(name, "additionalProperties" | "default");
        if node.get(name).is_some_and(|value| !may_be_zero || !is_zero(value)) {
            at.forbidden(&format!(".{name}"), "must be undefined to be structural");
        }
    }
    if inner(node, "properties").is_some_and(|properties| properties.contains_key("metadata")) {
        at.forbidden(".properties[metadata]", "must not be specified in a nested context");
    }
}

/// Everything that the nested parts of `values` speak of must stand in `structure` as well.
pub(super) fn complete(
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
