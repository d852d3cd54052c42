//! Core kinds are Go types on a real server: what does not fit one is a bad request, in the words of Go's decoder.

use serde_json::{Map, Value};

use super::{Additional, Schema, Type};
use crate::json::go_type;

impl Schema {
    /// Why an object of a core kind cannot be decoded, if it cannot. Null is absent, and in a map of strings empty.
    /// Never repeats a value but a time.
    pub fn decode(&self, kind: &str, object: &mut Map<String, Value>) -> Option<String> {
        self.decode_fields(kind, &mut Vec::new(), object)
    }

    fn decode_fields(
        &self,
        structure: &str,
        path: &mut Vec<String>,
        object: &mut Map<String, Value>,
    ) -> Option<String> {
        object.retain(|_, value| !value.is_null());
        for (name, value) in object {
            let Some(schema) = self.properties.get(name) else { continue };
            path.push(name.clone());
            let problem = schema.decode_value(structure, path, value);
            if problem.is_some() {
                return problem;
            }
            path.pop();
        }
        None
    }

    fn decode_value(&self, structure: &str, path: &mut Vec<String>, value: &mut Value) -> Option<String> {
        let unfit = |value: &Value, path: &[String]| {
            Some(format!(
                "json: cannot unmarshal {} into Go struct field {structure}.{} of type {}",
                go_type(value),
                path.join("."),
                self.go(path.last().map_or("", String::as_str), structure)
            ))
        };
        if self.mismatch(value).is_some() {
            return unfit(value, path);
        }
        match value {
            Value::Object(object) => match &self.additional {
                Additional::Of(schema) => object.values_mut().find_map(|value| {
                    if value.is_null() && schema.kind == Type::String {
                        *value = Value::String(String::new());
                    }
                    schema.decode_value(structure, path, value)
                }),
                _ => {
                    let inner = go_struct(path.last().map_or("", String::as_str), structure);
                    self.decode_fields(&inner, path, object)
                }
            },
            Value::Array(items) => {
                let schema = self.items.as_deref()?;
                items.iter_mut().find_map(|item| schema.decode_value(structure, path, item))
            }
            Value::String(text) => match self.rules.format.as_deref() {
                Some("byte") => base64_error(text),
                Some("date-time") if !text.is_empty() && text.parse::<jiff::Timestamp>().is_err() => {
                    // Some times are finer than others, by their name.
                    const FINE: [&str; 4] = ["acquireTime", "renewTime", "eventTime", "lastObservedTime"];
                    let fine = path.last().is_some_and(|name| FINE.contains(&name.as_str()));
                    let fraction = if fine { ".000000" } else { "" };
                    Some(format!(
                        "parsing time {text:?} as \"2006-01-02T15:04:05{fraction}Z07:00\": cannot parse {text:?} as \
                         \"2006\""
                    ))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The Go type of a field.
    fn go(&self, field: &str, structure: &str) -> String {
        match self.kind {
            Type::String if self.rules.format.as_deref() == Some("byte") => "[]uint8".to_owned(),
            Type::String => "string".to_owned(),
            Type::Boolean => "bool".to_owned(),
            Type::Integer => self.rules.format.clone().unwrap_or_else(|| "int32".to_owned()),
            Type::Number => "float64".to_owned(),
            Type::Array => {
                format!(
                    "[]{}",
                    self.items.as_ref().map_or_else(String::new, |items| items.go(field, structure))
                )
            }
            Type::Object | Type::Any | Type::IntOrString => match &self.additional {
                Additional::Of(schema) => format!("map[string]{}", schema.go(field, structure)),
                _ => format!("v1.{}", go_struct(field, structure)),
            },
        }
    }
}

/// The name of the Go type that a field of a structure holds.
fn go_struct(field: &str, structure: &str) -> String {
    match (structure, field) {
        ("Event", "involvedObject" | "related") => "ObjectReference".to_owned(),
        ("SelfSubjectAccessReviewSpec", "resourceAttributes") => "ResourceAttributes".to_owned(),
        ("SelfSubjectAccessReviewSpec", "nonResourceAttributes") => "NonResourceAttributes".to_owned(),
        (_, field) => {
            let mut chars = field.chars();
            let first = chars.next().map(|c| c.to_ascii_uppercase());
            structure.chars().chain(first).chain(chars).collect()
        }
    }
}

/// What Go's decoder says of text that is no standard base64.
fn base64_error(text: &str) -> Option<String> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).err()?;
    let is_ours = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    let length = text.trim_end_matches('=').len();
    let at = text[..length].bytes().position(|byte| !is_ours(byte));
    // What ends too early is said of the group of four that it is in.
    let at = at.unwrap_or(text.len() / 4 * 4);
    Some(format!("illegal base64 data at input byte {at}"))
}
