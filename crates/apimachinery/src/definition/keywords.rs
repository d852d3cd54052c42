//! Which keywords a schema may use, how they go together, and whether its defaults are values of it.
//!
//! The rules and their words are those of apiextensions-apiserver's `validation` package.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::structural::{self, Node, flag, inner, list, properties, text};
use crate::field_error::FieldError;
use crate::schema::Schema;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What may stand at the root of a schema whose status is a sub-resource.
const AT_ROOT: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// The formats of texts that a real server knows, without dashes; others are documentation.
const FORMATS: [&str; 24] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
];

/// Whether a real server knows this format for values of this type.
pub fn known_format(kind: &str, format: &str) -> bool {
    match kind {
        "" | "string" => {
            FORMATS.contains(&format.replace('-', "").as_str())
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
    if with_status {
        if root.get("type") != Some(&json!("object")) {
            let found = root.get("type").cloned().unwrap_or_else(|| json!(""));
            let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            errors.push(FieldError::invalid(format!("{path}.type"), &found, detail));
        } else if root.keys().any(|name| !AT_ROOT.contains(&name.as_str())) {
            let detail = format!(
                "only {AT_ROOT:?} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            errors.push(FieldError::invalid(path, schema, &detail));
        }
    }
    if flag(root, "nullable") {
        errors.push(FieldError::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let structural = structural::problems(schema, path);
    if structural.is_empty() {
        defaults(root, path, true, &mut errors);
    } else {
        errors.extend(structural);
    }
    node(root, path, &Place { root: true, ..Place::default() }, &mut errors);
    if errors.is_empty()
        && let Err(problem) = compile(schema)
    {
        let at = path.trim_end_matches(".openAPIV3Schema");
        errors.push(FieldError::invalid(at, &json!(""), &format!("error building validator: {problem}")));
    }
    errors
}

fn compile(schema: &Value) -> Result<Schema, String> {
    let document = JSONSchemaProps::deserialize(schema).map_err(|error| error.to_string())?;
    Schema::root(&document)
}

/// What is known of a schema from those that it stands in.
#[derive(Clone, Default)]
struct Place {
    root: bool,
    /// Inside apiVersion, kind or metadata of a whole object.
    in_meta: bool,
    /// Why defaults are not allowed here.
    no_defaults: Option<String>,
}

fn node(schema: &Node, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    plain(schema, path, place, errors);
    let below = Place { root: false, ..place.clone() };
    if let Some(additional) = schema.get("additionalProperties") {
        let has_properties = inner(schema, "properties").is_some_and(|some| !some.is_empty());
        if has_properties && *additional != json!(true) {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(at("additionalProperties"), detail));
        }
        if let Some(additional) = additional.as_object() {
            let mut below = below.clone();
            if below.in_meta {
                below.no_defaults =
                    Some("inside additionalProperties applying to object metadata".to_owned());
            }
            node(additional, &at("additionalProperties"), &below, errors);
        }
    }
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    for (name, property) in properties(schema) {
        let mut below = below.clone();
        if (place.root || embedded) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            below.in_meta = true;
            if place.root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        node(property, &format!("{path}.properties[{name}]"), &below, errors);
    }
    for name in ["not", "items"] {
        if let Some(schema) = inner(schema, name) {
            node(schema, &at(name), &below, errors);
        }
    }
    for name in ["allOf", "oneOf", "anyOf"] {
        for (index, schema) in list(schema, name) {
            node(schema, &format!("{path}.{name}[{index}]"), &below, errors);
        }
    }
    lists(schema, path, errors);
    rules(schema, path, errors);
}

/// The keywords that are not supported at all, and types.
fn plain(schema: &Node, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(at("type"), &json!(kind), &TYPES.map(str::to_owned)));
    }
    if schema.contains_key("default")
        && let Some(reason) = &place.no_defaults
    {
        errors.push(FieldError::forbidden(at("default"), &format!("must not be set {reason}")));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        if schema.contains_key(name) {
            errors.push(FieldError::forbidden(at(name), &format!("{name} is not supported")));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(at("type"), detail));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        errors.push(FieldError::forbidden(at("items"), "items must be a schema object and not an array"));
    }
    if place.in_meta && flag(schema, "x-kubernetes-embedded-resource") {
        let detail = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(at("x-kubernetes-embedded-resource"), detail));
    }
    if flag(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(at("uniqueItems"), detail));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(false)) {
        let at = at("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, &json!(false), "must be true or undefined"));
    }
    for (keyword, of, allowed) in [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"][..]),
    ] {
        let Some(value) = schema.get(keyword) else { continue };
        let detail = format!("must be {of} if {keyword} is specified");
        if kind.is_empty() {
            errors.push(FieldError::required(at("type"), &detail));
        } else if kind != of {
            errors.push(FieldError::invalid(at("type"), &json!(kind), &detail));
        }
        if !allowed.iter().any(|one| value == one) {
            let allowed: Vec<String> = allowed.iter().map(|&one| one.to_owned()).collect();
            errors.push(FieldError::not_supported(at(keyword), value, &allowed));
        }
    }
}

/// What kind of list an array is, and what its items must be for that.
fn lists(schema: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let at = |name: &str| format!("{path}.{name}");
    let list_type = text(schema, "x-kubernetes-list-type");
    let items = inner(schema, "items");
    if list_type == "set"
        && let Some(items) = items
    {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let (keyword, wrong) = match text(items, "type") {
            "array" => {
                ("x-kubernetes-list-type", !matches!(text(items, "x-kubernetes-list-type"), "" | "atomic"))
            }
            "object" => ("x-kubernetes-map-type", text(items, "x-kubernetes-map-type") != "atomic"),
            _ => ("", false),
        };
        if wrong {
            let found = items.get("x-kubernetes-list-type").cloned().unwrap_or_default();
            errors.push(FieldError::invalid(at(&format!("items.{keyword}")), &found, detail));
        }
    }
    let no_keys = Vec::new();
    let keys_value = schema.get("x-kubernetes-list-map-keys").cloned().unwrap_or_else(|| json!([]));
    let keys = keys_value.as_array().unwrap_or(&no_keys);
    if !keys.is_empty() && list_type != "map" {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(if schema.contains_key("x-kubernetes-list-type") {
            FieldError::invalid(at("x-kubernetes-list-type"), &json!(list_type), detail)
        } else {
            FieldError::required(at("x-kubernetes-list-type"), detail)
        });
    }
    if list_type == "map" {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(at("x-kubernetes-list-map-keys"), detail));
        }
        match items {
            None => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                errors.push(FieldError::required(at("items"), detail));
            }
            Some(items) if text(items, "type") != "object" => {
                let detail = "must be object if parent array's x-kubernetes-list-type is map";
                let found = json!(text(items, "type"));
                errors.push(FieldError::invalid(at("items.type"), &found, detail));
            }
            Some(items) => map_keys(items, keys, path, errors),
        }
    }
    if let (Some(items), "set" | "map") = (items, list_type) {
        if flag(items, "nullable") {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            errors.push(FieldError::forbidden(at("items.nullable"), &detail));
        }
        if list_type == "map" {
            map_keys_present(items, keys, path, errors);
        }
    }
}

fn map_keys(items: &Node, keys: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        let at = format!("{path}.x-kubernetes-list-map-keys");
        match items.get("properties").and_then(|properties| properties.get(name)) {
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(at.clone(), &json!(keys), detail));
            }
            Some(property) if matches!(property["type"].as_str(), Some("array" | "object")) => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = format!("{path}.items.properties[{name}].type");
                errors.push(FieldError::invalid(at, &json!(text(items, "type")), detail));
            }
            Some(_) => {}
        }
        if keys[..index].contains(key) {
            errors.push(FieldError::invalid(at, &json!(keys), "must not contain duplicate entries"));
        }
    }
}

fn map_keys_present(items: &Node, keys: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    for key in keys {
        let name = key.as_str().unwrap_or_default();
        let Some(property) = items.get("properties").and_then(|properties| properties.get(name)) else {
            continue;
        };
        let required =
            items.get("required").and_then(Value::as_array).is_some_and(|names| names.contains(key));
        let at = format!("{path}.items.properties[{name}]");
        if !required && property.get("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.push(FieldError::required(format!("{at}.default"), detail));
        }
        if property.get("nullable") == Some(&json!(true)) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(format!("{at}.nullable"), detail));
        }
    }
}

/// What can be said of `x-kubernetes-validations` without evaluating them.
fn rules(schema: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let at = |name: &str| format!("{path}.x-kubernetes-validations[{index}].{name}");
        let field = |name: &str| rule[name].as_str().unwrap_or_default();
        let (expression, message) = (field("rule").trim(), field("message"));
        let broken = |text: &str| text.contains(['\n', '\r']);
        if expression.is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(at("message"), &json!(message), detail));
        } else if broken(message.trim()) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(at("message"), &json!(message), detail));
        } else if broken(expression) && message.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), detail));
        }
        let reasons =
            ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        if !field("reason").is_empty() && !reasons.contains(&field("reason")) {
            let reasons = reasons.map(str::to_owned);
            errors.push(FieldError::not_supported(at("reason"), &json!(field("reason")), &reasons));
        }
    }
}

/// Defaults must be values of their schema, and hold nothing that would be pruned.
fn defaults(schema: &Node, path: &str, whole: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.get("default") {
        let at = format!("{path}.default");
        match compile_node(schema) {
            Err(problem) => errors.push(FieldError::invalid(at, default, &problem)),
            Ok(schema) if schema.drops_of(default) => {
                errors.push(FieldError::invalid(at, default, "must not have unknown fields"));
            }
            Ok(schema) => {
                errors.extend(schema.judge(default).into_iter().map(|error| error.under(&at)));
            }
        }
    }
    let whole = whole || flag(schema, "x-kubernetes-embedded-resource");
    if let Some(items) = inner(schema, "items") {
        defaults(items, &format!("{path}.items"), false, errors);
    }
    for (name, property) in properties(schema) {
        // What the server itself fills in has defaults of no use.
        if !(whole && matches!(name.as_str(), "metadata" | "apiVersion" | "kind")) {
            defaults(property, &format!("{path}.properties[{name}]"), false, errors);
        }
    }
}

fn compile_node(schema: &Node) -> Result<Schema, String> {
    let document = JSONSchemaProps::deserialize(schema).map_err(|error| error.to_string())?;
    Schema::node(&document)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(property: &Value) -> Vec<String> {
        let schema = json!({ "type": "object", "properties": { "p": property } });
        problems(&schema, "s.openAPIV3Schema", false).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_rule_has_its_words() {
        const P: &str = "s.openAPIV3Schema.properties[p]";
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
                    "{P}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with \
                     x-kubernetes-list-type=set"
                ),
            ),
        ] {
            let expected: Vec<String> = Some(expected).filter(|text| !text.is_empty()).into_iter().collect();
            assert_eq!(found(&property), expected, "{property}");
        }
    }
}
