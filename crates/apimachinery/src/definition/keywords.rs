//! Which keywords a schema may use, how they go together, and whether its defaults are values of it.
//!
//! The rules are those of apiextensions-apiserver's `validation` package.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::structural::{self, Level, Node, flag, inner, list, properties, text, type_error};
use crate::field_error::{FieldError, Found};
use crate::names::is_among;
use crate::schema::Schema;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What may stand at the root of a schema whose status is a sub-resource.
const AT_ROOT: &str = "description type format title maximum exclusiveMaximum minimum exclusiveMinimum maxLength \
    minLength pattern maxItems minItems uniqueItems multipleOf required items properties externalDocs example \
    x-kubernetes-preserve-unknown-fields x-kubernetes-validations";

/// The formats of texts that a real server knows, without dashes; others are documentation.
const FORMATS: &str = "bsonobjectid uri email hostname ipv4 ipv6 cidr mac uuid uuid3 uuid4 uuid5 isbn isbn10 isbn13 \
    creditcard ssn hexcolor rgbcolor byte password date duration datetime";

/// Whether a real server knows this format for values of this type.
pub fn known_format(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => {
            is_among(&format.replace('-', ""), FORMATS)
                || matches!(format, "k8s-short-name" | "k8s-long-name")
        }
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

/// Everything that is wrong with the schema of a version. `path` ends in `openAPIV3Schema`.
pub(super) fn problems(schema: &Value, path: &str, with_status: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(root) = schema.as_object() else { return errors };
    let mut at = Found::at(path, &mut errors);
    if with_status && text(root, "type") != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        at.invalid(".type", text(root, "type"), detail);
    } else if with_status && root.keys().any(|name| !is_among(name, AT_ROOT)) {
        let detail = format!(
            "only [{AT_ROOT}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        at.invalid("", schema.clone(), &detail);
    }
    if flag(root, "nullable") {
        at.forbidden(".nullable", "nullable cannot be true at the root");
    }
    node(root, &Place::default(), &mut at);
    structural::complete(root, Some(root), path, path, &mut errors);
    if errors.is_empty() {
        defaults(root, true, &mut Found::at(path, &mut errors));
    }
    if errors.is_empty()
        && let Err(problem) = compile(root, Schema::root)
    {
        let at = path.trim_end_matches(".openAPIV3Schema");
        errors.push(FieldError::invalid(at, &json!(""), &format!("error building validator: {problem}")));
    }
    errors
}

fn compile(
    schema: &Node,
    compile: impl FnOnce(&JSONSchemaProps) -> Result<Schema, String>,
) -> Result<Schema, String> {
    compile(&JSONSchemaProps::deserialize(schema).map_err(|error| error.to_string())?)
}

/// What is known of a schema from those that it stands in.
#[derive(Clone, Default)]
struct Place {
    level: Level,
    /// The first of an `allOf`, which may say once more what an int-or-string may be.
    first_of_all: bool,
    /// Inside apiVersion, kind or metadata of a whole object.
    in_meta: bool,
    /// Why defaults are not allowed here.
    no_defaults: Option<String>,
}

/// Everything that is wrong with a schema, and with those in it.
fn node(schema: &Node, place: &Place, at: &mut Found<'_>) {
    plain(schema, place, at);
    structural::check(schema, place.level, at);
    lists(schema, at);
    rules(schema, at);
    let is_nested = place.level == Level::Nested;
    let below = |level| Place {
        level: if is_nested { Level::Nested } else { level },
        first_of_all: false,
        ..place.clone()
    };
    let additional = schema.get("additionalProperties").filter(|additional| **additional != json!(true));
    if additional.is_some() && inner(schema, "properties").is_some_and(|some| !some.is_empty()) {
        at.forbidden(".additionalProperties", "additionalProperties and properties are mutual exclusive");
    }
    if let Some(additional) = additional.and_then(Value::as_object) {
        let mut below = below(Level::Field);
        if below.in_meta {
            below.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        node(additional, &below, &mut at.below(".additionalProperties"));
    }
    let is_root = place.level == Level::Root;
    for (name, property) in properties(schema) {
        let mut below = below(Level::Field);
        if (is_root || flag(schema, "x-kubernetes-embedded-resource")) && is_meta(name) {
            below.in_meta = true;
            if is_root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        node(property, &below, &mut at.below(&format!(".properties[{name}]")));
    }
    if let Some(items) = inner(schema, "items") {
        node(items, &below(Level::Item), &mut at.below(".items"));
    }
    if let Some(not) = inner(schema, "not") {
        node(not, &below(Level::Nested), &mut at.below(".not"));
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        let either = || json!([{ "type": "integer" }, { "type": "string" }]);
        if name == "anyOf"
            && (!is_nested || place.first_of_all)
            && schema.get(name).is_some_and(|any| *any == either())
        {
            continue;
        }
        for (index, schema) in list(schema, name) {
            let first_of_all = name == "allOf" && index == 0 && !is_nested;
            let below = Place { first_of_all, ..below(Level::Nested) };
            node(schema, &below, &mut at.below(&format!(".{name}[{index}]")));
        }
    }
}

fn is_meta(name: &str) -> bool {
    matches!(name, "metadata" | "kind" | "apiVersion")
}

/// The keywords that are not supported at all, and types.
fn plain(schema: &Node, place: &Place, at: &mut Found<'_>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        at.not_supported(".type", kind, &TYPES);
    }
    if schema.contains_key("default")
        && let Some(reason) = &place.no_defaults
    {
        at.forbidden(".default", &format!("must not be set {reason}"));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.contains_key(name) {
            at.forbidden(&format!(".{name}"), &format!("{name} is not supported"));
        }
    }
    if kind == "null" {
        at.forbidden(".type", "type cannot be set to null, use nullable as an alternative");
    }
    if schema.get("items").is_some_and(Value::is_array) {
        at.forbidden(".items", "items must be a schema object and not an array");
    }
    if place.in_meta && flag(schema, "x-kubernetes-embedded-resource") {
        at.forbidden(".x-kubernetes-embedded-resource", "must not be used inside of resource meta");
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        at.forbidden(".uniqueItems", detail);
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(false)) {
        at.invalid(".x-kubernetes-preserve-unknown-fields", false, "must be true or undefined");
    }
    for (keyword, of, allowed) in [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"][..]),
    ] {
        let Some(value) = schema.get(keyword) else { continue };
        if kind != of {
            type_error(kind, &format!("must be {of} if {keyword} is specified"), at);
        }
        if !allowed.iter().any(|one| value == one) {
            at.not_supported(&format!(".{keyword}"), value.clone(), allowed);
        }
    }
}

/// What kind of list an array is, and what its items must be for that.
fn lists(schema: &Node, at: &mut Found<'_>) {
    let list_type = text(schema, "x-kubernetes-list-type");
    let items = inner(schema, "items");
    if let (Some(items), "set") = (items, list_type) {
        let (step, is_atomic) = match text(items, "type") {
            "array" => (".items.x-kubernetes-list-type", text(items, "x-kubernetes-list-type")),
            "object" => (".items.x-kubernetes-map-type", text(items, "x-kubernetes-map-type")),
            _ => ("", "atomic"),
        };
        // A list is atomic unless it says otherwise, a map is not.
        if is_atomic != "atomic" && !(is_atomic.is_empty() && text(items, "type") == "array") {
            at.invalid(step, is_atomic, "must be atomic as item of a list with x-kubernetes-list-type=set");
        }
    }
    let keys =
        schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if list_type == "map" {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            at.required(".x-kubernetes-list-map-keys", detail);
        }
        match items {
            None => at.required(".items", "must have a schema if x-kubernetes-list-type is map"),
            Some(items) if text(items, "type") != "object" => {
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                at.invalid(".items.type", text(items, "type"), detail);
            }
            Some(items) => map_keys(items, keys, at),
        }
    } else if !keys.is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        if list_type.is_empty() {
            at.required(".x-kubernetes-list-type", detail);
        } else {
            at.invalid(".x-kubernetes-list-type", list_type, detail);
        }
    }
    if matches!(list_type, "set" | "map") && items.is_some_and(|items| flag(items, "nullable")) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        at.forbidden(".items.nullable", &detail);
    }
}

/// What is wrong with the properties that items of a list are known by.
fn map_keys(items: &Node, keys: &[Value], at: &mut Found<'_>) {
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        if keys[..index].contains(key) {
            at.invalid(".x-kubernetes-list-map-keys", keys, "must not contain duplicate entries");
        }
        let Some(property) = inner(items, "properties").and_then(|properties| inner(properties, name)) else {
            at.invalid(".x-kubernetes-list-map-keys", keys, "entries must all be names of item properties");
            continue;
        };
        let mut at = at.below(&format!(".items.properties[{name}]"));
        if matches!(text(property, "type"), "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            at.invalid(".type", text(property, "type"), detail);
        }
        let required =
            items.get("required").and_then(Value::as_array).is_some_and(|names| names.contains(key));
        if !required && !property.contains_key("default") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            at.required(".default", detail);
        }
        if flag(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            at.forbidden(".nullable", detail);
        }
    }
}

/// What can be said of `x-kubernetes-validations` without evaluating them.
fn rules(schema: &Node, at: &mut Found<'_>) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    for (index, rule) in list(schema, "x-kubernetes-validations") {
        let mut at = at.below(&format!(".x-kubernetes-validations[{index}]"));
        let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
        let broken = |text: &str| text.contains(['\n', '\r']);
        if expression.is_empty() {
            at.required(".rule", "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            at.invalid(".message", message, "must be non-empty if specified");
        } else if broken(message.trim()) {
            at.invalid(".message", message, "must not contain line breaks");
        } else if broken(expression) && message.is_empty() {
            at.required(".message", "message must be specified if rule contains line breaks");
        }
        let reason = text(rule, "reason");
        if !reason.is_empty() && !REASONS.contains(&reason) {
            at.not_supported(".reason", reason, &REASONS);
        }
    }
}

/// Defaults must be values of their schema, and hold nothing that would be pruned.
fn defaults(schema: &Node, whole: bool, at: &mut Found<'_>) {
    if let Some(default) = schema.get("default") {
        match compile(schema, Schema::node) {
            Err(problem) => at.invalid(".default", default.clone(), &problem),
            Ok(schema) if schema.drops_of(default) => {
                at.invalid(".default", default.clone(), "must not have unknown fields");
            }
            Ok(schema) => at.below(".default").all(schema.judge(default)),
        }
    }
    let whole = whole || flag(schema, "x-kubernetes-embedded-resource");
    if let Some(items) = inner(schema, "items") {
        defaults(items, false, &mut at.below(".items"));
    }
    // What the server itself fills in has defaults of no use.
    for (name, property) in properties(schema).filter(|(name, _)| !(whole && is_meta(name))) {
        defaults(property, false, &mut at.below(&format!(".properties[{name}]")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(schema: &Value) -> Vec<String> {
        problems(schema, "s", false).iter().map(ToString::to_string).collect()
    }

    fn with(property: &Value) -> Value {
        json!({ "type": "object", "properties": { "p": property } })
    }

    #[test]
    fn what_keywords_may_not_say_has_its_words() {
        const P: &str = "s.properties[p]";
        let map = |items: Value, keys: Value| json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items });
        for (property, expected) in [
            (json!({ "type": "integer", "default": 3 }), String::new()),
            (
                json!({ "type": "integer", "default": "x" }),
                format!(
                    "{P}.default: Invalid value: \"string\":  in body must be of type integer: \"string\""
                ),
            ),
            (
                json!({ "type": "object", "properties": { "b": { "type": "string" } }, "default": { "a": 1 } }),
                format!("{P}.default: Invalid value: {{\"a\":1}}: must not have unknown fields"),
            ),
            (
                json!({ "type": "strange" }),
                format!(
                    "{P}.type: Unsupported value: \"strange\": supported values: \"array\", \"boolean\", \
                     \"integer\", \"number\", \"object\", \"string\""
                ),
            ),
            (
                json!({ "type": "array", "items": { "type": "string" }, "uniqueItems": true }),
                format!(
                    "{P}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity \
                     becomes quadratic"
                ),
            ),
            (
                map(json!({ "type": "object", "properties": { "k": { "type": "string" } } }), json!(["k"])),
                format!(
                    "{P}.items.properties[k].default: Required value: this property is in \
                     x-kubernetes-list-map-keys, so it must have a default or be a required property"
                ),
            ),
            (
                map(json!({ "type": "object", "properties": {} }), json!(["k"])),
                format!(
                    "{P}.x-kubernetes-list-map-keys: Invalid value: [\"k\"]: entries must all be names of item \
                     properties"
                ),
            ),
            (
                json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "object" } }),
                format!(
                    "{P}.items.x-kubernetes-map-type: Invalid value: \"\": must be atomic as item of a list with \
                     x-kubernetes-list-type=set"
                ),
            ),
        ] {
            let expected: Vec<String> = Some(expected).filter(|text| !text.is_empty()).into_iter().collect();
            assert_eq!(found(&with(&property)), expected, "{property}");
        }
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
    fn what_is_not_structural_has_its_words() {
        for (schema, expected) in [
            (
                with(&json!({})),
                "s.properties[p].type: Required value: must not be empty for specified object fields",
            ),
            (with(&json!({ "type": "array" })), "s.properties[p].items: Required value: must be specified"),
            (
                with(&json!({ "type": "array", "items": {} })),
                "s.properties[p].items.type: Required value: must not be empty for specified array items",
            ),
            (json!({ "type": "string" }), "s.type: Invalid value: \"string\": must be object at the root"),
            (
                json!({ "type": "object", "additionalProperties": true }),
                "s.additionalProperties: Forbidden: must not be used at the root",
            ),
            (
                with(&json!({ "type": "string", "anyOf": [{ "description": "x" }] })),
                "s.properties[p].anyOf[0].description: Forbidden: must be undefined to be structural",
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
                with(&json!({ "type": "object", "x-kubernetes-embedded-resource": true })),
                "s.properties[p].properties: Required value: must not be empty if x-kubernetes-embedded-resource is \
                 true without x-kubernetes-preserve-unknown-fields",
            ),
        ] {
            assert_eq!(found(&schema), [expected], "{schema}");
        }
    }
}
