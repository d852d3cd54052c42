//! One pass from bytes to a JSON value that notices keys which stand twice in one object.
//!
//! `serde_json::Value` lets the last of them win, silently; kube-apiserver does the same but says so.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::bounds::may_be_told;

/// A parsed document, and what strict decoding has to say of its text: which keys stand twice.
#[derive(Debug)]
pub struct Parsed {
    /// What was read; of a key that stands twice, the last.
    pub value: Value,
    /// The keys that stand twice.
    pub problems: Vec<String>,
}

/// Reads a document, of whatever depth `serde_json` reads.
pub fn parse(bytes: &[u8]) -> Result<Parsed, serde_json::Error> {
    match parse_strict(bytes) {
        Ok(parsed) => Ok(parsed),
        // Go replaces what is no Unicode instead of refusing it.
        Err(error) => match unicode(bytes) {
            Some(bytes) => parse_strict(&bytes),
            None => Err(error),
        },
    }
}

fn parse_strict(bytes: &[u8]) -> Result<Parsed, serde_json::Error> {
    let twice = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Seed::<String>::new(&twice).deserialize(&mut reader)?;
    reader.end()?;
    Ok(Parsed { value, problems: twice.into_inner() })
}

/// The document with U+FFFD in place of each byte that is no UTF-8 and of each half of a surrogate pair; `None` when
/// it has neither.
fn unicode(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut changed = matches!(text, std::borrow::Cow::Owned(_));
    let unit = |at: usize| {
        let escape = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let mut taken = c.len_utf8();
        if c == '\\' {
            taken = match (unit(at), unit(at + 6)) {
                (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => 12,
                (Some(0xd800..0xe000), _) => {
                    changed = true;
                    out.push('\u{fffd}');
                    at += 6;
                    continue;
                }
                // The escaped character, so that an escaped backslash starts no escape.
                _ => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
            };
        }
        out.push_str(&text[at..at + taken]);
        at += taken;
    }
    changed.then(|| out.into_bytes())
}

/// A number as Go keeps it: whole when it can be, of 64 bits with a sign.
fn whole(number: f64) -> Option<Number> {
    // Display writes the shortest digits that read as the same number, and no exponent.
    (number.fract() == 0.0).then(|| number.to_string().parse::<i128>().ok())?.and_then(|number| {
        i64::try_from(number).map(Number::from).or_else(|_| u64::try_from(number).map(Number::from)).ok()
    })
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Where the parser is: a list on the stack, so that a document without duplicates costs no allocation.
pub struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Key(key) if self.parent.is_some() => write!(f, ".{key}"),
            Step::Key(key) => f.write_str(key),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Reads a document, and says which keys of one mapping stand twice.
pub struct Seed<'a, K> {
    path: Option<&'a Path<'a>>,
    twice: &'a RefCell<Vec<String>>,
    key: PhantomData<K>,
}

/// A key, as the parser of a format gives it.
pub trait Key: DeserializeOwned {
    /// Its text.
    fn text(&self) -> &str;

    /// Its text, for good.
    fn into_text(self) -> String;

    /// What is to be said of a key that stood at this place before.
    fn twice(&self, path: &Path<'_>) -> String;
}

impl Key for String {
    fn text(&self) -> &str {
        self
    }

    fn into_text(self) -> String {
        self
    }

    fn twice(&self, path: &Path<'_>) -> String {
        format!("duplicate field \"{path}\"")
    }
}

impl<'a, K> Seed<'a, K> {
    /// Of a whole document; what is to be said goes to `twice`.
    pub fn new(twice: &'a RefCell<Vec<String>>) -> Self {
        Self { path: None, twice, key: PhantomData }
    }
}

impl<'de, K: Key> DeserializeSeed<'de> for Seed<'_, K> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, K: Key> Visitor<'de> for Seed<'_, K> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        if i64::try_from(value).is_ok() {
            return Ok(Value::Number(value.into()));
        }
        Ok(Value::Number(whole(value as f64).unwrap_or_else(|| value.into())))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        whole(value)
            .or_else(|| Number::from_f64(value))
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = Path { parent: self.path, step: Step::Index(items.len()) };
            match seq.next_element_seed(Seed::<K> { path: Some(&path), ..Seed::new(self.twice) })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<K>()? {
            let path = Path { parent: self.path, step: Step::Key(key.text()) };
            let value = map.next_value_seed(Seed::<K> { path: Some(&path), ..Seed::new(self.twice) })?;
            if object.contains_key(key.text()) {
                let mut twice = self.twice.borrow_mut();
                if may_be_told(&twice) {
                    twice.push(key.twice(&path));
                }
            }
            object.insert(key.into_text(), value);
        }
        Ok(Value::Object(object))
    }
}

/// Appends `[index]` to a field's path.
pub fn push_index(path: &mut String, index: usize) {
    path.push('[');
    path.push_str(&index.to_string());
    path.push(']');
}

/// The name of a JSON value's type, as validation errors say it.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if !number.is_i64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_what_serde_json_reads() {
        let text = r#"{"a":[1,-2,2.5,"x",null,true],"b":{"c":{}}}"#;
        let parsed = parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.value, serde_json::from_str::<Value>(text).unwrap());
        assert!(parsed.problems.is_empty());
    }

    #[test]
    fn numbers_are_kept_as_go_keeps_them() {
        let parsed = parse(b"[1.0, 1e3, -0, 0.5, 9223372036854775808, 1e300]").unwrap();
        assert_eq!(parsed.value.to_string(), "[1,1000,0,0.5,9223372036854776000,1e+300]");
    }

    #[test]
    fn numbers_are_read_to_their_last_digit() {
        let parsed = parse(b"[123456789012345680000, 0.1, 1.7976931348623157e308]").unwrap();
        assert_eq!(parsed.value.to_string(), "[1.2345678901234568e+20,0.1,1.7976931348623157e+308]");
    }

    #[test]
    fn what_is_no_unicode_is_replaced() {
        let parsed = parse(b"[\"a\xffb\", \"\\ud83d x\", \"\\ud83d\\ude00\", \"\\\\ud83d\"]").unwrap();
        assert_eq!(parsed.value, serde_json::json!(["a\u{fffd}b", "\u{fffd} x", "\u{1f600}", "\\ud83d"]));
    }

    #[test]
    fn duplicate_keys_are_named_and_the_last_wins() {
        let parsed = parse(br#"{"spec":{"a":1,"a":2,"l":[{"x":1},{"y":1,"y":3}]}}"#).unwrap();
        assert_eq!(parsed.problems, ["duplicate field \"spec.a\"", "duplicate field \"spec.l[1].y\""]);
        assert_eq!(parsed.value["spec"]["a"], 2);
    }

    #[test]
    fn trailing_text_and_bottomless_nesting_are_errors() {
        assert!(parse(b"{} x").is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
