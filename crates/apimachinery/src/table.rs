//! `meta.k8s.io/v1` Table answers: what `kubectl get` shows.

mod age;
mod json_path;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::document::Document;
use json_path::JsonPath;

/// One column of a kind's table.
#[derive(Debug)]
pub struct Column {
    name: String,
    kind: String,
    format: String,
    description: String,
    priority: i32,
    cell: Cell,
}

#[derive(Debug)]
enum Cell {
    Name,
    /// The age of the object, from a custom kind's default column (a date) or a core kind's (text).
    Age,
    Path(JsonPath),
    /// How many entries a map has.
    Count(&'static str),
    /// `kind/name` of the object that an Event is about.
    InvolvedObject,
    /// A text of a core kind; empty when absent.
    Text(JsonPath),
    /// Who reported an Event.
    EventSource,
    /// How long ago an Event happened first.
    FirstSeen,
    /// How long ago an Event happened last.
    LastSeen,
    /// How often an Event happened.
    Times,
}

impl Column {
    fn new(name: &str, kind: &str, cell: Cell) -> Self {
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            cell,
        }
    }

    /// The name of the object.
    pub fn name() -> Self {
        Self::new("Name", "string", Cell::Name)
            .format("name")
            .description("Name of the object, unique among the objects of its kind in its namespace.")
    }

    /// How old it is.
    pub fn age() -> Self {
        Self::new("Age", "string", Cell::Age).description("How long ago the object was created.")
    }

    /// The age column that a custom kind without columns has.
    pub fn custom_age() -> Self {
        Self::new("Age", "date", Cell::Age).description("How long ago the object was created.")
    }

    /// How many entries a field has.
    pub fn count(name: &str, field: &'static str) -> Self {
        Self::new(name, "string", Cell::Count(field)).description("How many entries the object has.")
    }

    /// What an Event is about.
    pub fn involved_object() -> Self {
        Self::new("Object", "string", Cell::InvolvedObject).description("The object that the event is about.")
    }

    /// How long ago an Event was last seen.
    pub fn last_seen() -> Self {
        Self::new("Last Seen", "string", Cell::LastSeen).description("How long ago the event happened last.")
    }

    /// Where an Event comes from.
    pub fn event_source() -> Self {
        Self::new("Source", "string", Cell::EventSource).description("Who reported the event.")
    }

    /// How long ago an Event was first seen.
    pub fn first_seen() -> Self {
        Self::new("First Seen", "string", Cell::FirstSeen)
            .description("How long ago the event happened first.")
    }

    /// How many times an Event was seen.
    pub fn times() -> Self {
        Self::new("Count", "string", Cell::Times).description("How often the event happened.")
    }

    /// A column of a custom kind. Only simple JSON paths are understood, as on a real server.
    pub fn json_path(name: &str, kind: &str, path: &str) -> Result<Self, String> {
        Ok(Self::new(name, kind, Cell::Path(JsonPath::parse(path)?)))
    }

    /// A text column of a core kind.
    pub fn path(name: &str, path: &str) -> Result<Self, String> {
        Ok(Self::new(name, "string", Cell::Text(JsonPath::parse(path)?)))
    }

    /// With this format.
    #[must_use]
    pub fn format(mut self, format: &str) -> Self {
        format.clone_into(&mut self.format);
        self
    }

    /// With this description.
    #[must_use]
    pub fn description(mut self, description: &str) -> Self {
        description.clone_into(&mut self.description);
        self
    }

    /// Shown only where more is asked for, above 0.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    fn definition(&self) -> Value {
        json!({ "name": self.name, "type": self.kind, "format": self.format,
            "description": self.description, "priority": self.priority })
    }

    fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Name => object["metadata"]["name"].clone(),
            Cell::Age => age_of(&object["metadata"]["creationTimestamp"], now),
            Cell::Path(path) => self.path_cell(path, object, now),
            Cell::Count(field) => {
                let binary = object["binaryData"].as_object().map_or(0, Map::len);
                json!(object[*field].as_object().map_or(0, Map::len) + binary)
            }
            Cell::InvolvedObject => {
                let involved = &object["involvedObject"];
                let kind = involved["kind"].as_str().unwrap_or_default().to_lowercase();
                match involved["name"].as_str().unwrap_or_default() {
                    "" => json!(kind),
                    name => json!(format!("{kind}/{name}")),
                }
            }
            Cell::Text(path) => match self.path_cell(path, object, now) {
                Value::String(text) => json!(text.trim()),
                _ => json!(""),
            },
            Cell::EventSource => {
                let first = |fields: [&Value; 2]| {
                    let mut given = fields.into_iter().filter_map(Value::as_str);
                    given.find(|text| !text.is_empty()).unwrap_or_default().to_owned()
                };
                let component = first([&object["source"]["component"], &object["reportingComponent"]]);
                match first([&object["source"]["host"], &object["reportingInstance"]]).as_str() {
                    "" => json!(component),
                    host => json!(format!("{component}, {host}")),
                }
            }
            Cell::FirstSeen => first_of([&object["firstTimestamp"], &object["eventTime"]], now),
            Cell::LastSeen => match &object["series"] {
                Value::Object(series) => age_of(series.get("lastObservedTime").unwrap_or(&Value::Null), now),
                _ => {
                    first_of([&object["lastTimestamp"], &object["firstTimestamp"], &object["eventTime"]], now)
                }
            },
            Cell::Times => match object["series"].as_object() {
                Some(series) => json!(series.get("count").and_then(Value::as_i64).unwrap_or_default()),
                None => json!(object["count"].as_i64().filter(|count| *count != 0).unwrap_or(1)),
            },
        }
    }

    /// A cell of the column's type, or null when the object has no such value.
    fn path_cell(&self, path: &JsonPath, object: &Value, now: Timestamp) -> Value {
        let found = path.find(object);
        let Some(first) = found.first() else { return Value::Null };
        match self.kind.as_str() {
            "string" => {
                let shown: Vec<String> = found.iter().map(|value| shown(value)).collect();
                json!(shown.join(" "))
            }
            "integer" => match first.as_i64() {
                Some(number) => json!(number),
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "a fraction is cut, as a real server does"
                )]
                None => first.as_f64().map_or(Value::Null, |number| json!(number as i64)),
            },
            "number" if first.is_number() => (*first).clone(),
            "boolean" if first.is_boolean() => (*first).clone(),
            "date" if first.is_string() => age_of(first, now),
            _ => Value::Null,
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// The age of the first of these times that is there.
fn first_of<const N: usize>(times: [&Value; N], now: Timestamp) -> Value {
    let time = times.into_iter().find(|time| time.is_string());
    age_of(time.unwrap_or(&Value::Null), now)
}

fn age_of(time: &Value, now: Timestamp) -> Value {
    match time.as_str() {
        None => json!("<unknown>"),
        Some(text) => match text.parse::<Timestamp>() {
            Ok(time) => json!(age::age(now.duration_since(time).as_secs())),
            Err(_) => json!("<invalid>"),
        },
    }
}

/// What a row carries of its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

/// The column definitions of a table.
pub fn definitions(columns: &[Column]) -> Value {
    columns.iter().map(Column::definition).collect()
}

/// Appends one row. `bytes` is the whole object in the stored version, `served` in the one that was asked for.
pub fn write_row(
    columns: &[Column],
    value: &[u8],
    revision: u64,
    served: &[u8],
    include: IncludeObject,
    now: Timestamp,
    out: &mut Vec<u8>,
) {
    let object: Value = serde_json::from_slice(value).unwrap_or_default();
    let cells: Value = columns.iter().map(|column| column.cell(&object, now)).collect();
    out.extend_from_slice(br#"{"cells":"#);
    // Writing a value to a vector does not fail.
    let _ = serde_json::to_writer(&mut *out, &cells);
    match include {
        IncludeObject::None => out.extend_from_slice(br#","object":null"#),
        IncludeObject::Metadata => {
            out.extend_from_slice(br#","object":"#);
            Document::new(value).write_partial(revision, out);
        }
        IncludeObject::Object => {
            out.extend_from_slice(br#","object":"#);
            out.extend_from_slice(served);
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let object = json!({ "spec": { "n": 3, "s": "x", "l": ["a", "b"], "t": "2026-01-01T00:00:00Z" } });
        let now: Timestamp = "2026-01-01T00:05:00Z".parse().unwrap();
        let cell = |kind: &str, path: &str| Column::json_path("X", kind, path).unwrap().cell(&object, now);
        assert_eq!(cell("integer", ".spec.n"), json!(3));
        assert_eq!(cell("string", ".spec.n"), json!("3"));
        assert_eq!(cell("string", ".spec.l"), json!(r#"["a","b"]"#));
        assert_eq!(cell("string", ".spec.l[*]"), json!("a b"));
        assert_eq!(cell("date", ".spec.t"), json!("5m"));
        assert_eq!(cell("date", ".spec.s"), json!("<invalid>"));
        assert_eq!(cell("boolean", ".spec.s"), Value::Null);
        assert_eq!(cell("string", ".spec.absent"), Value::Null);
    }
}
