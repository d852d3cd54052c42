//! Core kinds are Go types on a real server, and so is metadata: what does not fit one cannot be read at all.

use serde_json::{Map, Value};

use super::validate::has_format;
use super::{Additional, Schema, Type, type_name};

impl Schema {
    /// Why an object, which stands at `path`, is none of this type, if it is none. Null is absent, and in a map of strings
    /// empty. Never repeats a value.
    pub fn decode(&self, object: &mut Map<String, Value>, path: &str) -> Option<String> {
        self.decode_fields(object, &mut path.to_owned())
    }

    fn decode_fields(&self, object: &mut Map<String, Value>, path: &mut String) -> Option<String> {
        object.retain(|_, value| !value.is_null());
        let length = path.len();
        for (name, value) in object {
            let Some(schema) = self.properties.get(name) else { continue };
            path.extend([if length == 0 { "" } else { "." }, name]);
            let problem = schema.decode_value(value, path);
            if problem.is_some() {
                return problem;
            }
            path.truncate(length);
        }
        None
    }

    fn decode_value(&self, value: &mut Value, path: &mut String) -> Option<String> {
        if let Some(expected) = self.mismatch(value) {
            return Some(format!("{path} must be of type {expected}: {:?}", type_name(value)));
        }
        match value {
            Value::Object(object) => match &self.additional {
                Additional::Of(schema) => object.values_mut().find_map(|value| {
                    if value.is_null() && schema.kind == Type::String {
                        *value = Value::String(String::new());
                    }
                    schema.decode_value(value, path)
                }),
                _ => self.decode_fields(object, path),
            },
            Value::Array(items) => {
                let schema = self.items.as_deref()?;
                items.iter_mut().find_map(|item| schema.decode_value(item, path))
            }
            Value::String(text) => {
                let format = self.rules.format.as_deref().filter(|_| !text.is_empty())?;
                (!has_format(text, format)).then(|| format!("{path} must be of type {format}"))
            }
            _ => None,
        }
    }
}
