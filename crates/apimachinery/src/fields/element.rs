//! One step of a path into an object, with its order and its two text forms.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};

use serde_json::{Number, Value};

/// What selects a child of an object or a list.
#[derive(Debug, Clone)]
pub enum Element {
    /// A field of an object.
    Field(String),
    /// The item of a keyed list that has these values, sorted by name.
    Key(Vec<(String, Value)>),
    /// The item of a set.
    Value(Value),
    /// The item at this place of a list.
    Index(i64),
}

impl Element {
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }

    /// Reads the form that stands in `fieldsV1`. `None`: of a type that is not known, to be ignored.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        if text.len() < 2 {
            return Err(format!("key must be 2 characters long: {text}"));
        }
        if text.as_bytes()[1] != b':' {
            return Err(format!("missing colon: {text}"));
        }
        let rest = text.get(2..).ok_or_else(|| format!("missing colon: {text}"))?;
        let value = || serde_json::from_str::<Value>(rest).map_err(|error| error.to_string());
        Ok(match text.as_bytes()[0] {
            b'f' => Some(Self::field(rest)),
            b'v' => Some(Self::Value(value()?)),
            b'k' => match value()? {
                // A map is sorted by name, as the order of elements wants it.
                Value::Object(keys) => Some(Self::Key(keys.into_iter().collect())),
                _ => return Err(format!("expected an object: {rest}")),
            },
            b'i' => Some(Self::Index(rest.parse().map_err(|_| format!("expected a number: {rest}"))?)),
            _ => None,
        })
    }

    /// Appends the form that stands in `fieldsV1`, as a JSON string with its quotes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Field(name) => write_field(name, out),
            other => {
                let mut text = String::new();
                match other {
                    Self::Field(_) => {}
                    Self::Key(keys) => {
                        text.push_str("k:{");
                        for (at, (name, value)) in keys.iter().enumerate() {
                            if at > 0 {
                                text.push(',');
                            }
                            text.push_str(&Value::from(name.as_str()).to_string());
                            text.push(':');
                            text.push_str(&go_json(value));
                        }
                        text.push('}');
                    }
                    Self::Value(value) => {
                        text.push_str("v:");
                        text.push_str(&go_json(value));
                    }
                    Self::Index(index) => {
                        text.push_str("i:");
                        text.push_str(&index.to_string());
                    }
                }
                // Writing a string to a vector does not fail.
                let _ = serde_json::to_writer(out, &text);
            }
        }
    }
}

/// As [`Element::write`] of a field, most of which need no escapes.
fn write_field(name: &str, out: &mut Vec<u8>) {
    if name.bytes().all(|byte| byte >= 0x20 && byte != b'"' && byte != b'\\') {
        out.extend_from_slice(b"\"f:");
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    } else {
        let _ = serde_json::to_writer(out, &format!("f:{name}"));
    }
}

/// JSON as Go writes it: with `<`, `>`, `&` and the two line separators escaped in strings.
fn go_json(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(c));
            }
            c => escaped.push(c),
        }
    }
    escaped
}

/// How a path stands in errors: `.spec`, `[name="x"]`, `[="x"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                f.write_str("[")?;
                for (at, (name, value)) in keys.iter().enumerate() {
                    if at > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{name}={}", Shown(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", Shown(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value as it stands in a path.
pub(crate) struct Shown<'a>(pub &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::String(text) => write!(f, "{text:?}"),
            Value::Bool(value) => write!(f, "{value}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Array(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{}", Shown(item))?;
                }
                f.write_str("]")
            }
            Value::Object(map) => {
                map.iter().try_for_each(|(name, value)| write!(f, "{name}={}", Shown(value)))
            }
        }
    }
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => compare_keys(a, b),
            (Self::Value(a), Self::Value(b)) => compare_values(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

fn compare_keys(a: &[(String, Value)], b: &[(String, Value)]) -> Ordering {
    for ((a_name, a_value), (b_name, b_value)) in a.iter().zip(b) {
        let order = a_name.cmp(b_name).then_with(|| compare_values(a_value, b_value));
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// A total order of values: numbers, strings, booleans, lists, maps, null. Numbers compare as numbers.
pub(crate) fn compare_values(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => compare_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            let orders = a.iter().zip(b).map(|(a, b)| compare_values(a, b));
            first_difference(orders).then_with(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let orders = a.iter().zip(b).map(|((a_name, a_value), (b_name, b_value))| {
                a_name.cmp(b_name).then_with(|| compare_values(a_value, b_value))
            });
            first_difference(orders).then_with(|| a.len().cmp(&b.len()))
        }
        (a, b) => rank(a).cmp(&rank(b)),
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
}

fn compare_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or_default();
            float(a).total_cmp(&float(b))
        }
    }
}

/// Whether two values are the same; 1 and 1.0 are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    a == b || compare_values(a, b) == Ordering::Equal
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(element: &Element) -> String {
        let mut out = Vec::new();
        element.write(&mut out);
        serde_json::from_slice(&out).unwrap()
    }

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
            r#"v:"a\u003cb\u0026""#,
        ] {
            assert_eq!(written(&Element::parse(text).unwrap().unwrap()), text);
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
            (Element::Value(json!("a")), r#"[="a"]"#),
            (Element::Index(2), "[2]"),
        ] {
            assert_eq!(element.to_string(), shown);
        }
    }

    #[test]
    fn numbers_are_ordered_as_numbers() {
        assert_eq!(compare_values(&json!(9), &json!(10)), Ordering::Less);
        assert_eq!(compare_values(&json!(1), &json!(1.0)), Ordering::Equal);
        assert!(same(&json!({ "a": [1.0] }), &json!({ "a": [1] })));
    }
}
