//! `metadata.managedFields`: who owns which fields of an object.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::set::Set;

/// How a manager came to own its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// A server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who writes, through which version and sub-resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Writer {
    /// Its name.
    pub manager: String,
    /// How it writes.
    pub operation: Operation,
    /// The version that it writes.
    pub api_version: String,
    /// Empty for the object itself.
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
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub writer: Writer,
    /// Seconds since the epoch.
    pub(super) time: Option<i64>,
    pub(super) set: Set,
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

    /// Reads the form on the wire.
    pub fn decode(entries: &Value) -> Result<Self, String> {
        if entries.as_array().is_some_and(|entries| entries.len() > MAX_SENT) {
            return Err(format!("there are more than {MAX_SENT} managers"));
        }
        let mut managers = Self::default();
        for (index, entry) in entries.as_array().into_iter().flatten().enumerate() {
            let entry = Entry::decode(entry, index)?;
            // Of two of the same name the last one counts.
            managers.entries.retain(|other| !other.writer.is(&entry.writer));
            managers.entries.push(entry);
        }
        Ok(managers)
    }

    /// As [`Self::decode`], from stored bytes; without any, or with damaged ones, nobody owns anything.
    pub fn read(stored: &[u8]) -> Self {
        if stored.is_empty() {
            return Self::default();
        }
        // No two of them are the same.
        let entries: Vec<Value> = serde_json::from_slice(stored).unwrap_or_default();
        let entries = entries.iter().enumerate().map(|(index, entry)| Entry::decode(entry, index));
        entries.collect::<Result<_, _>>().map_or_else(|_| Self::default(), |entries| Self { entries })
    }

    /// The form on the wire and in the store; empty when there are none.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if self.entries.is_empty() {
            return out;
        }
        let mut sorted: Vec<&Entry> = self.entries.iter().collect();
        sorted.sort_by(|a, b| {
            let key = |entry: &Entry| (entry.writer.operation, entry.time.unwrap_or_default());
            let name = |entry: &'_ Entry| {
                (
                    entry.writer.manager.clone(),
                    entry.writer.api_version.clone(),
                    entry.writer.subresource.clone(),
                )
            };
            key(a).cmp(&key(b)).then_with(|| name(a).cmp(&name(b)))
        });
        out.reserve(512);
        out.push(b'[');
        for (at, entry) in sorted.into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            entry.encode(&mut out);
        }
        out.push(b']');
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
    pub(super) fn set(&mut self, writer: &Writer, set: Set, time: Option<i64>) {
        self.entries.retain(|entry| !entry.writer.is(writer));
        if !set.is_empty() {
            self.entries.push(Entry { writer: writer.clone(), time, set });
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
        let updaters =
            self.entries.iter().filter(|entry| entry.writer.operation == Operation::Update).count();
        if updaters <= MAX_UPDATERS {
            return;
        }
        let mut oldest: Vec<Writer> = Vec::with_capacity(updaters);
        self.entries.sort_by(|a, b| {
            a.time.unwrap_or_default().cmp(&b.time.unwrap_or_default()).then_with(|| a.writer.cmp(&b.writer))
        });
        oldest.extend(
            self.entries
                .iter()
                .filter(|entry| entry.writer.operation == Operation::Update)
                .map(|entry| entry.writer.clone()),
        );
        let mut first_of_version: Vec<Writer> = Vec::new();
        let mut left = updaters;
        for writer in oldest {
            if left <= MAX_UPDATERS {
                return;
            }
            let Some(first) =
                first_of_version.iter().find(|first| first.api_version == writer.api_version).cloned()
            else {
                first_of_version.push(writer);
                continue;
            };
            let bucket = Writer {
                manager: OLD_UPDATES.to_owned(),
                operation: Operation::Update,
                api_version: writer.api_version.clone(),
                subresource: String::new(),
            };
            let Some(merged) = self.take(&writer) else { continue };
            let before = self.take(&bucket).or_else(|| self.take(&first));
            let set = before.map_or_else(|| merged.set.clone(), |before| merged.set.union(&before.set));
            self.set(&bucket, set, merged.time);
            left -= 1;
        }
    }

    fn take(&mut self, writer: &Writer) -> Option<Entry> {
        let at = self.entries.iter().position(|entry| entry.writer.is(writer))?;
        Some(self.entries.remove(at))
    }
}

impl Entry {
    fn decode(entry: &Value, index: usize) -> Result<Self, String> {
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let operation = match text("operation").as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType").as_str() {
            "FieldsV1" => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
            other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {index}")),
        }
        let time = match entry.get("time") {
            None | Some(Value::Null) => None,
            Some(time) => {
                let time: Result<Timestamp, _> = time.as_str().unwrap_or_default().parse();
                Some(time.map_err(|error| error.to_string())?.as_second())
            }
        };
        let set = entry.get("fieldsV1").map_or_else(|| Ok(Set::default()), Set::parse)?;
        let writer =
            Writer { manager: text("manager"), operation, api_version, subresource: text("subresource") };
        Ok(Self { writer, time, set })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut first = true;
        let mut field = |name: &str, value: &str, out: &mut Vec<u8>| {
            if value.is_empty() {
                return;
            }
            out.push(if std::mem::take(&mut first) { b'{' } else { b',' });
            out.extend_from_slice(format!("\"{name}\":{}", Value::from(value)).as_bytes());
        };
        let writer = &self.writer;
        field("manager", &writer.manager, out);
        field("operation", writer.operation.name(), out);
        field("apiVersion", &writer.api_version, out);
        field("time", &self.time.map(shown_time).unwrap_or_default(), out);
        field("fieldsType", "FieldsV1", out);
        out.extend_from_slice(b",\"fieldsV1\":");
        self.set.write(out);
        field("subresource", &writer.subresource, out);
        out.push(b'}');
    }
}

fn shown_time(seconds: i64) -> String {
    Timestamp::from_second(seconds)
        .map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
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

    fn set(name: &str) -> Set {
        Set::of(&[&[Element::field(name)]])
    }

    #[test]
    fn managers_survive_their_json_in_the_order_of_the_real_server() {
        let mut managers = Managers::default();
        managers.set(&writer("b", Operation::Update), set("x"), Some(2));
        managers.set(&writer("z", Operation::Update), set("x"), Some(1));
        managers.set(&writer("a", Operation::Update), set("x"), Some(2));
        managers.set(&writer("c", Operation::Apply), set("y"), Some(3));
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
                Some(number),
            );
        }
        managers.set(&writer("applies", Operation::Apply), set("y"), Some(0));
        managers.cap();
        let names: Vec<&str> = managers.entries.iter().map(|entry| entry.writer.manager.as_str()).collect();
        assert_eq!(managers.entries.len(), 11, "{names:?}");
        let old = managers.find(&writer(OLD_UPDATES, Operation::Update)).unwrap();
        assert_eq!(old.set, set("f0").union(&set("f1")).union(&set("f2")));
        assert_eq!(old.time, Some(2));
    }

    #[test]
    fn what_is_no_list_of_managers_is_told() {
        for (entry, why) in [
            (json!({}), "operation must be `Apply` or `Update`"),
            (json!({ "operation": "Update" }), "apiVersion must not be empty"),
            (
                json!({ "operation": "Update", "apiVersion": "v1" }),
                "missing fieldsType in managed fields entry 0",
            ),
        ] {
            assert_eq!(Managers::decode(&json!([entry])).unwrap_err(), why);
        }
        assert!(
            is_reset(&json!([]))
                && is_reset(&json!([{}]))
                && !is_reset(&json!([{}, {}]))
                && !is_reset(&Value::Null)
        );
    }
}
