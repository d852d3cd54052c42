//! Filling in what the schema defaults.

use serde_json::{Map, Value};

use super::{Additional, Schema};

impl Schema {
    /// Removes fields that are null, may not be, and have no default to take that place.
    pub(crate) fn drop_nulls(&self, object: &mut Map<String, Value>) {
        object.retain(|name, value| {
            let schema = match (self.properties.get(name), &self.additional) {
                (Some(schema), _) => schema,
                (None, Additional::Of(schema)) => schema,
                (None, Additional::Any | Additional::None) => return true,
            };
            if value.is_null() {
                return schema.nullable || schema.default.is_some();
            }
            schema.drop_nulls_in(value);
            true
        });
    }

    fn drop_nulls_in(&self, value: &mut Value) {
        match (value, &self.items) {
            (Value::Object(object), _) => self.drop_nulls(object),
            (Value::Array(items), Some(schema)) => {
                for item in items.iter_mut() {
                    schema.drop_nulls_in(item);
                }
            }
            _ => {}
        }
    }

    /// Sets absent fields that have a default, and null ones that have a default and may not be null.
    pub(crate) fn apply_defaults(&self, object: &mut Map<String, Value>) {
        if !self.has_defaults {
            return;
        }
        for (name, schema) in self.properties.iter().filter(|(_, schema)| schema.has_defaults) {
            let absent = match object.get(name) {
                None => true,
                Some(value) => value.is_null() && !schema.nullable,
            };
            if let (true, Some(default)) = (absent, &schema.default) {
                object.insert(name.clone(), default.clone());
            }
            if let Some(value) = object.get_mut(name) {
                schema.default_value(value);
            }
        }
        if let Additional::Of(schema) = &self.additional
            && schema.has_defaults
        {
            for (name, value) in object.iter_mut() {
                if !self.properties.contains_key(name) {
                    if let (true, Some(default)) = (value.is_null() && !schema.nullable, &schema.default) {
                        *value = default.clone();
                    }
                    schema.default_value(value);
                }
            }
        }
    }

    fn default_value(&self, value: &mut Value) {
        match value {
            Value::Object(object) => self.apply_defaults(object),
            Value::Array(items) => {
                if let Some(schema) = self.items.as_ref().filter(|schema| schema.has_defaults) {
                    for item in items {
                        if let (true, Some(default)) = (item.is_null() && !schema.nullable, &schema.default) {
                            *item = default.clone();
                        }
                        schema.default_value(item);
                    }
                }
            }
            _ => {}
        }
    }
}
