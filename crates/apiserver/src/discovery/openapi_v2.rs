//! `OpenAPI` v2, made from the documents of v3: what older clients validate and patch by. As JSON, and as the protobuf of
//! the messages `openapi.v2` that Go's clients ask for.

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
    message(document, &DOCUMENT)
}

/// A message: the names of its fields in JSON, their numbers and what they hold, and the number of the field of
/// extensions.
struct Message {
    fields: &'static [(&'static str, u64, Holds)],
    extensions: u64,
}

enum Holds {
    Text,
    Flag,
    Int,
    Double,
    Texts,
    /// Any value, as text.
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// A message of entries, each with a name and a value, in the field of this number.
    Entries(u64, fn(&Value) -> Vec<u8>),
    /// A message of its own form.
    Form(fn(&Value) -> Vec<u8>),
    Forms(fn(&Value) -> Vec<u8>),
}

use Holds::{Any, Anys, Double, Entries, Flag, Form, Forms, Int, Many, One, Text, Texts};

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Text),
        ("info", 2, One(&INFO)),
        ("paths", 8, Entries(2, |item| message(item, &PATH))),
        ("definitions", 9, Entries(1, |schema| message(schema, &SCHEMA))),
    ],
    extensions: 16,
};
static INFO: Message = Message { fields: &[("title", 1, Text), ("version", 2, Text)], extensions: 7 };
static PATH: Message = Message {
    fields: &[
        ("get", 2, One(&OPERATION)),
        ("put", 3, One(&OPERATION)),
        ("post", 4, One(&OPERATION)),
        ("delete", 5, One(&OPERATION)),
        ("patch", 8, One(&OPERATION)),
        ("parameters", 9, Forms(parameter)),
    ],
    extensions: 10,
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Texts),
        ("description", 3, Text),
        ("operationId", 5, Text),
        ("produces", 6, Texts),
        ("consumes", 7, Texts),
        ("parameters", 8, Forms(parameter)),
        ("responses", 9, Entries(1, |response| field(1, &message(response, &RESPONSE)))),
    ],
    extensions: 13,
};
static RESPONSE: Message = Message {
    fields: &[("description", 1, Text), ("schema", 2, Form(|schema| field(1, &message(schema, &SCHEMA))))],
    extensions: 5,
};
static BODY: Message = Message {
    fields: &[
        ("description", 1, Text),
        ("name", 2, Text),
        ("in", 3, Text),
        ("required", 4, Flag),
        ("schema", 5, One(&SCHEMA)),
    ],
    extensions: 6,
};
static QUERY: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 6, Text),
        ("uniqueItems", 20, Flag),
    ],
    extensions: 23,
};
static IN_PATH: Message = Message {
    fields: &[
        ("required", 1, Flag),
        ("in", 2, Text),
        ("description", 3, Text),
        ("name", 4, Text),
        ("type", 5, Text),
        ("uniqueItems", 19, Flag),
    ],
    extensions: 22,
};
static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Text),
        ("format", 2, Text),
        ("title", 3, Text),
        ("description", 4, Text),
        ("default", 5, Any),
        ("multipleOf", 6, Double),
        ("maximum", 7, Double),
        ("exclusiveMaximum", 8, Flag),
        ("minimum", 9, Double),
        ("exclusiveMinimum", 10, Flag),
        ("maxLength", 11, Int),
        ("minLength", 12, Int),
        ("pattern", 13, Text),
        ("maxItems", 14, Int),
        ("minItems", 15, Int),
        ("uniqueItems", 16, Flag),
        ("maxProperties", 17, Int),
        ("minProperties", 18, Int),
        ("required", 19, Texts),
        ("enum", 20, Anys),
        ("additionalProperties", 21, Form(additional)),
        ("type", 22, Form(|kind| field(1, kind.as_str().unwrap_or_default().as_bytes()))),
        ("items", 23, Form(|items| field(1, &message(items, &SCHEMA)))),
        ("allOf", 24, Many(&SCHEMA)),
        ("properties", 25, Entries(1, |schema| message(schema, &SCHEMA))),
        ("example", 30, Any),
    ],
    extensions: 31,
};

fn message(value: &Value, form: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, holds) in form.fields {
        let Some(value) = value.get(name) else { continue };
        let number = *number;
        let each = |one: fn(&Value) -> Vec<u8>| -> Vec<u8> {
            value.as_array().into_iter().flatten().flat_map(|item| field(number, &one(item))).collect()
        };
        let text = |value: &Value| value.as_str().unwrap_or_default().as_bytes().to_vec();
        out.extend(match holds {
            Text => field(number, &text(value)),
            Flag => scalar(number, u64::from(value == true)),
            Int => scalar(number, value.as_i64().unwrap_or_default().cast_unsigned()),
            Double => {
                let bytes = value.as_f64().unwrap_or_default().to_le_bytes();
                [varint(number << 3 | 1), bytes.to_vec()].concat()
            }
            Texts => each(|text| text.as_str().unwrap_or_default().as_bytes().to_vec()),
            Any => field(number, &any(value)),
            Anys => each(any),
            One(form) => field(number, &message(value, form)),
            Many(form) => {
                let items = value.as_array().into_iter().flatten();
                items.flat_map(|item| field(number, &message(item, form))).collect()
            }
            Entries(inner, one) => {
                let entry = |(name, value): (&String, &Value)| {
                    field(*inner, &[field(1, name.as_bytes()), field(2, &one(value))].concat())
                };
                field(number, &entries(value).flat_map(entry).collect::<Vec<u8>>())
            }
            Form(one) => field(number, &one(value)),
            Forms(one) => each(*one),
        });
    }
    for (name, value) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
        let entry = [field(1, name.as_bytes()), field(2, &any(value))].concat();
        out.extend(field(form.extensions, &entry));
    }
    out
}

/// Text of JSON, which is YAML.
fn any(value: &Value) -> Vec<u8> {
    field(2, value.to_string().as_bytes())
}

fn additional(value: &Value) -> Vec<u8> {
    match value {
        Value::Bool(is_allowed) => scalar(2, u64::from(*is_allowed)),
        schema => field(1, &message(schema, &SCHEMA)),
    }
}

fn parameter(value: &Value) -> Vec<u8> {
    let form = match value["in"].as_str() {
        Some("body") => field(1, &message(value, &BODY)),
        Some("path") => field(2, &field(4, &message(value, &IN_PATH))),
        _ => field(2, &field(3, &message(value, &QUERY))),
    };
    field(1, &form)
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
