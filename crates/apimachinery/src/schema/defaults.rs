//! Filling in what the schema defaults.

use serde_json::{Map, Value};

use super::{Additional, Schema};
use crate::bounds::{MAX_BYTES, weight};

impl Schema {
    /// Removes fields that are null, may not be, and have no default to take that place.
    pub fn drop_nulls(&self, object: &mut Map<String, Value>) {
        object.retain(|name, value| {
            let Some(schema) = self.field(name) else { return true };
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

    /// Sets absent fields that have a default, and null ones that have a default and may not be null. `None`: that would
    /// make the object too large.
    #[must_use]
    pub fn apply_defaults(&self, object: &mut Map<String, Value>) -> Option<()> {
        // What a value takes in memory is more than what it is written in.
        self.fill_in(object, &mut (2 * MAX_BYTES))
    }

    fn fill_in(&self, object: &mut Map<String, Value>, room: &mut usize) -> Option<()> {
        if !self.has_defaults {
            return Some(());
        }
        for (name, schema) in self.properties.iter().filter(|(_, schema)| schema.has_defaults) {
            let absent = match object.get(name) {
                None => true,
                Some(value) => value.is_null() && !schema.nullable,
            };
            if let (true, Some(default)) = (absent, &schema.default) {
                *room = room.checked_sub(name.len() + weight(default))?;
                object.insert(name.clone(), default.clone());
            }
            if let Some(value) = object.get_mut(name) {
                schema.fill_in_value(value, room)?;
            }
        }
        if let Additional::Of(schema) = &self.additional
            && schema.has_defaults
        {
            for (name, value) in object.iter_mut() {
                if !self.properties.contains_key(name) {
                    schema.fill_in_null(value, room)?;
                    schema.fill_in_value(value, room)?;
                }
            }
        }
        Some(())
    }

    fn fill_in_null(&self, value: &mut Value, room: &mut usize) -> Option<()> {
        if let (true, Some(default)) = (value.is_null() && !self.nullable, &self.default) {
            *room = room.checked_sub(weight(default))?;
            *value = default.clone();
        }
        Some(())
    }

    fn fill_in_value(&self, value: &mut Value, room: &mut usize) -> Option<()> {
        match value {
            Value::Object(object) => self.fill_in(object, room)?,
            Value::Array(items) => {
                if let Some(schema) = self.items.as_ref().filter(|schema| schema.has_defaults) {
                    for item in items {
                        schema.fill_in_null(item, room)?;
                        schema.fill_in_value(item, room)?;
                    }
                }
            }
            _ => {}
        }
        Some(())
    }
}
