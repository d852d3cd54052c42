//! Structural schemas in the form that requests use: prune, default, validate.

mod defaults;
mod embedded;
mod node;
mod prune;
mod typed;
mod validate;

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use regex::Regex;
use serde_json::Value;

pub use self::validate::wrong_type;
use crate::cel::Rules;
use crate::definition::known_format;
use crate::field_error::FieldError;
pub use crate::json::push_index;
use crate::json::type_name;

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

/// Fields of an object that `properties` does not name.
#[derive(Debug)]
enum Additional {
    /// They are pruned.
    None,
    /// They are kept as they are.
    Any,
    /// They are values of this schema.
    Of(Box<Schema>),
}

/// One node of a structural schema.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "they are the schema's own independent flags")]
pub struct Schema {
    kind: Type,
    nullable: bool,
    preserve_unknown: bool,
    /// The value is a whole object: its apiVersion, kind and metadata are known.
    embedded: bool,
    properties: BTreeMap<String, Schema>,
    additional: Additional,
    items: Option<Box<Schema>>,
    required: Vec<String>,
    default: Option<Value>,
    /// Whether a default stands here or below: most of a schema has none and is skipped.
    has_defaults: bool,
    rules: Keywords,
    /// Whether an embedded object stands here or below.
    has_embedded: bool,
    /// Of a whole object: what its name has to be, beside what every name has to.
    name: Option<Box<Schema>>,
    /// Of a whole object that has rules in CEL: they, once they were first looked at.
    cel: Option<Box<Cel>>,
}

/// Rules in CEL, which most schemas have none of, and which take a while to compile.
#[derive(Debug)]
struct Cel {
    document: JSONSchemaProps,
    rules: OnceLock<Option<Rules>>,
}

/// What `validate` checks beside types.
#[derive(Debug, Default)]
struct Keywords {
    one_of_values: Option<Vec<Value>>,
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
    multiple_of: Option<f64>,
    min_length: Option<u64>,
    max_length: Option<u64>,
    pattern: Option<(String, Regex)>,
    format: Option<String>,
    min_items: Option<u64>,
    max_items: Option<u64>,
    unique_items: bool,
    list_type: ListType,
    min_properties: Option<u64>,
    max_properties: Option<u64>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
}

#[derive(Debug, Default)]
enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<String>),
}

impl Schema {
    /// The schema of a whole object. `metadata` is the server's own affair.
    pub fn root(document: &JSONSchemaProps) -> Result<Self, String> {
        let mut schema = Self::compile(document, "")?;
        schema.embedded = true;
        schema.cel =
            has_rules(document).then(|| Box::new(Cel { document: document.clone(), rules: OnceLock::new() }));
        schema.name = schema
            .properties
            .remove("metadata")
            .and_then(|mut metadata| metadata.properties.remove("name"))
            .map(Box::new);
        Ok(schema)
    }

    /// Whether CEL rules stand anywhere in the schema of a whole object.
    pub fn has_rules(&self) -> bool {
        self.cel.is_some()
    }

    /// Whether rules in CEL are to be looked at after this change of a whole object. They are the first time, when they are
    /// compiled as well.
    pub fn has_due_rules(&self, new: &Value, old: Option<&Value>) -> bool {
        let is_due = |rules: Option<&Rules>| rules.is_none_or(|rules| rules.is_due(new, old));
        self.cel.as_ref().is_some_and(|cel| is_due(cel.rules.get().and_then(Option::as_ref)))
    }

    /// What the rules in CEL refuse of a whole object, as [`Rules::check`] says. Blocks for as long as that.
    pub fn check_rules(&self, new: &Value, old: Option<&Value>, within: Duration) -> Vec<FieldError> {
        let Some(cel) = &self.cel else { return Vec::new() };
        // Only what an older version of this server took for a schema has rules that cannot be compiled.
        match cel.rules.get_or_init(|| Rules::compile(&cel.document, "").ok().flatten()) {
            Some(rules) => rules.check(new, old, within),
            None => vec![FieldError::forbidden("<nil>", "the definition has rules that cannot be compiled")],
        }
    }

    /// Whether the object has this field at its top.
    pub fn has_property(&self, name: &str) -> bool {
        self.properties.contains_key(name)
    }

    /// The schema of a field: its own, or that of any that is not named.
    fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Of(schema) => Some(schema),
            Additional::None | Additional::Any => None,
        })
    }

    fn compile(document: &JSONSchemaProps, path: &str) -> Result<Self, String> {
        let at = |problem: &str| format!("{}: {problem}", if path.is_empty() { "schema" } else { path });
        if document.ref_path.is_some() {
            return Err(at("$ref is not allowed in a structural schema"));
        }
        let kind = match document.type_.as_deref() {
            _ if document.x_kubernetes_int_or_string == Some(true) => Type::IntOrString,
            None => Type::Any,
            Some("object") => Type::Object,
            Some("array") => Type::Array,
            Some("string") => Type::String,
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            Some("boolean") => Type::Boolean,
            Some(other) => return Err(at(&format!("type {other:?} is not known"))),
        };
        let mut properties = BTreeMap::new();
        for (name, property) in document.properties.iter().flatten() {
            properties.insert(name.clone(), Self::compile(property, &format!("{path}.{name}"))?);
        }
        let additional = match &document.additional_properties {
            None | Some(JSONSchemaPropsOrBool::Bool(false)) => Additional::None,
            Some(JSONSchemaPropsOrBool::Bool(true)) => Additional::Any,
            Some(JSONSchemaPropsOrBool::Schema(schema)) => {
                Additional::Of(Box::new(Self::compile(schema, &format!("{path}.*"))?))
            }
        };
        let items = match &document.items {
            None => None,
            Some(JSONSchemaPropsOrArray::Schema(schema)) => {
                Some(Box::new(Self::compile(schema, &format!("{path}[*]"))?))
            }
            Some(JSONSchemaPropsOrArray::Schemas(_)) => {
                return Err(at("a list of item schemas is not structural"));
            }
        };
        let default = document.default.as_ref().map(|json| json.0.clone());
        let embedded = document.x_kubernetes_embedded_resource == Some(true);
        let values = if let Additional::Of(schema) = &additional { Some(&**schema) } else { None };
        let within = || properties.values().chain(items.as_deref()).chain(values);
        let has_defaults = default.is_some() || within().any(|schema: &Self| schema.has_defaults);
        let has_embedded = embedded || within().any(|schema: &Self| schema.has_embedded);
        Ok(Self {
            kind,
            nullable: document.nullable == Some(true),
            preserve_unknown: document.x_kubernetes_preserve_unknown_fields == Some(true),
            embedded,
            has_embedded,
            properties,
            additional,
            items,
            required: document.required.clone().unwrap_or_default(),
            default,
            has_defaults,
            rules: Keywords::compile(document, path)?,
            name: None,
            cel: None,
        })
    }
}

/// Whether CEL rules stand in a schema or below.
fn has_rules(document: &JSONSchemaProps) -> bool {
    let below = |schema: &JSONSchemaProps| has_rules(schema);
    document.x_kubernetes_validations.as_ref().is_some_and(|rules| !rules.is_empty())
        || document.properties.iter().flatten().any(|(_name, property)| below(property))
        || matches!(&document.items, Some(JSONSchemaPropsOrArray::Schema(items)) if below(items))
        || matches!(&document.additional_properties, Some(JSONSchemaPropsOrBool::Schema(values)) if below(values))
}

impl Keywords {
    fn compile(document: &JSONSchemaProps, path: &str) -> Result<Self, String> {
        let all = |schemas: &Option<Vec<JSONSchemaProps>>| -> Result<Vec<Schema>, String> {
            schemas.iter().flatten().map(|schema| Schema::compile(schema, path)).collect()
        };
        let count = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let pattern = match &document.pattern {
            None => None,
            Some(text) => {
                let regex = Regex::new(text).map_err(|error| format!("{path}: pattern {text:?}: {error}"))?;
                Some((text.clone(), regex))
            }
        };
        Ok(Self {
            one_of_values: document
                .enum_
                .as_ref()
                .map(|values| values.iter().map(|json| json.0.clone()).collect()),
            minimum: document.minimum.map(|bound| (bound, document.exclusive_minimum == Some(true))),
            maximum: document.maximum.map(|bound| (bound, document.exclusive_maximum == Some(true))),
            multiple_of: document.multiple_of,
            min_length: count(document.min_length),
            max_length: count(document.max_length),
            pattern,
            // Others are documentation.
            format: document
                .format
                .clone()
                .filter(|format| known_format(document.type_.as_deref().unwrap_or_default(), format)),
            min_items: count(document.min_items),
            max_items: count(document.max_items),
            unique_items: document.unique_items == Some(true),
            list_type: match document.x_kubernetes_list_type.as_deref() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(document.x_kubernetes_list_map_keys.clone().unwrap_or_default()),
                _ => ListType::Atomic,
            },
            min_properties: count(document.min_properties),
            max_properties: count(document.max_properties),
            all_of: all(&document.all_of)?,
            any_of: all(&document.any_of)?,
            one_of: all(&document.one_of)?,
            not: match &document.not {
                None => None,
                Some(schema) => Some(Box::new(Schema::compile(schema, path)?)),
            },
        })
    }
}
