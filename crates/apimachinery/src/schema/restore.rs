//! What Go says of a value that a strategic merge patch has put where its type does not fit. It does not read the result
//! as JSON, as it does those of other patches, but turns one Go value into another.

use serde_json::{Map, Value};

use super::{Additional, Schema, Type};
use crate::fields::object_meta;

impl Schema {
    /// Why the patched object of a core kind cannot be turned into its type, if it cannot.
    pub fn restore(&self, object: &Map<String, Value>) -> Option<String> {
        let metadata = object.get("metadata").and_then(|value| {
            let schema = Self::node(&serde_json::from_value(object_meta()).ok()?).ok()?;
            schema.restore_value(value)
        });
        metadata.or_else(|| self.restore_fields(object))
    }

    fn restore_fields(&self, object: &Map<String, Value>) -> Option<String> {
        object.iter().find_map(|(name, value)| self.properties.get(name)?.restore_value(value))
    }

    fn restore_value(&self, value: &Value) -> Option<String> {
        if value.is_null() {
            return None;
        }
        let go = match self.kind {
            Type::String if self.rules.format.as_deref() == Some("date-time") => return None,
            Type::String if self.rules.format.as_deref() == Some("byte") => {
                return (!value.is_string()).then(|| format!("cannot restore slice from {}", go_kind(value)));
            }
            Type::String => "string",
            Type::Boolean => "bool",
            Type::Integer => self.rules.format.as_deref().unwrap_or("int64"),
            Type::Array => {
                let Value::Array(items) = value else {
                    return Some(format!("cannot restore slice from {}", go_kind(value)));
                };
                let schema = self.items.as_deref()?;
                return items.iter().find_map(|item| schema.restore_value(item));
            }
            Type::Any | Type::IntOrString | Type::Number => return None,
            Type::Object => {
                let Value::Object(object) = value else {
                    return Some(match &self.additional {
                        Additional::Of(_) => format!("cannot restore map from {}", go_kind(value)),
                        _ => format!("cannot restore struct from: {}", go_kind(value)),
                    });
                };
                return match &self.additional {
                    Additional::Of(schema) => object.values().find_map(|value| schema.restore_value(value)),
                    _ => self.restore_fields(object),
                };
            }
        };
        match (go, value) {
            ("string", Value::String(_)) | ("bool", Value::Bool(_)) => None,
            // Go would turn a whole number into the character of that number.
            ("string", Value::Number(number)) if number.is_i64() => {
                Some("cannot convert int64 to string".to_owned())
            }
            ("string" | "bool", _) => Some(format!("unrecognized type: {go}")),
            (_, Value::Number(number)) => {
                let fits = number.is_i64() || number.as_f64().is_some_and(|number| number.fract() == 0.0);
                (!fits).then(|| format!("cannot convert float64 to {go}"))
            }
            _ => Some(format!("unrecognized type: {go}")),
        }
    }
}

/// The kind of a value, as Go's reflection names it.
fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_misfit_has_its_words() {
        let document = json!({ "type": "object", "properties": {
            "data": { "type": "object", "additionalProperties": { "type": "string" } },
            "immutable": { "type": "boolean" } } });
        let schema = Schema::root(&serde_json::from_value(document).unwrap()).unwrap();
        for (object, expected) in [
            (
                json!({ "data": { "k": "v" }, "immutable": true, "metadata": { "labels": { "a": "b" } } }),
                None,
            ),
            (json!({ "data": { "k": 5 } }), Some("cannot convert int64 to string")),
            (json!({ "data": { "k": 1.5 } }), Some("unrecognized type: string")),
            (json!({ "data": 5 }), Some("cannot restore map from int64")),
            (json!({ "immutable": "x" }), Some("unrecognized type: bool")),
            (json!({ "metadata": { "labels": { "a": 5 } } }), Some("cannot convert int64 to string")),
            (json!({ "metadata": { "finalizers": "x" } }), Some("cannot restore slice from string")),
            (json!({ "metadata": [] }), Some("cannot restore struct from: slice")),
        ] {
            assert_eq!(schema.restore(object.as_object().unwrap()).as_deref(), expected, "{object}");
        }
    }
}
