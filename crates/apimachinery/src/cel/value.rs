//! Values of documents as CEL sees them: by their schema.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Value as Cel};
use serde_json::Value;

use super::Node;
use super::expression::call;
use crate::names::is_among;

/// What a string or number stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Plain,
    Time,
    Date,
    Duration,
    Bytes,
    /// A number, which is one with a fraction also where it has none.
    Double,
}

impl Format {
    pub(super) fn of(document: &JSONSchemaProps) -> Self {
        if document.x_kubernetes_int_or_string == Some(true) {
            return Self::Plain;
        }
        match (document.type_.as_deref(), document.format.as_deref()) {
            (Some("number"), _) => Self::Double,
            (Some("string"), Some("date-time")) => Self::Time,
            (Some("string"), Some("date")) => Self::Date,
            (Some("string"), Some("duration")) => Self::Duration,
            (Some("string"), Some("byte")) => Self::Bytes,
            _ => Self::Plain,
        }
    }
}

/// What CEL sees of a value. Of an object only the fields that its schema has: others are nobody's business.
pub(super) fn of(node: &Node, value: &Value, functions: &Context<'_>) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) if node.format != Format::Double => Cel::Int(whole),
            (None, Some(whole)) if node.format != Format::Double => Cel::UInt(whole),
            _ => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => string(node.format, text, functions),
        Value::Array(items) => {
            let plain = Node::default();
            let schema = node.items.as_deref().unwrap_or(&plain);
            Cel::List(Arc::new(items.iter().map(|item| of(schema, item, functions)).collect()))
        }
        Value::Object(fields) => object(node, fields, functions),
    }
}

/// What CEL sees of a value of no schema, as Go's JSON has it: every number has a fraction.
pub(super) fn of_json(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Cel::from(text.as_str()),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(of_json).collect())),
        Value::Object(fields) => map(fields.iter().map(|(name, value)| (name.clone(), of_json(value)))),
    }
}

/// A map of these entries.
pub(super) fn map(entries: impl Iterator<Item = (String, Cel)>) -> Cel {
    Cel::Map(Map { map: Arc::new(entries.map(|(name, value)| (key(name), value)).collect()) })
}

fn object(node: &Node, fields: &serde_json::Map<String, Value>, functions: &Context<'_>) -> Cel {
    let mut map = HashMap::with_capacity(fields.len());
    for (name, value) in fields {
        if let Some(property) = node.properties.get(name) {
            map.insert(key(escaped(name)), of(property, value, functions));
        } else if let Some(values) = &node.additional {
            // Keys of a map are data, and no names of fields.
            map.insert(key(name.clone()), of(values, value, functions));
        }
    }
    if node.embedded {
        let text = |value: &Value| Cel::from(value.as_str().unwrap_or_default());
        for name in ["apiVersion", "kind"] {
            map.insert(key(name.to_owned()), text(fields.get(name).unwrap_or(&Value::Null)));
        }
        let metadata = fields.get("metadata").and_then(Value::as_object).into_iter().flatten();
        let known = metadata.filter(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
        let known: HashMap<Key, Cel> = known.map(|(name, value)| (key(name.clone()), text(value))).collect();
        map.insert(key("metadata".to_owned()), Cel::Map(Map { map: Arc::new(known) }));
    }
    Cel::Map(Map { map: Arc::new(map) })
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

fn string(format: Format, text: &str, functions: &Context<'_>) -> Cel {
    let made = match format {
        Format::Plain | Format::Double => None,
        Format::Bytes => STANDARD.decode(text).ok().map(|bytes| Cel::Bytes(Arc::new(bytes))),
        Format::Time => functions.resolve(&call("timestamp", text)).ok(),
        Format::Date => functions.resolve(&call("timestamp", &format!("{text}T00:00:00Z"))).ok(),
        Format::Duration => functions.resolve(&call("duration", text)).ok(),
    };
    // What is none was refused by the schema.
    made.unwrap_or_else(|| Cel::from(text))
}

/// The name of a field as expressions write it.
pub(super) fn escaped(name: &str) -> String {
    const RESERVED: &str = "true false null in as break const continue else for function if import let loop package \
        namespace return var void while";
    if is_among(name, RESERVED) {
        return format!("__{name}__");
    }
    name.replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
}
