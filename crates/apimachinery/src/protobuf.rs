//! Reading core kinds from Kubernetes' protobuf.
//!
//! Typed Go clients (`kubectl create secret` among them) send it and do not fall back to JSON. Only bodies are
//! read; answers are JSON, which those clients accept. `protobuf/messages.txt` has the fields of what is read.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::bounds::MAX_DEPTH;

/// What every document starts with.
const MAGIC: &[u8] = b"k8s\0";

/// The name of the fields of a message of which one is meant.
const ANY: &str = "-";

/// The fields of a message, by their numbers.
type Message = HashMap<u64, Field>;

#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    count: Count,
    /// What it holds: a kind that `single` reads, or the name of a message.
    kind: &'static str,
}

/// How many values a field has.
#[derive(Clone, Copy)]
enum Count {
    One,
    List,
    /// A map from text.
    Map,
}

static MESSAGES: LazyLock<HashMap<&'static str, Message>> =
    LazyLock::new(|| messages(include_str!("protobuf/messages.txt")));

fn messages(text: &'static str) -> HashMap<&'static str, Message> {
    let mut messages: HashMap<_, Message> = HashMap::new();
    let mut current = "";
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some(number), Some(name), Some(kind)) => {
                let fields = messages.entry(current).or_default();
                fields.extend(number.parse().ok().map(|number| (number, Field::of(name, kind))));
            }
            (Some(name), ..) => {
                current = name;
                messages.entry(name).or_default();
            }
            _ => {}
        }
    }
    messages
}

impl Field {
    fn of(name: &'static str, kind: &'static str) -> Self {
        let (count, kind) = if let Some(kind) = kind.strip_prefix("[]") {
            (Count::List, kind)
        } else if let Some(kind) = kind.strip_prefix("map:") {
            (Count::Map, kind)
        } else {
            (Count::One, kind)
        };
        Self { name, count, kind }
    }
}

/// The document in `bytes` as JSON; `None` when it is malformed or of a kind that is not read this way.
pub fn decode(bytes: &[u8]) -> Option<Value> {
    let envelope = message(bytes.strip_prefix(MAGIC)?, MESSAGES.get("Envelope")?, MAX_DEPTH)?;
    let of = |field: &str| envelope.get("typeMeta")?.get(field)?.as_str();
    let (api_version, kind) = (of("apiVersion").unwrap_or_default(), of("kind").unwrap_or_default());
    let fields = match kind {
        "DeleteOptions" => MESSAGES.get(kind)?,
        _ => MESSAGES.get(format!("{api_version}/{kind}").as_str())?,
    };
    let raw = envelope.get("raw").and_then(Value::as_str).unwrap_or_default();
    let mut object = message(&STANDARD.decode(raw).ok()?, fields, MAX_DEPTH)?;
    object.insert("apiVersion".to_owned(), json!(api_version));
    object.insert("kind".to_owned(), json!(kind));
    Some(Value::Object(object))
}

/// A field as it stands in the bytes.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message that is at most so deep.
fn message(mut bytes: &[u8], fields: &Message, depth: usize) -> Option<Map<String, Value>> {
    let depth = depth.checked_sub(1)?;
    let mut object = Map::new();
    while !bytes.is_empty() {
        let (number, value) = field(&mut bytes)?;
        let Some(Field { name, count, kind }) = fields.get(&number) else { continue };
        match count {
            Count::List => {
                let items = object.entry(*name).or_insert_with(|| json!([])).as_array_mut()?;
                items.push(single(kind, &value, depth)?);
            }
            Count::Map => {
                let Wire::Bytes(entry) = value else { return None };
                let (key, value) = map_entry(entry, kind, depth)?;
                let entries = object.entry(*name).or_insert_with(|| json!({})).as_object_mut()?;
                entries.insert(key, value);
            }
            Count::One => {
                let value = single(kind, &value, depth)?;
                // Go writes every field of a message; what is empty there is absent here.
                let is_unset = match &value {
                    Value::String(text) => !matches!(*kind, "Given" | "Json") && text.is_empty(),
                    Value::Bool(is_set) => *kind == "Flag" && !is_set,
                    value => *kind == "Number" && *value == 0,
                };
                if !is_unset {
                    object.insert((*name).to_owned(), value);
                }
            }
        }
    }
    Some(object)
}

fn map_entry(entry: &[u8], kind: &'static str, depth: usize) -> Option<(String, Value)> {
    let field = |name, kind| Field { name, count: Count::One, kind };
    let fields = Message::from([(1, field("key", "Given")), (2, field("value", kind))]);
    let mut entry = message(entry, &fields, depth + 1)?;
    let empty = if MESSAGES.contains_key(kind) { json!({}) } else { json!("") };
    let key = entry.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some((key, entry.remove("value").unwrap_or(empty)))
}

/// A value of a field. `Given` is a text of a field that Go leaves out when it is not set: empty is a value. `Flag` and
/// `Number` are as `Bool` and `Int`, of fields that Go writes also when they are not set. `Json` is a message with JSON text
/// in its only field.
fn single(kind: &str, wire: &Wire<'_>, depth: usize) -> Option<Value> {
    match (kind, wire) {
        ("Text" | "Given", Wire::Bytes(text)) => Some(json!(std::str::from_utf8(text).ok()?)),
        ("Bytes", Wire::Bytes(bytes)) => Some(json!(STANDARD.encode(bytes))),
        ("Bool" | "Flag", Wire::Number(number)) => Some(json!(*number != 0)),
        ("Int" | "Number", Wire::Number(number)) => Some(json!(number.cast_signed())),
        ("Double", Wire::Bytes(bytes)) => double(bytes),
        ("Json", Wire::Bytes(bytes)) => {
            let read = message(bytes, MESSAGES.get("JsonText")?, depth)?;
            serde_json::from_str(read.get("raw").map_or(Some("null"), Value::as_str)?).ok()
        }
        ("Time" | "MicroTime", Wire::Bytes(bytes)) => {
            time(&message(bytes, MESSAGES.get("Timestamp")?, depth)?, kind == "MicroTime")
        }
        (_, Wire::Bytes(bytes)) => match kind.strip_prefix("one:") {
            Some(name) => one_of(bytes, MESSAGES.get(name)?, depth),
            None => message(bytes, MESSAGES.get(kind)?, depth).map(Value::Object),
        },
        (_, Wire::Number(_)) => None,
    }
}

/// A number as JSON has it: without a point where it is whole.
fn double(bytes: &[u8]) -> Option<Value> {
    let number = f64::from_le_bytes(bytes.try_into().ok()?);
    let text = number.to_string();
    text.parse::<i64>()
        .map(Value::from)
        .ok()
        .or_else(|| serde_json::Number::from_f64(number).map(Value::Number))
}

/// The fields of such a message stand in JSON under no name: of those that are there the one of the greatest number counts.
fn one_of(bytes: &[u8], fields: &Message, depth: usize) -> Option<Value> {
    let mut last = None;
    for number in 1..=fields.len() as u64 {
        let field = HashMap::from([(number, *fields.get(&number)?)]);
        last = message(bytes, &field, depth)?.remove(ANY).or(last);
    }
    last
}

/// Seconds and nanoseconds since 1970; an empty one is Go's zero time, which is absent.
fn time(read: &Map<String, Value>, micro: bool) -> Option<Value> {
    let Some(seconds) = read.get("seconds").and_then(Value::as_i64) else { return Some(json!("")) };
    let nanos = read.get("nanos").and_then(Value::as_i64).unwrap_or_default();
    let time = jiff::Timestamp::new(seconds, i32::try_from(nanos).ok()?).ok()?;
    let format = if micro { "%Y-%m-%dT%H:%M:%S.%6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Some(json!(time.strftime(format).to_string()))
}

/// Takes one field off the bytes.
fn field<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = varint(bytes)?;
    let wire = match tag & 7 {
        0 => Wire::Number(varint(bytes)?),
        1 => Wire::Bytes(take(bytes, 8)?),
        2 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            Wire::Bytes(take(bytes, length)?)
        }
        5 => Wire::Bytes(take(bytes, 4)?),
        _ => return None,
    };
    Some((tag >> 3, wire))
}

fn take<'a>(bytes: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::is_among;

    fn bytes_field(number: u8, value: &[u8]) -> Vec<u8> {
        let (tag, mut rest) = (number << 3 | 2, value.len());
        let mut out = vec![tag];
        while rest > 0x7f {
            out.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
            rest >>= 7;
        }
        out.push(u8::try_from(rest).unwrap());
        out.extend_from_slice(value);
        out
    }

    fn document() -> Vec<u8> {
        let type_meta = [bytes_field(1, b"v1"), bytes_field(2, b"Secret")].concat();
        let label = [bytes_field(1, b"k"), bytes_field(2, b"v")].concat();
        let metadata = [
            bytes_field(1, b"s"),
            bytes_field(2, b""),
            bytes_field(8, b""),
            bytes_field(11, &label),
            bytes_field(14, b"example.dev/f"),
        ];
        let entry = [bytes_field(1, b"token"), bytes_field(2, b"\x00\xff")].concat();
        let raw = [
            bytes_field(1, &metadata.concat()),
            bytes_field(2, &entry),
            bytes_field(3, b"Opaque"),
            vec![5 << 3, 1],
        ];
        [MAGIC.to_vec(), bytes_field(1, &type_meta), bytes_field(2, &raw.concat())].concat()
    }

    #[test]
    fn every_message_that_a_field_names_is_there() {
        for (name, fields) in &*MESSAGES {
            for field in fields.values() {
                let inner = field.kind.strip_prefix("one:").unwrap_or(field.kind);
                let plain = "Text Given Bool Flag Double Int Number Bytes Time MicroTime Json";
                let is_known = MESSAGES.contains_key(inner) || is_among(inner, plain);
                assert!(is_known, "{name}.{} is {inner}", field.name);
            }
        }
    }

    #[test]
    fn a_secret_of_a_typed_client_is_read() {
        assert_eq!(
            decode(&document()).unwrap(),
            json!({ "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true,
                "data": { "token": "AP8=" },
                "metadata": { "name": "s", "labels": { "k": "v" }, "finalizers": ["example.dev/f"] } })
        );
    }

    fn definition(schema: &[u8]) -> Vec<u8> {
        let type_meta =
            [bytes_field(1, b"apiextensions.k8s.io/v1"), bytes_field(2, b"CustomResourceDefinition")];
        let version = [
            bytes_field(1, b"v1"),
            vec![2 << 3, 1],
            vec![3 << 3, 1],
            bytes_field(4, &bytes_field(1, schema)),
        ];
        let spec = [bytes_field(1, b"example.com"), bytes_field(7, &version.concat()), vec![10 << 3, 0]];
        [MAGIC.to_vec(), bytes_field(1, &type_meta.concat()), bytes_field(2, &bytes_field(2, &spec.concat()))]
            .concat()
    }

    #[test]
    fn a_definition_of_a_generated_client_is_read() {
        let entry = [
            bytes_field(1, b"size"),
            bytes_field(
                2,
                &[bytes_field(5, b"integer"), {
                    let mut maximum = vec![9 << 3 | 1];
                    maximum.extend_from_slice(&7f64.to_le_bytes());
                    maximum
                }]
                .concat(),
            ),
        ];
        // `additionalProperties` of field 30 says that any are allowed; `nullable` of field 37 is not set.
        let additional = [vec![0xf2, 0x01, 2], vec![1 << 3, 1]].concat();
        let default = bytes_field(8, &bytes_field(1, br#"{"size":""}"#));
        let schema = [
            bytes_field(5, b"object"),
            [vec![0xea, 0x01, u8::try_from(entry.concat().len()).unwrap()], entry.concat()].concat(),
            default,
            additional,
            vec![0xa8, 0x02, 0],
        ];
        let read = decode(&definition(&schema.concat())).unwrap();
        assert_eq!(
            read["spec"],
            json!({ "group": "example.com", "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "default": { "size": "" },
                    "properties": { "size": { "type": "integer", "maximum": 7 } },
                    "additionalProperties": true } } }] })
        );
    }

    #[test]
    fn a_definition_that_is_too_deep_is_not_read() {
        let mut schema = bytes_field(5, b"object");
        while schema.len() < 10_000 {
            // `not` is field 28, whose tag takes two bytes.
            let not = bytes_field(28, &schema);
            schema = [&[0xe2, 0x01][..], &not[1..]].concat();
        }
        let document = definition(&schema);
        assert!(decode(&document).is_none());
    }

    #[test]
    fn an_empty_string_stays_where_it_is_a_value() {
        let data = [bytes_field(1, b"empty"), bytes_field(2, b"")].concat();
        let type_meta = [bytes_field(1, b"v1"), bytes_field(2, b"ConfigMap")].concat();
        let raw = bytes_field(2, &data);
        let map = [MAGIC.to_vec(), bytes_field(1, &type_meta), bytes_field(2, &raw)].concat();
        assert_eq!(decode(&map).unwrap()["data"], json!({ "empty": "" }));
        let type_meta = [bytes_field(1, b"coordination.k8s.io/v1"), bytes_field(2, b"Lease")].concat();
        let raw = bytes_field(2, &bytes_field(1, b""));
        let lease = [MAGIC.to_vec(), bytes_field(1, &type_meta), bytes_field(2, &raw)].concat();
        assert_eq!(decode(&lease).unwrap()["spec"], json!({ "holderIdentity": "" }));
    }

    #[test]
    fn a_document_that_is_cut_off_is_no_document() {
        let whole = document();
        for end in 0..whole.len() - 1 {
            // Where a field ends, a shorter document may be whole as well; none may panic.
            let _ = decode(&whole[..end]);
        }
        assert!(decode(&whole[..whole.len() - 1]).is_none());
        assert!(decode(b"{}").is_none());
        assert!(decode(&[MAGIC, &[0xff; 40]].concat()).is_none());
    }
}
