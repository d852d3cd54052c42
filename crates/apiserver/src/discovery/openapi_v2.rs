//! `OpenAPI` v2, made from the documents of v3: what older clients validate and patch by. As JSON, and as the protobuf of
//! the messages `openapi.v2` that Go's clients ask for.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

type Object = Map<String, Value>;

/// One document of all that the documents of v3 say.
pub(super) fn document(documents: impl Iterator<Item = Value>) -> Value {
    let (mut definitions, mut paths) = (Object::new(), Object::new());
    for document in documents {
        for (name, schema) in entries(&document["components"]["schemas"]) {
            let schema = schema_of(schema);
            match definitions.get_mut(name) {
                None => drop(definitions.insert(name.clone(), schema)),
                Some(known) => join_kinds(known, &schema),
            }
        }
        for (path, item) in entries(&document["paths"]) {
            paths.insert(path.clone(), path_item(item));
        }
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Windlass", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "definitions": definitions,
    })
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

const KINDS: &str = "x-kubernetes-group-version-kind";

/// A type that several groups share is of a kind in each.
fn join_kinds(known: &mut Value, same: &Value) {
    let Some(kinds) = known.get_mut(KINDS).and_then(Value::as_array_mut) else { return };
    for kind in same[KINDS].as_array().into_iter().flatten() {
        if !kinds.contains(kind) {
            kinds.push(kind.clone());
        }
    }
}

/// A schema without what v2 has no words for. As on a real server nothing is said then of what it would be wrong about:
/// what may be null, or may hold more than is listed.
fn schema_of(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let mut out = Object::new();
    let is = |field: &str| schema.get(field) == Some(&Value::Bool(true));
    let holds_anything = is("nullable") || is("x-kubernetes-preserve-unknown-fields");
    for (field, value) in schema {
        let value = match field.as_str() {
            "oneOf" | "anyOf" | "not" | "nullable" => continue,
            "type" if is("nullable") => continue,
            "type" if holds_anything && value == "array" => continue,
            "items" | "properties" if holds_anything => continue,
            "$ref" => {
                let name = value.as_str().unwrap_or_default();
                json!(name.replace("#/components/schemas/", "#/definitions/"))
            }
            "allOf" => match value.as_array().map(Vec::as_slice) {
                // A reference with something beside it.
                Some([one]) if one.get("$ref").is_some() => {
                    out.insert("$ref".to_owned(), schema_of(one)["$ref"].take());
                    continue;
                }
                all => all.unwrap_or_default().iter().map(schema_of).collect(),
            },
            "properties" => entries(value)
                .map(|(name, schema)| (name.clone(), schema_of(schema)))
                .collect::<Object>()
                .into(),
            "items" | "additionalProperties" => schema_of(value),
            "required" => {
                let may_be_null = |name: &Value| {
                    let property = schema.get("properties").and_then(|all| all.get(name.as_str()?));
                    property.is_some_and(|property| property["nullable"] == true)
                };
                let names = value.as_array().into_iter().flatten();
                names.filter(|name| !may_be_null(name)).cloned().collect()
            }
            _ => value.clone(),
        };
        out.insert(field.clone(), value);
    }
    Value::Object(out)
}

fn path_item(item: &Value) -> Value {
    let part = |(name, value): (&String, &Value)| {
        let value = if name == "parameters" { parameters(value) } else { operation(value) };
        (name.clone(), value)
    };
    Value::Object(entries(item).map(part).collect())
}

fn parameters(all: &Value) -> Value {
    let flat = |parameter: &Value| {
        let mut parameter = parameter.as_object().cloned().unwrap_or_default();
        let schema = parameter.remove("schema").unwrap_or_default();
        parameter.extend(entries(&schema).map(|(name, value)| (name.clone(), value.clone())));
        Value::Object(parameter)
    };
    all.as_array().into_iter().flatten().map(flat).collect()
}

fn operation(operation: &Value) -> Value {
    let mut out = operation.as_object().cloned().unwrap_or_default();
    let mut all = parameters(&operation["parameters"]);
    let types = |content: &Value| entries(content).map(|(kind, _)| kind.clone()).collect::<Vec<_>>();
    let schema = |content: &Value| entries(content).next().map(|(_, media)| schema_of(&media["schema"]));
    if let Some(body) = out.remove("requestBody") {
        let mut parameter = json!({ "name": "body", "in": "body" });
        if body["required"] == true {
            parameter["required"] = json!(true);
        }
        parameter["schema"] = schema(&body["content"]).unwrap_or_default();
        out.insert("consumes".to_owned(), json!(types(&body["content"])));
        if let Value::Array(all) = &mut all {
            all.push(parameter);
        }
    }
    out.insert("parameters".to_owned(), all);
    out.insert("produces".to_owned(), json!(types(&operation["responses"]["200"]["content"])));
    let response = |(code, response): (&String, &Value)| {
        let mut said = json!({ "description": response["description"] });
        if let Some(schema) = schema(&response["content"]) {
            said["schema"] = schema;
        }
        (code.clone(), said)
    };
    out.insert(
        "responses".to_owned(),
        entries(&operation["responses"]).map(response).collect::<Object>().into(),
    );
    Value::Object(out)
}

/// The document as a message `openapi.v2.Document`.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    message("Document", document)
}

/// A message of `openapi_v2.txt`.
#[derive(Default)]
struct Message {
    extensions: u64,
    /// Number, name and what it holds.
    fields: Vec<(u64, &'static str, &'static str)>,
}

static MESSAGES: LazyLock<HashMap<&'static str, Message>> = LazyLock::new(|| {
    let mut messages: HashMap<_, Message> = HashMap::new();
    let mut current = "";
    for line in include_str!("openapi_v2.txt").lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [name, extensions] => {
                current = name;
                messages.entry(current).or_default().extensions = number(extensions);
            }
            [field, name, holds] => {
                messages.entry(current).or_default().fields.push((number(field), name, holds));
            }
            _ => {}
        }
    }
    messages
});

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_default()
}

fn message(name: &str, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(message) = MESSAGES.get(name) else { return out };
    for (number, name, holds) in &message.fields {
        if let Some(value) = value.get(name) {
            out.extend(held(*number, holds, value));
        }
    }
    for (name, value) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
        let entry = [field(1, name.as_bytes()), held(2, "Any", value)].concat();
        out.extend(field(message.extensions, &entry));
    }
    out
}

/// A field of this number, with what it holds.
fn held(at: u64, holds: &str, value: &Value) -> Vec<u8> {
    if let Some(item) = holds.strip_prefix("[]") {
        return value.as_array().into_iter().flatten().flat_map(|value| held(at, item, value)).collect();
    }
    if let Some((inner, holds)) = holds.split_once('*') {
        let entry = |(name, value): (&String, &Value)| {
            field(number(inner), &[field(1, name.as_bytes()), held(2, holds, value)].concat())
        };
        return field(at, &entries(value).flat_map(entry).collect::<Vec<u8>>());
    }
    if let Some((inner, holds)) = holds.split_once('/') {
        return field(at, &held(number(inner), holds, value));
    }
    match holds {
        "Text" => field(at, value.as_str().unwrap_or_default().as_bytes()),
        "Flag" => scalar(at, u64::from(value == true)),
        "Int" => scalar(at, value.as_i64().unwrap_or_default().cast_unsigned()),
        "Double" => {
            let bytes = value.as_f64().unwrap_or_default().to_le_bytes();
            [varint(at << 3 | 1), bytes.to_vec()].concat()
        }
        // Text of JSON, which is YAML.
        "Any" => field(at, &field(2, value.to_string().as_bytes())),
        "Additional" if value.is_boolean() => field(at, &held(2, "Flag", value)),
        "Additional" => field(at, &held(1, "Schema", value)),
        "Parameter" => {
            let form = match value["in"].as_str() {
                Some("body") => "1/1/BodyParameter",
                Some("path") => "1/2/4/PathParameter",
                _ => "1/2/3/QueryParameter",
            };
            held(at, form, value)
        }
        name => field(at, &message(name, value)),
    }
}

fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut out = varint(number << 3 | 2);
    out.extend(varint(bytes.len() as u64));
    out.extend_from_slice(bytes);
    out
}

fn scalar(number: u64, value: u64) -> Vec<u8> {
    [varint(number << 3), varint(value)].concat()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(2);
    while number > 0x7f {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as with the messages that `openapi.v2` describes, written out.
    #[test]
    fn a_document_is_written_in_the_messages_of_openapi_v2() {
        let text = |number: u64, text: &str| field(number, text.as_bytes());
        let schema = json!({ "type": "object", "additionalProperties": false, "required": ["a"], "maxLength": 3,
            "properties": { "a": { "$ref": "#/definitions/b" } }, "x-kind": [1] });
        let properties = field(1, &[text(1, "a"), field(2, &text(1, "#/definitions/b"))].concat());
        let written = [
            scalar(11, 3),
            text(19, "a"),
            field(21, &scalar(2, 0)),
            field(22, &text(1, "object")),
            field(25, &properties),
            field(31, &[text(1, "x-kind"), field(2, &text(2, "[1]"))].concat()),
        ]
        .concat();
        assert_eq!(message("Schema", &schema), written);
        let document = json!({ "swagger": "2.0", "paths": { "/p": { "get": {
            "produces": ["application/json"],
            "parameters": [{ "in": "query", "name": "q", "type": "string" }, { "in": "path", "name": "p" },
                { "in": "body", "name": "b", "required": true, "schema": schema }],
            "responses": { "200": { "description": "OK", "schema": schema } } } } } });
        let parameters = [
            field(2, &field(3, &[text(2, "query"), text(4, "q"), text(6, "string")].concat())),
            field(2, &field(4, &[text(2, "path"), text(4, "p")].concat())),
            field(1, &[text(2, "b"), text(3, "body"), scalar(4, 1), field(5, &written)].concat()),
        ];
        let response = field(1, &[text(1, "OK"), field(2, &field(1, &written))].concat());
        let operation = [
            text(6, "application/json"),
            parameters.iter().flat_map(|parameter| field(8, &field(1, parameter))).collect(),
            field(9, &field(1, &[text(1, "200"), field(2, &response)].concat())),
        ];
        let item = field(2, &operation.concat());
        let paths = field(8, &field(2, &[text(1, "/p"), field(2, &item)].concat()));
        assert_eq!(encode(&document), [text(1, "2.0"), paths].concat());
    }

    #[test]
    fn every_message_that_a_field_names_is_there() {
        const PLAIN: [&str; 7] = ["Text", "Flag", "Int", "Double", "Any", "Additional", "Parameter"];
        for (_, name, holds) in MESSAGES.values().flat_map(|message| &message.fields) {
            let kind = holds.rsplit([']', '*', '/']).next().unwrap();
            assert!(PLAIN.contains(&kind) || MESSAGES.contains_key(kind), "{name} is {holds}");
        }
    }
}
