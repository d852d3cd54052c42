//! The outermost level of a JSON document, its values still text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

use super::FileError;

/// Keys of which a document has at least one if it is meant as a resource: those of an object, and those by which
/// Grafana tells a classic dashboard, but for `tags`, which much else has.
pub(super) const RESOURCE_KEYS: [&str; 4] = ["apiVersion", "kind", "panels", "schemaVersion"];

/// A JSON object whose values are text. A key that appears twice is an error.
pub(super) struct RawObject<'a>(pub(super) Vec<(Cow<'a, str>, &'a RawValue)>);

#[derive(Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields: Vec<(Cow<'de, str>, &'de RawValue)> = Vec::new();
                while let Some(Key(key)) = map.next_key::<Key<'de>>()? {
                    if fields.len() >= MAX_FIELDS {
                        return Err(A::Error::custom("too many keys"));
                    }
                    if fields.iter().any(|(seen, _)| *seen == key) {
                        return Err(A::Error::custom(format_args!("key {key:?} appears twice")));
                    }
                    fields.push((key, map.next_value()?));
                }
                Ok(RawObject(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// Keys of one level; a dashboard has some thirty. Bounds the search for duplicates.
const MAX_FIELDS: usize = 1_000;

/// The part of an object's metadata that a file may decide. The rest belongs to the server and is dropped.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FileMetadata {
    pub(super) name: Option<String>,
    pub(super) generate_name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) labels: Option<BTreeMap<String, String>>,
    pub(super) annotations: Option<BTreeMap<String, String>>,
}

/// A document, read to its outermost level.
pub(super) struct Document<'a> {
    fields: RawObject<'a>,
    api_version: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
}

impl<'a> Document<'a> {
    pub(super) fn read(text: &'a str) -> Result<Self, FileError> {
        match text.trim_start().as_bytes().first() {
            None => return Err(FileError::Empty),
            Some(b'{') => {}
            // Let the parser name what is wrong with it, if it is no JSON at all.
            Some(_) => {
                return Err(match serde_json::from_str::<de::IgnoredAny>(text) {
                    Ok(_) => FileError::NotAResource,
                    Err(error) => FileError::syntax("the document", &error),
                });
            }
        }
        let fields: RawObject<'a> =
            serde_json::from_str(text).map_err(|error| FileError::syntax("the document", &error))?;
        let mut document = Self { fields, api_version: None, kind: None };
        document.api_version = document.string("apiVersion")?;
        document.kind = document.string("kind")?;
        Ok(document)
    }

    pub(super) fn fields(&self) -> &RawObject<'a> {
        &self.fields
    }

    /// A value that is there and not null.
    pub(super) fn get(&self, key: &str) -> Option<&'a RawValue> {
        let (_, value) = self.fields.0.iter().find(|(found, _)| found == key)?;
        Some(*value).filter(|value| value.get() != "null")
    }

    /// A value that must be text if it is there.
    pub(super) fn string(&self, key: &'static str) -> Result<Option<Cow<'a, str>>, FileError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let Key(text) = serde_json::from_str(value.get()).map_err(|error| FileError::syntax(key, &error))?;
        Ok(Some(text))
    }

    /// Group, version and kind; nothing if the document does not say both what it is and in which version.
    pub(super) fn type_meta(&self) -> Option<(&str, &str, &str)> {
        let (Some(api_version), Some(kind)) = (&self.api_version, &self.kind) else { return None };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Some((group, version, kind))
    }

    pub(super) fn metadata(&self) -> Result<FileMetadata, FileError> {
        match self.get("metadata") {
            None => Ok(FileMetadata::default()),
            Some(value) => {
                serde_json::from_str(value.get()).map_err(|error| FileError::syntax("metadata", &error))
            }
        }
    }

    pub(super) fn spec(&self) -> Result<RawObject<'a>, FileError> {
        let value = self.get("spec").ok_or(FileError::Missing { what: "spec" })?;
        if !value.get().starts_with('{') {
            return Err(FileError::NotAnObject { what: "spec" });
        }
        serde_json::from_str(value.get()).map_err(|error| FileError::syntax("spec", &error))
    }
}
