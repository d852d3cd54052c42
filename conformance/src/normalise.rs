//! Makes the answers of two servers comparable.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use regex::{Captures, Regex};
use serde_json::{Map, Value};

/// Times further from now than this were given by a script and are compared.
const NEAR: i64 = 24 * 60 * 60;

struct Patterns {
    uid: Regex,
    time: Regex,
    age: Regex,
    /// Versions in messages that are those of objects.
    object_version: Regex,
    /// Versions in messages that are those of the whole store.
    store_version: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    Some(Patterns {
        uid: Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").ok()?,
        time: Regex::new(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z").ok()?,
        age: Regex::new(r"^\d+(s|m|m\d+s)$").ok()?,
        object_version: Regex::new(
            r"(ResourceVersion in (?:precondition: |object meta: |the precondition \(|record \())(\d+)",
        )
        .ok()?,
        store_version: Regex::new(
            r"((?:Too large resource version|current|too old resource version): )\d+( \(\d+\))?",
        )
        .ok()?,
    })
});

/// Replaces what no two servers have in common by placeholders, in the order of first appearance: the same value
/// is the same placeholder through all answers of one script.
#[derive(Debug, Default)]
pub struct Normaliser {
    namespace: String,
    uids: HashMap<String, usize>,
    versions: HashMap<String, usize>,
    generated: Vec<(String, String)>,
}

impl Normaliser {
    /// For the answers in this namespace.
    pub fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    /// The answer with its placeholders. Answers are given in the order in which they came.
    pub fn normalise(&mut self, answer: &Value) -> Value {
        let mut answer = answer.clone();
        self.learn_generated(&answer);
        self.value(&mut answer, "");
        if answer["body"]["reason"] == "Invalid" {
            settle_causes(&mut answer["body"]);
        }
        answer
    }

    fn learn_generated(&mut self, value: &Value) {
        match value {
            Value::Object(object) => {
                if let (Some(base), Some(name)) = (text(object, "generateName"), text(object, "name"))
                    && name.len() == base.len() + 5
                    && name.starts_with(base)
                    && !self.generated.iter().any(|(known, _)| known == name)
                {
                    let shown = format!("{base}<generated-{}>", self.generated.len() + 1);
                    self.generated.push((name.to_owned(), shown));
                }
                if object.get("reason").is_some_and(|reason| reason == "Invalid") {
                    self.learn_refused(&object["details"]);
                }
                object.values().for_each(|value| self.learn_generated(value));
            }
            Value::Array(items) => items.iter().for_each(|value| self.learn_generated(value)),
            _ => {}
        }
    }

    /// A generated name that was refused together with what it was made of.
    fn learn_refused(&mut self, details: &Value) {
        let name = details["name"].as_str().unwrap_or_default();
        let Some((at, _)) = name.char_indices().nth_back(4) else { return };
        let base = &name[..at];
        let shown = format!("Invalid value: {base:?}");
        let is_generated = details["causes"].as_array().into_iter().flatten().any(|cause| {
            cause["field"] == "metadata.generateName"
                && cause["message"].as_str().is_some_and(|message| message.starts_with(&shown))
        });
        if is_generated {
            let shown = format!("{base}<generated-{}>", self.generated.len() + 1);
            self.generated.push((name.to_owned(), shown));
        }
    }

    fn value(&mut self, value: &mut Value, field: &str) {
        match value {
            Value::Object(object) => self.object(object, field),
            Value::Array(items) => {
                for item in items {
                    if let (Value::String(cell), "cells") = (&item, field)
                        && PATTERNS.as_ref().is_some_and(|patterns| patterns.age.is_match(cell))
                    {
                        *item = Value::String("<age>".to_owned());
                    }
                    self.value(item, field);
                }
            }
            Value::String(shown) => *shown = self.string(shown, field),
            _ => {}
        }
    }

    fn object(&mut self, object: &mut Map<String, Value>, field: &str) {
        // A list's version, or a bookmark's, is that of the whole store, which others write to as well.
        let is_list = object.contains_key("items") || object.contains_key("rows");
        let is_bookmark = object.get("type").is_some_and(|kind| kind == "BOOKMARK");
        if is_list {
            hide_version(object);
        }
        if is_bookmark && let Some(Value::Object(inner)) = object.get_mut("object") {
            hide_version(inner);
        }
        // UIDs stand in the names of managed fields as well.
        let keyed: Vec<String> = object.keys().filter(|name| name.starts_with("k:{")).cloned().collect();
        for name in keyed {
            if let Some(value) = object.remove(&name) {
                object.insert(self.string(&name, field), value);
            }
        }
        let mut names: Vec<String> = object.keys().cloned().collect();
        names.sort();
        for name in names {
            let Some(value) = object.get_mut(&name) else { continue };
            if let ("resourceVersion", Value::String(version)) = (name.as_str(), &*value) {
                *value = Value::String(self.version(version));
            } else if let ("continue", Value::String(token)) = (name.as_str(), &*value)
                && !token.is_empty()
            {
                *value = Value::String("<continue>".to_owned());
            } else {
                if let ("managedFields", Value::Array(entries)) = (name.as_str(), &mut *value) {
                    sort_managers(entries);
                }
                self.value(value, if field == "cells" { field } else { &name });
            }
        }
    }

    fn version(&mut self, version: &str) -> String {
        if version.is_empty() || version == "0" || version.starts_with('<') {
            return version.to_owned();
        }
        let next = self.versions.len() + 1;
        format!("<version-{}>", self.versions.entry(version.to_owned()).or_insert(next))
    }

    fn string(&mut self, text: &str, field: &str) -> String {
        let Some(patterns) = PATTERNS.as_ref() else { return text.to_owned() };
        let mut text = text.to_owned();
        if !self.namespace.is_empty() {
            text = text.replace(&self.namespace, "<namespace>");
        }
        for (name, shown) in &self.generated {
            text = text.replace(name, shown);
        }
        let text = patterns.uid.replace_all(&text, |found: &Captures<'_>| {
            let next = self.uids.len() + 1;
            format!("<uid-{}>", self.uids.entry(found[0].to_owned()).or_insert(next))
        });
        let text = patterns.time.replace_all(&text, |found: &Captures<'_>| {
            let near = found[0]
                .parse::<Timestamp>()
                .is_ok_and(|time| (time.as_second() - Timestamp::now().as_second()).abs() < NEAR);
            if near { "<time>".to_owned() } else { found[0].to_owned() }
        });
        if field != "message" {
            return text.into_owned();
        }
        let text = patterns.store_version.replace_all(&text, "${1}<version>");
        patterns
            .object_version
            .replace_all(&text, |found: &Captures<'_>| format!("{}{}", &found[1], self.version(&found[2])))
            .into_owned()
    }
}

/// The causes of an Invalid: once each, and of custom kinds and maps of data sorted, as a real server says them in no order (it
/// walks Go's maps). The message has to be made of its own causes, in their order, and says so.
fn settle_causes(status: &mut Value) {
    let group = status["details"]["group"].as_str().unwrap_or_default();
    let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
    let has_data = matches!(status["details"]["kind"].as_str(), Some("ConfigMap" | "Secret"));
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    let Some(Value::Array(causes)) = status.get_mut("details").and_then(|details| details.get_mut("causes"))
    else {
        return;
    };
    let mut shown: Vec<String> = Vec::new();
    let mut kept: Vec<Value> = Vec::new();
    for cause in causes.drain(..) {
        let (field, message) =
            (cause["field"].as_str().unwrap_or_default(), cause["message"].as_str().unwrap_or_default());
        let line = if field.is_empty() { message.to_owned() } else { format!("{field}: {message}") };
        if !shown.contains(&line) {
            shown.push(line);
        }
        if !kept.contains(&cause) {
            kept.push(cause);
        }
    }
    let told = if let [one] = shown.as_slice() { one.clone() } else { format!("[{}]", shown.join(", ")) };
    if is_custom || has_data {
        kept.sort_by_key(ToString::to_string);
    }
    *causes = kept;
    if let Some(start) = message.strip_suffix(&told) {
        status["message"] = Value::String(format!("{start}<causes>"));
    }
}

fn text<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a str> {
    object.get(field).and_then(Value::as_str)
}

/// Managers stand in the order of their times, in seconds, and by name within one: which second it is differs.
fn sort_managers(entries: &mut [Value]) {
    entries.sort_by_key(|entry| {
        ["operation", "manager", "apiVersion", "subresource"]
            .map(|field| entry.get(field).and_then(Value::as_str).unwrap_or_default().to_owned())
    });
}

fn hide_version(object: &mut Map<String, Value>) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata")
        && let Some(Value::String(version)) = metadata.get_mut("resourceVersion")
        && version.parse::<u64>().is_ok_and(|version| version > 0)
    {
        "<store-version>".clone_into(version);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_versions_keep_being_equal() {
        let mut normaliser = Normaliser::new("n-1");
        let first =
            normaliser.normalise(&json!({ "metadata": { "resourceVersion": "17", "namespace": "n-1" } }));
        let second = normaliser.normalise(&json!({ "metadata": { "resourceVersion": "19" } }));
        let third = normaliser.normalise(&json!({ "metadata": { "resourceVersion": "17" } }));
        assert_eq!(first["metadata"]["resourceVersion"], "<version-1>");
        assert_eq!(first["metadata"]["namespace"], "<namespace>");
        assert_eq!(second["metadata"]["resourceVersion"], "<version-2>");
        assert_eq!(third["metadata"]["resourceVersion"], "<version-1>");
    }

    #[test]
    fn lists_carry_the_version_of_the_store_and_items_their_own() {
        let list = json!({ "items": [{ "metadata": { "resourceVersion": "3" } }],
            "metadata": { "resourceVersion": "9", "continue": "abc" } });
        assert_eq!(
            Normaliser::new("").normalise(&list),
            json!({ "items": [{ "metadata": { "resourceVersion": "<version-1>" } }],
                "metadata": { "resourceVersion": "<store-version>", "continue": "<continue>" } })
        );
    }

    #[test]
    fn times_of_now_uids_and_generated_names_are_hidden_wherever_they_stand() {
        let now = Timestamp::now().to_string();
        let answer = json!({ "metadata": { "generateName": "a-", "name": "a-xyzzy",
            "uid": "6f9619ff-8b86-d011-b42d-00cf4fc964ff" }, "a": "2001-01-01T00:00:00Z", "b": now,
            "message": "a-xyzzy: 6f9619ff-8b86-d011-b42d-00cf4fc964ff, too old resource version: 5 (9)" });
        assert_eq!(
            Normaliser::new("").normalise(&answer),
            json!({ "metadata": { "generateName": "a-", "name": "a-<generated-1>", "uid": "<uid-1>" },
                "a": "2001-01-01T00:00:00Z", "b": "<time>",
                "message": "a-<generated-1>: <uid-1>, too old resource version: <version>" })
        );
    }
}
