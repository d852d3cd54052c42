//! Resources that stand inside of others (`x-kubernetes-embedded-resource`): their type and metadata are judged as those
//! of any object.

use serde_json::{Map, Value};

use super::{Additional, Schema, push_index};
use crate::field_error::FieldError;
use crate::metadata;
use crate::names;

impl Schema {
    /// Brings the metadata of embedded resources into its form. The paths of fields that no metadata has are appended.
    pub fn coerce_embedded(
        &self,
        object: &mut Map<String, Value>,
        unknown: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        self.each_field(object, &mut String::new(), &mut |resource, path| coerce(resource, path, unknown))
    }

    /// What is wrong with the type and the metadata of embedded resources.
    pub fn validate_embedded(&self, object: &Map<String, Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.has_embedded {
            let mut judge = |resource: &mut Map<String, Value>, path: &str| {
                errors.extend(resource_problems(resource).into_iter().map(|error| error.under(path)));
                Ok(())
            };
            // It fails nowhere.
            let _ = self.each_field(&mut object.clone(), &mut String::new(), &mut judge);
        }
        errors
    }

    /// Visits each resource in the fields of an object, which stands at `path`.
    fn each_field(
        &self,
        object: &mut Map<String, Value>,
        path: &mut String,
        visit: &mut Visit<'_>,
    ) -> Result<(), FieldError> {
        if !self.has_embedded {
            return Ok(());
        }
        let length = path.len();
        for (name, value) in object {
            let (schema, step) = match (self.properties.get(name), &self.additional) {
                (Some(schema), _) => (schema, [if length == 0 { "" } else { "." }, name, ""]),
                (None, Additional::Of(schema)) => (&**schema, ["[", name, "]"]),
                (None, _) => continue,
            };
            path.extend(step);
            schema.each_resource(value, path, visit)?;
            path.truncate(length);
        }
        Ok(())
    }

    /// Visits each resource in a value, and the value if it is one.
    fn each_resource(
        &self,
        value: &mut Value,
        path: &mut String,
        visit: &mut Visit<'_>,
    ) -> Result<(), FieldError> {
        match (value, &self.items) {
            (Value::Object(object), _) => {
                if self.embedded {
                    visit(object, path)?;
                }
                self.each_field(object, path, visit)
            }
            (Value::Array(items), Some(schema)) if schema.has_embedded => {
                let length = path.len();
                for (index, item) in items.iter_mut().enumerate() {
                    push_index(path, index);
                    schema.each_resource(item, path, visit)?;
                    path.truncate(length);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// What is done with a resource at a path.
type Visit<'a> = dyn FnMut(&mut Map<String, Value>, &str) -> Result<(), FieldError> + 'a;

fn coerce(
    resource: &mut Map<String, Value>,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    for name in ["apiVersion", "kind"] {
        if let Some(value) = resource.get(name).filter(|value| !value.is_string()) {
            return Err(FieldError::invalid(format!("{path}.{name}"), value, "must be a string"));
        }
    }
    let Some(value) = resource.get_mut("metadata") else { return Ok(()) };
    let (at, sent) = (format!("{path}.metadata"), value.clone());
    metadata::conform_embedded(value, &at, unknown)
        .map_err(|problem| FieldError::invalid(at, &sent, &problem))
}

/// What is wrong with one resource; paths start at it.
fn resource_problems(object: &Map<String, Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for name in ["apiVersion", "kind"] {
        let Some(value) = object.get(name) else {
            errors.push(FieldError::required(name, ""));
            continue;
        };
        let text = value.as_str().unwrap_or_default();
        let detail = match name {
            _ if text.is_empty() => Some("must not be empty".to_owned()),
            "apiVersion" => {
                (text.matches('/').count() > 1).then(|| format!("unexpected GroupVersion string: {text}"))
            }
            _ => {
                let problems = names::dns1035_problems(&text.to_lowercase());
                let but = "may have mixed case, but should otherwise match: ";
                (!problems.is_empty()).then(|| format!("{but}{}", problems.join(",")))
            }
        };
        errors.extend(detail.map(|detail| FieldError::invalid(name, value, &detail)));
    }
    if object.contains_key("metadata") {
        errors.extend(metadata::validate_embedded(object));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Schema {
        let document = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
            "list": { "type": "array", "items": { "type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true } } } } } });
        Schema::root(&serde_json::from_value(document).unwrap()).unwrap()
    }

    fn of(item: &Value) -> Map<String, Value> {
        Map::from_iter([("spec".to_owned(), json!({ "list": [item] }))])
    }

    #[test]
    fn metadata_keeps_the_fields_that_it_has() {
        let mut object = of(&json!({ "metadata": { "name": "x", "unknown": 1, "labels": null } }));
        let mut unknown = Vec::new();
        schema().coerce_embedded(&mut object, &mut unknown).unwrap();
        assert_eq!(unknown, ["spec.list[0].metadata.unknown"]);
        assert_eq!(object, of(&json!({ "metadata": { "name": "x" } })));
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_path() {
        for (item, problem) in [
            (json!({ "kind": 5 }), "spec.list[0].kind: Invalid value: 5: must be a string"),
            (
                json!({ "metadata": 5 }),
                "spec.list[0].metadata: Invalid value: 5: spec.list[0].metadata must be of type object: \"integer\"",
            ),
        ] {
            let error = schema().coerce_embedded(&mut of(&item), &mut Vec::new()).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
    }

    #[test]
    fn a_resource_has_a_version_a_kind_and_good_metadata() {
        for (item, expected) in [
            (json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "Bad_Name" } }), ""),
            (json!({ "kind": "Pod" }), "spec.list[0].apiVersion: Required value"),
            (
                json!({ "apiVersion": "a/b/c", "kind": "Pod" }),
                "spec.list[0].apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            ),
            (
                json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a/b" } }),
                "spec.list[0].metadata.name: Invalid value: \"a/b\": may not contain '/'",
            ),
        ] {
            let found: Vec<String> =
                schema().validate_embedded(&of(&item)).iter().map(ToString::to_string).collect();
            assert_eq!(found.join("; "), expected, "{item}");
        }
    }
}
