//! One pass from bytes to a JSON value that notices keys which stand twice in one object.
//!
//! `serde_json::Value` lets the last of them win, silently; kube-apiserver does the same but says so.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A parsed document and the paths of its duplicate keys (`spec.foo`, `items[0].bar`).
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Parsed, serde_json::Error> {
    let duplicates = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Seed { path: None, duplicates: &duplicates }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Parsed { value, duplicates: duplicates.into_inner() })
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

/// Where the parser is: a list on the stack, so that a document without duplicates costs no allocation.
struct Path<'a> {
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

struct Seed<'a> {
    path: Option<&'a Path<'a>>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
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

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = Path { parent: self.path, step: Step::Index(items.len()) };
            match seq.next_element_seed(Seed { path: Some(&path), duplicates: self.duplicates })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = Path { parent: self.path, step: Step::Key(&key) };
            let value = map.next_value_seed(Seed { path: Some(&path), duplicates: self.duplicates })?;
            if object.contains_key(&key) {
                self.duplicates.borrow_mut().push(path.to_string());
            }
            object.insert(key, value);
        }
        Ok(Value::Object(object))
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
        assert!(parsed.duplicates.is_empty());
    }

    #[test]
    fn duplicate_keys_are_named_and_the_last_wins() {
        let parsed = parse(br#"{"spec":{"a":1,"a":2,"l":[{"x":1},{"y":1,"y":3}]}}"#).unwrap();
        assert_eq!(parsed.duplicates, ["spec.a", "spec.l[1].y"]);
        assert_eq!(parsed.value["spec"]["a"], 2);
    }

    #[test]
    fn trailing_text_and_bottomless_nesting_are_errors() {
        assert!(parse(b"{} x").is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }
}
