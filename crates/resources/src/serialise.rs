//! Objects → the files that people keep: nothing that a server sets, one order of keys, one final line break.
//!
//! A file that says the same as the object stays byte for byte. One that does not is changed in its own format: a JSON
//! file keeps its order of keys and its indentation, a YAML file all lines that do not change, with their comments, where
//! [that can be done](windlass_api::yaml::edited).

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use windlass_api::{labels, yaml};

use crate::parse::{self, Content, Document, ParseContext, ParsedResource, Part};
use crate::paths::{Format, format_of};
use crate::{FOLDER, Kind};

/// Annotations with these beginnings describe an object of one instance.
const OF_INSTANCE: [&str; 3] = ["grafana.app/", "windlass.dev/", "kubectl.kubernetes.io/"];
/// Members of an object that no file has.
const OF_SERVER: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
/// Labels that no file has.
const LABELS_OF_INSTANCE: [&str; 2] = [labels::MANAGED_BY_ID, parse::INTERNAL_ID];

/// Why an object could not be written as a file.
#[derive(Debug, thiserror::Error)]
#[error("failed to write {name:?} as a document: {detail}")]
pub struct SerialiseError {
    name: String,
    detail: String,
}

/// How an object is called in its file.
#[derive(Clone, Copy, Debug)]
pub struct Identity<'a> {
    /// What it is.
    pub kind: &'a Kind,
    /// The version that the file names.
    pub version: &'a str,
    /// Its name there.
    pub name: &'a str,
}

/// A file that is there already.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its path, which decides the format.
    pub path: &'a str,
    /// Its content.
    pub content: &'a [u8],
    /// What its surroundings say about it.
    pub of: ParseContext<'a>,
}

/// A new JSON file for `object`, which is JSON as a server writes it.
pub fn new_file(object: &str, identity: Identity<'_>) -> Result<String, SerialiseError> {
    let document = clean(object, identity)?;
    let mut text = pretty(&document, None, "  ").map_err(|error| failed(identity, &error))?;
    text.push('\n');
    Ok(text)
}

/// `file` after its object, or that of one of its documents, has become `object`: its own bytes if it says so already.
/// Of several documents the others stay byte for byte.
pub fn updated_file(object: &ParsedResource, file: File<'_>) -> Result<Vec<u8>, SerialiseError> {
    let document = of_resource(object);
    let failed =
        |error: &dyn fmt::Display| SerialiseError { name: object.name.clone(), detail: error.to_string() };
    let documents = parse::documents(file.path, file.content, &file.of).unwrap_or_default();
    let former = str::from_utf8(file.content).unwrap_or_default();
    let is_yaml = format_of(file.path) == Some(Format::Yaml);
    let parts = if is_yaml { parse::parts(former) } else { Vec::new() };
    let said = documents.iter().find(|said| match said.number {
        Some(_) => said.is_of(&object.kind, &object.name),
        None => said.content.as_ref().is_ok_and(|said| said.kind == object.kind),
    });
    let is_said = |said: &Document| {
        said.content.as_ref().is_ok_and(|said| says_the_same(&of_resource(said), &document))
    };
    if said.is_some_and(is_said) {
        return Ok(file.content.to_vec());
    }
    if is_yaml {
        let value: Value = serde_json::from_str(&document).map_err(|error| failed(&error))?;
        let anew = || yaml::to_string(&value).map_err(|error| failed(&error));
        if parts.len() < 2 {
            let text = yaml::edited(former, &value).map_or_else(anew, Ok)?;
            return Ok(text.into_bytes());
        }
        let part = said.and_then(|said| parts.get(said.number? - 1));
        let Part { marker, content } = part.ok_or_else(|| failed(&NotOfFile { documents: parts.len() }))?;
        let text = match yaml::edited(&former[content.clone()], &value) {
            Some(text) => text,
            None => {
                let begin = if content.start > *marker { "\n" } else { "" };
                format!("{begin}{}\n", anew()?.trim_end())
            }
        };
        return Ok([&former[..content.start], &text, &former[content.end..]].concat().into_bytes());
    }
    let like = serde_json::from_str::<&RawValue>(former).ok();
    let mut text = pretty(&document, like, &indentation(former)).map_err(|error| failed(&error))?;
    if former.is_empty() || former.ends_with('\n') {
        text.push('\n');
    }
    Ok(text.into_bytes())
}

/// What is left of a file without an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remainder {
    /// Nothing: the file has no other document.
    Nothing,
    /// The other documents, byte for byte.
    File(Vec<u8>),
    /// The file has several documents, and none is of the object.
    Absent,
}

/// `file` without the document of an object.
pub fn without(kind: &Kind, name: &str, file: File<'_>) -> Result<Remainder, SerialiseError> {
    let text = str::from_utf8(file.content).unwrap_or_default();
    let parts = if format_of(file.path) == Some(Format::Yaml) { parse::parts(text) } else { Vec::new() };
    if parts.len() < 2 {
        return Ok(Remainder::Nothing);
    }
    let before = parse::documents(file.path, file.content, &file.of).unwrap_or_default();
    let Some(index) = before.iter().position(|document| document.is_of(kind, name)) else {
        return Ok(Remainder::Absent);
    };
    let Some(Part { marker, content }) = before[index].number.and_then(|number| parts.get(number - 1)) else {
        return Ok(Remainder::Absent);
    };
    let rest = [&text[..*marker], &text[content.end..]].concat();
    let after = parse::documents(file.path, rest.as_bytes(), &file.of).unwrap_or_default();
    let others = before.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, document)| document);
    let objects = |document: &Document| document.content.as_ref().ok().map(of_resource);
    if !others.map(objects).eq(after.iter().map(objects)) {
        let detail = "the file would not say the same of its other objects; change it by hand";
        return Err(SerialiseError { name: name.to_owned(), detail: detail.to_owned() });
    }
    Ok(Remainder::File(rest.into_bytes()))
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the file has {documents} documents, and none is of this object; send all of it, as application/yaml"
)]
struct NotOfFile {
    documents: usize,
}

/// A `_folder.json` that gives a directory's folder this name and title.
pub fn folder_file(name: &str, title: &str) -> String {
    let document = serde_json::json!({
        "apiVersion": format!("{}/{}", FOLDER.group, FOLDER.version),
        "kind": FOLDER.kind,
        "metadata": { "name": name },
        "spec": { "title": title },
    });
    format!("{document:#}\n")
}

fn failed(identity: Identity<'_>, error: &dyn fmt::Display) -> SerialiseError {
    SerialiseError { name: identity.name.to_owned(), detail: error.to_string() }
}

/// What a file says of an object, on one line: type, name, labels and annotations of people, and everything else that
/// is no status.
fn clean(object: &str, identity: Identity<'_>) -> Result<String, SerialiseError> {
    let failed = |error: &dyn fmt::Display| failed(identity, error);
    let entries: Entries<'_> = serde_json::from_str(object).map_err(|error| failed(&error))?;
    let metadata = entries.0.iter().find(|(key, _)| key == "metadata");
    let metadata: Metadata = match metadata {
        Some((_, text)) => serde_json::from_str(text.get()).map_err(|error| failed(&error))?,
        None => Metadata::default(),
    };
    let mut members = String::new();
    for (key, value) in entries.0.iter().filter(|(key, _)| !OF_SERVER.contains(&key.as_str())) {
        let value = match serde_json::from_str::<Entries<'_>>(value.get()) {
            Ok(spec) if key == "spec" && !identity.kind.is_applied() => Cow::Owned(compact(
                spec.0.iter().filter(|(key, _)| !parse::INSTANCE_KEYS.contains(&key.as_str())),
            )),
            _ => Cow::Borrowed(value.get()),
        };
        members.extend([",", &Value::from(key.as_str()).to_string(), ":", &value]);
    }
    Ok(document(identity, metadata, &members))
}

/// What a file said, in the same form.
fn of_resource(resource: &ParsedResource) -> String {
    let identity = Identity { kind: &resource.kind, version: &resource.version, name: &resource.name };
    let metadata =
        Metadata { labels: Some(resource.labels.clone()), annotations: Some(resource.annotations.clone()) };
    let members = match &resource.content {
        Content::Spec(spec) => format!(",\"spec\":{spec}"),
        Content::Members(members) if members.is_empty() => String::new(),
        Content::Members(members) => format!(",{members}"),
    };
    document(identity, metadata, &members)
}

fn document(identity: Identity<'_>, metadata: Metadata, members: &str) -> String {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Head<'a> {
        api_version: String,
        kind: &'a str,
        metadata: Named<'a>,
    }
    #[derive(Serialize)]
    struct Named<'a> {
        name: &'a str,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        labels: BTreeMap<String, String>,
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        annotations: BTreeMap<String, String>,
    }
    let Metadata { labels, annotations } = metadata;
    let (mut labels, mut annotations) = (labels.unwrap_or_default(), annotations.unwrap_or_default());
    labels.retain(|key, _| !LABELS_OF_INSTANCE.contains(&key.as_str()));
    annotations.retain(|key, _| !OF_INSTANCE.iter().any(|prefix| key.starts_with(prefix)));
    let api_version = match &*identity.kind.group {
        "" => identity.version.to_owned(),
        group => format!("{group}/{}", identity.version),
    };
    let kind = &*identity.kind.kind;
    let head = Head { api_version, kind, metadata: Named { name: identity.name, labels, annotations } };
    // Texts alone cannot fail to be written.
    let mut text = serde_json::to_string(&head).unwrap_or_default();
    text.pop();
    text.push_str(members);
    text.push('}');
    text
}

#[derive(Default, Deserialize)]
struct Metadata {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

/// A JSON object, its values still text, in its order.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

fn compact<'a>(entries: impl Iterator<Item = &'a (String, &'a RawValue)>) -> String {
    let mut text = String::from("{");
    for (index, (key, value)) in entries.enumerate() {
        let separator = if index == 0 { "" } else { "," };
        text.extend([separator, &Value::from(key.as_str()).to_string(), ":", value.get()]);
    }
    text.push('}');
    text
}

/// The outermost members of a document, in the order that people expect.
const FIRST: [&str; 4] = ["apiVersion", "kind", "metadata", "spec"];

/// `json` over several lines, numbers as they are written. Keys stand in the order of `like`, where that is an object
/// at the same place; new ones, and all where there is none, by the alphabet behind the usual first ones.
fn pretty(json: &str, like: Option<&RawValue>, indent: &str) -> Result<String, serde_json::Error> {
    let raw: &RawValue = serde_json::from_str(json)?;
    let mut out = String::with_capacity(json.len() * 2);
    Layout { indent, level: 0 }.write(raw, like, &mut out)?;
    Ok(out)
}

/// Whether two documents mean the same, in whatever order and with whatever digits (`1.0` is `1`).
fn says_the_same(a: &str, b: &str) -> bool {
    let read = |json| serde_json::from_str::<Value>(json).ok();
    read(a).zip(read(b)).is_some_and(|(a, b)| yaml::is_same(&a, &b))
}

#[derive(Clone, Copy)]
struct Layout<'a> {
    /// Empty: all on one line.
    indent: &'a str,
    level: usize,
}

impl Layout<'_> {
    fn write(
        self,
        raw: &RawValue,
        like: Option<&RawValue>,
        out: &mut String,
    ) -> Result<(), serde_json::Error> {
        let inner = Self { level: self.level + 1, ..self };
        match raw.get().as_bytes().first() {
            Some(b'{') => {
                let Entries(entries) = serde_json::from_str(raw.get())?;
                let former = like.and_then(|like| serde_json::from_str::<Entries<'_>>(like.get()).ok());
                let entries = self.ordered(entries, former.as_ref());
                out.push('{');
                for (index, (key, value)) in entries.iter().enumerate() {
                    inner.line(index, out);
                    out.push_str(&Value::from(key.as_str()).to_string());
                    out.push_str(if self.indent.is_empty() { ":" } else { ": " });
                    let like = former.iter().flat_map(|former| &former.0).find(|(former, _)| former == key);
                    inner.write(value, like.map(|(_, value)| *value), out)?;
                }
                self.end(entries.is_empty(), '}', out);
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(raw.get())?;
                let former = like.and_then(|like| serde_json::from_str::<Vec<&RawValue>>(like.get()).ok());
                let former = former.unwrap_or_default();
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    inner.line(index, out);
                    inner.write(item, former.get(index).copied(), out)?;
                }
                self.end(items.is_empty(), ']', out);
            }
            _ => out.push_str(raw.get()),
        }
        Ok(())
    }

    fn ordered<'v>(
        self,
        entries: Vec<(String, &'v RawValue)>,
        former: Option<&Entries<'_>>,
    ) -> Vec<(String, &'v RawValue)> {
        let mut sorted: BTreeMap<String, &'v RawValue> = entries.into_iter().collect();
        let first: Vec<&str> = if self.level == 0 { FIRST.to_vec() } else { Vec::new() };
        let known = former.iter().flat_map(|former| &former.0).map(|(key, _)| key.as_str());
        let mut seen = BTreeSet::new();
        let keys: Vec<&str> = known.chain(first).filter(|key| seen.insert(*key)).collect();
        let mut ordered: Vec<_> =
            keys.into_iter().filter_map(|key| Some((key.to_owned(), sorted.remove(key)?))).collect();
        ordered.extend(sorted);
        ordered
    }

    fn line(self, index: usize, out: &mut String) {
        if index > 0 {
            out.push(',');
        }
        if !self.indent.is_empty() {
            out.push('\n');
            out.extend(std::iter::repeat_n(self.indent, self.level));
        }
    }

    fn end(self, is_empty: bool, bracket: char, out: &mut String) {
        if !is_empty && !self.indent.is_empty() {
            out.push('\n');
            out.extend(std::iter::repeat_n(self.indent, self.level));
        }
        out.push(bracket);
    }
}

/// What the second line of a JSON file begins with; nothing for a file of one line.
fn indentation(text: &str) -> String {
    let second = text.trim_end().split_once('\n').map(|(_, rest)| rest);
    let blank = |line: &str| line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect::<String>();
    match second.map(blank) {
        Some(indent) if indent.is_empty() => "  ".to_owned(),
        Some(indent) => indent,
        None => String::new(),
    }
}

#[cfg(test)]
mod tests;
