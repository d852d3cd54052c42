//! One step of a path into an object, with its two text forms.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// What selects a child of an object or a list. Keys and values are kept as their JSON, which is the same for equal ones.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of an object.
    Field(String),
    /// The item of a keyed list that has these values: an object.
    Key(String),
    /// The item of a set.
    Value(String),
    /// The item at this place of a list.
    Index(i64),
}

impl Element {
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Reads the form that stands in `fieldsV1`. `None`: of a type that is not known, to be ignored.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let (kind, rest) =
            text.split_once(':').ok_or_else(|| format!("expected a letter and a colon: {text}"))?;
        let wrong = |error: &dyn fmt::Display| format!("{text}: {error}");
        Ok(Some(match kind {
            "f" => Self::field(rest),
            "v" => Self::Value(rest.parse::<Value>().map_err(|error| wrong(&error))?.to_string()),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).map_err(|error| wrong(&error))?;
                Self::Key(Value::Object(keys).to_string())
            }
            "i" => Self::Index(rest.parse().map_err(|error| wrong(&error))?),
            _ => return Ok(None),
        }))
    }
}

/// The form that stands in `fieldsV1`.
impl Serialize for Element {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Field(name) => serializer.collect_str(&format_args!("f:{name}")),
            Self::Key(keys) => serializer.collect_str(&format_args!("k:{keys}")),
            Self::Value(value) => serializer.collect_str(&format_args!("v:{value}")),
            Self::Index(index) => serializer.collect_str(&format_args!("i:{index}")),
        }
    }
}

/// How a path stands in errors: `.spec`, `[name="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
                let shown: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", shown.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_read_what_they_write() {
        for text in [
            "f:spec",
            "f:a\"b\\c",
            "f:",
            r#"k:{"name":"x","port":80}"#,
            r#"v:"a""#,
            "v:1",
            "v:1.5",
            "v:true",
            "i:3",
        ] {
            assert_eq!(json!(Element::parse(text).unwrap().unwrap()), text);
        }
        assert!(Element::parse("x:1").unwrap().is_none());
        for text in ["", "f", "fx", "i:x", "k:[]", "v:{"] {
            assert!(Element::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn elements_are_shown_as_go_shows_them() {
        for (element, shown) in [
            (Element::field("spec"), ".spec"),
            (Element::parse(r#"k:{"port":80,"name":"x"}"#).unwrap().unwrap(), r#"[name="x",port=80]"#),
            (Element::parse(r#"v:"a""#).unwrap().unwrap(), r#"[="a"]"#),
            (Element::Index(2), "[2]"),
        ] {
            assert_eq!(element.to_string(), shown);
        }
    }
}
