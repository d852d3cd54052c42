//! Judging a value by its schema, with kube-apiserver's words.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Number, Value};

use super::{ListType, Schema, Type, push_index, type_name};
use crate::field_error::FieldError;

/// Nothing more is looked for once so much is wrong.
const MAX_ERRORS: usize = 100;

impl Schema {
    /// What is wrong with an object.
    pub fn validate(&self, object: &Map<String, Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.check_object(object, None, &mut String::new(), &mut errors);
        errors
    }

    /// What is wrong with the name of a whole object.
    pub fn validate_name(&self, object: &Map<String, Value>) -> Vec<FieldError> {
        let name = object.get("metadata").map(|metadata| &metadata["name"]).filter(|name| !name.is_null());
        let mut errors = Vec::new();
        if let (Some(schema), Some(name)) = (&self.name, name) {
            schema.check(name, None, &mut "metadata.name".to_owned(), &mut errors);
        }
        errors
    }

    /// As [`Self::validate`], of a changed object: what is wrong with a value that did not change is let through.
    pub fn validate_change(&self, old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        self.check_object(new, Some(old), &mut String::new(), &mut errors);
        errors
    }

    /// As [`Self::validate_change`], of the status alone. A real server has a schema of its own for it, whose names start
    /// there.
    pub fn validate_status(&self, old: &Map<String, Value>, new: &Map<String, Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let (Some(schema), Some(status)) = (self.properties.get("status"), new.get("status")) {
            schema.check(status, old.get("status"), &mut String::new(), &mut errors);
        }
        errors.into_iter().map(|error| error.under("status")).collect()
    }

    /// Checks a value; `old` is what stood in its place before.
    pub(super) fn check(
        &self,
        value: &Value,
        old: Option<&Value>,
        path: &mut String,
        errors: &mut Vec<FieldError>,
    ) {
        let before = errors.len();
        if before >= MAX_ERRORS {
            return;
        }
        self.check_new(value, old, path, errors);
        if errors.len() > before && old == Some(value) {
            errors.truncate(before);
        }
    }

    fn check_new(&self, value: &Value, old: Option<&Value>, path: &mut String, errors: &mut Vec<FieldError>) {
        if value.is_null() && self.nullable {
            return;
        }
        errors.extend(self.type_error(value, path));
        if let Some(allowed) = &self.rules.one_of_values
            && !allowed.contains(value)
        {
            let allowed: Vec<String> = allowed
                .iter()
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .collect();
            errors.push(FieldError::not_supported(path.clone(), value, &allowed));
        }
        match value {
            // Nothing more is to be said of it.
            Value::Null => return,
            Value::Object(object) => self.check_object(object, old.and_then(Value::as_object), path, errors),
            Value::Array(items) => self.check_array(value, items, old, path, errors),
            Value::String(text) => self.check_string(text, path, errors),
            Value::Number(number) => {
                errors.extend(self.range_error(number, path));
                if let Some(number) = number.as_f64() {
                    self.check_number(value, number, path, errors);
                }
            }
            Value::Bool(_) => {}
        }
        self.check_combinations(value, path, errors);
    }

    /// What is said of a value that has not the type of the schema: by the format, where there is one.
    fn type_error(&self, value: &Value, path: &str) -> Option<FieldError> {
        let types: &[&str] = match self.kind {
            Type::Any => return None,
            Type::Object => &["object"],
            Type::Array => &["array"],
            Type::String => &["string"],
            Type::Integer => &["integer"],
            Type::Number => &["number"],
            Type::Boolean => &["boolean"],
            Type::IntOrString => &["integer", "string"],
        };
        let found = match value {
            Value::Number(number) if whole(number).is_some() => "integer",
            Value::Number(_) => "number",
            other => type_name(other),
        };
        let nearly =
            |value: &Value| value.as_f64().is_some_and(|number| number.abs() <= SAFE && is_integer(number));
        if types.contains(&found)
            || (found == "integer" && types.contains(&"number"))
            || (found == "number" && types.contains(&"integer") && nearly(value))
        {
            return None;
        }
        let format = match found {
            "null" | "string" | "array" => None,
            _ => self.rules.format.as_deref(),
        };
        Some(match format {
            None => wrong_type_of(path, &types.join(","), found),
            Some(format) => {
                let found = match found {
                    "integer" => "int64",
                    "number" => "float64",
                    _ => "",
                };
                wrong_type_of(path, format, found)
            }
        })
    }

    /// What is said of a number that the schema's type cannot hold.
    fn range_error(&self, number: &Number, path: &str) -> Option<FieldError> {
        let format = self.rules.format.as_deref();
        let (fits, name) = match (self.kind, format) {
            (Type::Integer, Some("int32")) => {
                (whole(number).is_some_and(|number| i32::try_from(number).is_ok()), "integer")
            }
            (Type::Integer, _) => (whole(number).is_some(), "integer"),
            (Type::Number, Some("float")) => {
                (number.as_f64().is_none_or(|number| number.abs() <= f64::from(f32::MAX)), "number")
            }
            _ => (true, ""),
        };
        let format =
            format.map_or_else(|| "(default format)".to_owned(), |format| format!("with format {format}"));
        let detail = format!("Checked value must be of type {name} {format} in {path}");
        (!fits).then(|| FieldError::invalid("<nil>", &Value::String(String::new()), &detail))
    }

    /// The type that was expected, if the value has another.
    pub(super) fn mismatch(&self, value: &Value) -> Option<&'static str> {
        let whole = |value: &Value| {
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
        };
        let (fits, name) = match self.kind {
            Type::Any => (true, ""),
            Type::Object => (value.is_object(), "object"),
            Type::Array => (value.is_array(), "array"),
            Type::String => (value.is_string(), "string"),
            Type::Integer => (whole(value), "integer"),
            Type::Number => (value.is_number(), "number"),
            Type::Boolean => (value.is_boolean(), "boolean"),
            Type::IntOrString => (whole(value) || value.is_string(), "integer,string"),
        };
        (!fits).then_some(name)
    }

    fn check_object(
        &self,
        object: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
        path: &mut String,
        errors: &mut Vec<FieldError>,
    ) {
        for name in &self.required {
            if !object.contains_key(name) {
                errors.push(FieldError::required(joined(path, name), ""));
            }
        }
        for (name, value) in object {
            let Some(schema) = self.field(name) else { continue };
            let length = path.len();
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
            schema.check(value, old.and_then(|old| old.get(name)), path, errors);
            path.truncate(length);
        }
        let length = object.len() as u64;
        if let Some(min) = self.rules.min_properties.filter(|min| length < *min) {
            let detail = format!("{path} in body should have at least {min} properties");
            errors.push(FieldError::invalid(path.clone(), &length.into(), &detail));
        }
        if let Some(max) = self.rules.max_properties.filter(|max| length > *max) {
            errors.push(FieldError::too_many(path.clone(), object.len(), max));
        }
    }

    fn check_array(
        &self,
        value: &Value,
        items: &[Value],
        old: Option<&Value>,
        path: &mut String,
        errors: &mut Vec<FieldError>,
    ) {
        if let Some(schema) = &self.items {
            // The items of the old list by their keys.
            let keys_of = |item| -> Vec<Option<&Value>> {
                let ListType::Map(keys) = &self.rules.list_type else { return Vec::new() };
                keys.iter().map(|key| Value::get(item, key)).collect()
            };
            let mut counterparts = HashMap::new();
            if let (ListType::Map(_), Some(Value::Array(old))) = (&self.rules.list_type, old) {
                for item in old {
                    counterparts.entry(keys_of(item)).or_insert(item);
                }
            }
            for (index, item) in items.iter().enumerate() {
                let length = path.len();
                push_index(path, index);
                let before =
                    if counterparts.is_empty() { None } else { counterparts.get(&keys_of(item)).copied() };
                schema.check(item, before, path, errors);
                path.truncate(length);
            }
        }
        let length = items.len() as u64;
        if let Some(min) = self.rules.min_items.filter(|min| length < *min) {
            let detail = format!("{path} in body should have at least {min} items");
            errors.push(FieldError::invalid(path.clone(), &length.into(), &detail));
        }
        if let Some(max) = self.rules.max_items.filter(|max| length > *max) {
            errors.push(FieldError::too_many(path.clone(), items.len(), max));
        }
        let mut seen = HashSet::new();
        if self.rules.unique_items && !items.iter().all(|item| seen.insert(item)) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            errors.push(FieldError::invalid(path.clone(), value, &detail));
        }
        match &self.rules.list_type {
            ListType::Atomic => {}
            ListType::Set => errors.extend(duplicates(items, path)),
            ListType::Map(keys) => {
                let other = items.iter().position(|item| !item.is_object() && !item.is_null());
                if let Some(index) = other {
                    let detail = "must be an object for an array of list-type map";
                    errors.push(FieldError::invalid(format!("{path}[{index}]"), &items[index], detail));
                    return;
                }
                let key = |item: &Value| -> Value {
                    keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone()))).collect()
                };
                errors.extend(duplicates(&items.iter().map(key).collect::<Vec<_>>(), path));
            }
        }
    }

    fn check_string(&self, text: &str, path: &str, errors: &mut Vec<FieldError>) {
        let value = || Value::String(text.to_owned());
        let length = text.chars().count() as u64;
        // The first of these is said, not all.
        if let Some(max) = self.rules.max_length.filter(|max| length > *max) {
            errors.push(FieldError::too_long(path, max));
        } else if let Some(min) = self.rules.min_length.filter(|min| length < *min) {
            let detail = format!("{path} in body should be at least {min} chars long");
            errors.push(FieldError::invalid(path, &value(), &detail));
        } else if let Some((pattern, regex)) = &self.rules.pattern
            && !regex.is_match(text)
        {
            let detail = format!("{path} in body should match '{pattern}'");
            errors.push(FieldError::invalid(path, &value(), &detail));
        }
        if let Some(format) = &self.rules.format
            && !has_format(text, format)
        {
            let detail = format!("{path} in body must be of type {format}: {text:?}");
            errors.push(FieldError::wrong_type(path, text, &detail));
        }
    }

    fn check_number(&self, value: &Value, number: f64, path: &str, errors: &mut Vec<FieldError>) {
        let sides = [
            (self.rules.minimum, Some(Ordering::Less), "greater"),
            (self.rules.maximum, Some(Ordering::Greater), "less"),
        ];
        for (bound, beyond, side) in sides {
            let Some((bound, exclusive)) = bound else { continue };
            let found = number.partial_cmp(&bound);
            if found == beyond || (exclusive && found == Some(Ordering::Equal)) {
                let or_equal = if exclusive { "" } else { " or equal to" };
                let detail = format!("{path} in body should be {side} than{or_equal} {bound}");
                errors.push(FieldError::invalid(path, value, &detail));
            }
        }
        let is_multiple =
            |factor: f64| is_integer(if factor < 1.0 { 1.0 / factor * number } else { number / factor });
        if let Some(factor) = self.rules.multiple_of.filter(|factor| !is_multiple(*factor)) {
            let detail = format!("{path} in body should be a multiple of {factor}");
            errors.push(FieldError::invalid(path, value, &detail));
        }
    }

    fn check_combinations(&self, value: &Value, path: &mut String, errors: &mut Vec<FieldError>) {
        let rules = &self.rules;
        for schema in &rules.all_of {
            schema.check(value, None, path, errors);
        }
        let problems = |schema: &Schema| {
            let mut errors = Vec::new();
            schema.check(value, None, &mut path.clone(), &mut errors);
            errors
        };
        // How many fit, and what is wrong with the one that fits best.
        let fitting = |schemas: &[Schema]| {
            let all: Vec<Vec<FieldError>> = schemas.iter().map(problems).collect();
            let count = all.iter().filter(|errors| errors.is_empty()).count();
            (count, all.into_iter().min_by_key(Vec::len).unwrap_or_default())
        };
        // Of the whole value, which the real server does not name as a field.
        let mut refuse = |failure: &str, best: Vec<FieldError>| {
            let detail = format!("{path:?} {failure}");
            errors.push(FieldError::invalid("<nil>", &Value::String(String::new()), &detail));
            errors.extend(best);
        };
        if !rules.any_of.is_empty()
            && let (0, best) = fitting(&rules.any_of)
        {
            refuse("must validate at least one schema (anyOf)", best);
        }
        if !rules.one_of.is_empty() {
            match fitting(&rules.one_of) {
                (1, _) => {}
                (0, best) => refuse("must validate one and only one schema (oneOf). Found none valid", best),
                (count, _) => {
                    let failure = format!(
                        "must validate one and only one schema (oneOf). Found {count} valid alternatives"
                    );
                    refuse(&failure, Vec::new());
                }
            }
        }
        if rules.not.as_ref().is_some_and(|not| problems(not).is_empty()) {
            refuse("must not validate the schema (not)", Vec::new());
        }
    }
}

/// The error of a value that has not the expected type. Names the type that it has, never the value.
pub fn wrong_type(path: &str, expected: &str, value: &Value) -> FieldError {
    wrong_type_of(path, expected, type_name(value))
}

fn wrong_type_of(path: &str, expected: &str, found: &str) -> FieldError {
    let detail = format!("{path} in body must be of type {expected}: {found:?}");
    FieldError::wrong_type(path, found, &detail)
}

/// The values that stood in a list before; each is told once.
fn duplicates(items: &[Value], path: &str) -> Vec<FieldError> {
    let mut seen: HashMap<&Value, u8> = HashMap::with_capacity(items.len());
    let mut errors = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let count = seen.entry(item).or_default();
        *count = count.saturating_add(1);
        if *count == 2 && errors.len() < MAX_ERRORS {
            errors.push(FieldError::duplicate(format!("{path}[{index}]"), item));
        }
    }
    errors
}

/// Beyond this not every whole number is one of 64 bits.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// A number of 64 bits with a sign, as Go keeps it.
fn whole(number: &Number) -> Option<i64> {
    number.as_i64().or_else(|| {
        let number = number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 9.2e18)?;
        number.to_string().parse().ok()
    })
}

/// Whether a number is whole, but for the error of a computation.
fn is_integer(number: f64) -> bool {
    let difference = (number - number.trunc()).abs();
    difference == 0.0 || (number.trunc() != 0.0 && difference / (number.abs() + number.trunc().abs()) < 1e-9)
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// The formats that kube-apiserver enforces and our kinds use; others are documentation.
pub(super) fn has_format(text: &str, format: &str) -> bool {
    match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "uuid" => uuid::Uuid::try_parse(text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        "uri" => {
            let starts = text.starts_with('/')
                || text.split_once(':').is_some_and(|(scheme, _)| {
                    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
                });
            starts && !text.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
        }
        "email" => text.rsplit_once('@').is_some_and(|(name, host)| {
            !name.is_empty() && !host.is_empty() && !text.contains(char::is_whitespace)
        }),
        "byte" => {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.decode(text).is_ok()
        }
        _ => true,
    }
}
