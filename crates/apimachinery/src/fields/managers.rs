//! `metadata.managedFields`: who owns which fields of an object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::set::Set;

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operation {
    /// A server-side apply.
    Apply,
    /// Any other write.
    Update,
}

/// Who writes, through which version and sub-resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Writer {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version that it writes.
    pub api_version: String,
    /// Empty for the object itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
}

impl Writer {
    /// Whether this is one manager under one heading: one that applies is, whatever the version.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

/// The fields of one manager.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    #[serde(flatten)]
    pub writer: Writer,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<Timestamp>,
    fields_type: FieldsType,
    #[serde(rename = "fieldsV1", default)]
    pub(super) set: Set,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum FieldsType {
    FieldsV1,
}

/// All managers of an object.
#[derive(Debug, Clone, Default)]
pub struct Managers {
    pub(super) entries: Vec<Entry>,
}

/// At most this many managers are taken from a client.
const MAX_SENT: usize = 500;

/// At most this many managers that update are kept apart.
const MAX_UPDATERS: usize = 10;
const OLD_UPDATES: &str = "ancient-changes";

/// Whether a client asks to forget all managers: by an empty list, or by one empty entry.
pub fn is_reset(entries: &Value) -> bool {
    match entries.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(one)]) => one.values().all(Value::is_null),
        _ => false,
    }
}

impl Managers {
    /// Whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Reads the form on the wire; `None` when it is none.
    pub fn decode(entries: &Value) -> Option<Self> {
        let entries = Vec::<Entry>::deserialize(entries).ok()?;
        if entries.len() > MAX_SENT || entries.iter().any(|entry| entry.writer.api_version.is_empty()) {
            return None;
        }
        let mut managers = Self::default();
        for entry in entries {
            // Of two of the same name the last one counts.
            managers.take(&entry.writer);
            managers.entries.push(entry);
        }
        Some(managers)
    }

    /// As [`Self::decode`], from stored bytes; without any, or with damaged ones, nobody owns anything.
    pub fn read(stored: &[u8]) -> Self {
        // No two of them are the same.
        Self { entries: serde_json::from_slice(stored).unwrap_or_default() }
    }

    /// The form on the wire and in the store; empty when there are none.
    pub fn encode(&self) -> Vec<u8> {
        if self.entries.is_empty() {
            return Vec::new();
        }
        let mut sorted: Vec<&Entry> = self.entries.iter().collect();
        sorted.sort_by_key(|&entry| (entry.writer.operation, entry.time.unwrap_or_default(), &entry.writer));
        let mut out = Vec::with_capacity(512);
        // Writing to a vector does not fail.
        let _ = serde_json::to_writer(&mut out, &sorted);
        out
    }

    /// Whether these are the same managers of the same fields, whenever they came to be.
    pub fn same(&self, other: &Self) -> bool {
        self.entries.len() == other.entries.len()
            && self.entries.iter().all(|entry| {
                other.entries.iter().any(|other| other.writer == entry.writer && other.set == entry.set)
            })
    }

    pub(super) fn find(&self, writer: &Writer) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.writer.is(writer))
    }

    /// Sets the fields of a manager; a set without fields removes it.
    pub(super) fn set(&mut self, writer: &Writer, set: Set, time: Option<Timestamp>) {
        self.take(writer);
        if !set.is_empty() {
            self.entries.push(Entry { writer: writer.clone(), time, fields_type: FieldsType::FieldsV1, set });
        }
    }

    /// Forgets when a manager wrote last.
    pub fn forget_time(&mut self, writer: &Writer) {
        for entry in self.entries.iter_mut().filter(|entry| entry.writer.is(writer)) {
            entry.time = None;
        }
    }

    /// Puts the oldest updates of each version together, until there are few enough.
    pub(super) fn cap(&mut self) {
        let is_update = |entry: &&Entry| entry.writer.operation == Operation::Update;
        let mut left = self.entries.iter().filter(is_update).count();
        if left <= MAX_UPDATERS {
            return;
        }
        self.entries.sort_by(|a, b| (a.time, &a.writer).cmp(&(b.time, &b.writer)));
        let oldest: Vec<Writer> =
            self.entries.iter().filter(is_update).map(|entry| entry.writer.clone()).collect();
        let mut first_of_version: BTreeMap<String, Writer> = BTreeMap::new();
        for writer in oldest {
            if left <= MAX_UPDATERS {
                return;
            }
            let Some(first) = first_of_version.get(&writer.api_version) else {
                first_of_version.insert(writer.api_version.clone(), writer);
                continue;
            };
            let bucket = Writer {
                manager: OLD_UPDATES.to_owned(),
                operation: Operation::Update,
                api_version: writer.api_version.clone(),
                subresource: String::new(),
            };
            let Some(merged) = self.take(&writer) else { continue };
            let before = self.take(&bucket).or_else(|| self.take(first)).map(|before| before.set);
            self.set(&bucket, merged.set.union(before.unwrap_or_default()), merged.time);
            left -= 1;
        }
    }

    fn take(&mut self, writer: &Writer) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.writer.is(writer))?;
        Some(self.entries.remove(at))
    }
}

/// Takes the managers that a client sent out of an object.
pub fn take_sent(object: &mut Map<String, Value>) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::element::Element;
    use super::*;

    fn writer(manager: &str, operation: Operation) -> Writer {
        Writer {
            manager: manager.to_owned(),
            operation,
            api_version: "v1".to_owned(),
            subresource: String::new(),
        }
    }

    fn at(second: i64) -> Option<Timestamp> {
        Timestamp::from_second(second).ok()
    }

    fn set(name: &str) -> Set {
        Set::of(&[&[Element::field(name)]])
    }

    #[test]
    fn managers_survive_their_json_in_the_order_of_the_real_server() {
        let mut managers = Managers::default();
        managers.set(&writer("b", Operation::Update), set("x"), at(2));
        managers.set(&writer("z", Operation::Update), set("x"), at(1));
        managers.set(&writer("a", Operation::Update), set("x"), at(2));
        managers.set(&writer("c", Operation::Apply), set("y"), at(3));
        let encoded = managers.encode();
        let value: Value = serde_json::from_slice(&encoded).unwrap();
        let names: Vec<&str> =
            value.as_array().unwrap().iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
        assert_eq!(names, ["c", "z", "a", "b"]);
        assert_eq!(
            value[0],
            json!({ "manager": "c", "operation": "Apply", "apiVersion": "v1", "time": "1970-01-01T00:00:03Z",
                "fieldsType": "FieldsV1", "fieldsV1": { "f:y": {} } })
        );
        assert!(Managers::decode(&value).unwrap().same(&managers));
    }

    #[test]
    fn the_oldest_of_many_updates_are_put_together() {
        let mut managers = Managers::default();
        for number in 0..12 {
            managers.set(
                &writer(&format!("m{number:02}"), Operation::Update),
                set(&format!("f{number}")),
                at(number),
            );
        }
        managers.set(&writer("applies", Operation::Apply), set("y"), at(0));
        managers.cap();
        let names: Vec<&str> = managers.entries.iter().map(|entry| entry.writer.manager.as_str()).collect();
        assert_eq!(managers.entries.len(), 11, "{names:?}");
        let old = managers.find(&writer(OLD_UPDATES, Operation::Update)).unwrap();
        assert_eq!(old.set, set("f0").union(set("f1")).union(set("f2")));
        assert_eq!(old.time, at(2));
    }

    #[test]
    fn what_is_no_list_of_managers_is_none() {
        let entry =
            json!({ "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {} });
        assert!(Managers::decode(&json!([entry])).is_some());
        for (field, value) in [("operation", "Other"), ("apiVersion", ""), ("fieldsType", ""), ("time", "x")]
        {
            let mut entry = entry.clone();
            entry[field] = json!(value);
            assert!(Managers::decode(&json!([entry])).is_none(), "{field}");
        }
        assert!(
            is_reset(&json!([]))
                && is_reset(&json!([{}]))
                && !is_reset(&json!([{}, {}]))
                && !is_reset(&Value::Null)
        );
    }
}
