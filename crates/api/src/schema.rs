//! Schema fragments that cannot be derived.

use schemars::{Schema, SchemaGenerator, json_schema};

/// The root's metadata: an API server brings its own schema and accepts no other.
pub(crate) fn object_metadata(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

/// A moment, as RFC 3339 writes it.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Any JSON value.
pub(crate) fn any_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// Any JSON object.
pub(crate) fn free_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A dashboard's spec: its title is named for the printer column, the rest is free.
pub(crate) fn dashboard_spec(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "title": { "type": "string", "description": "Name that people read." }
        }
    })
}

/// A folder's spec: title and description, the rest is free.
pub(crate) fn folder_spec(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "title": { "type": "string", "description": "Name that people read." },
            "description": { "type": "string", "description": "What the folder is for." }
        }
    })
}

/// Conditions: a list that is merged by type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the object's state.",
            "required": ["type", "status", "lastTransitionTime", "reason", "message"],
            "properties": {
                "type": {
                    "type": "string", "maxLength": 316,
                    "description": "The aspect, for example `Ready`."
                },
                "status": {
                    "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether the condition holds."
                },
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "Generation of the spec that the condition is about."
                },
                "lastTransitionTime": {
                    "type": "string", "format": "date-time",
                    "description": "When the status last flipped."
                },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                    "description": "Why, in one word for machines."
                },
                "message": {
                    "type": "string", "maxLength": 32768,
                    "description": "Why, for a reader."
                }
            }
        }
    })
}
