//! The exporter's payload: which commits went into one export, as `exporter-info.json` or a layer of an artifact says.
//!
//! Keys are matched in any case: the first generation of exporters wrote `Hash` and `Message`, later ones `hash` and
//! `summary`. Unknown keys are ignored.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, Visitor};
use windlass_http_client::printable;

use super::{Changes, ChangesError, Commit, Problem};

/// Characters of a commit's hash.
const MAX_HASH: usize = 128;
/// Characters that are kept of a subject line, a name or a link.
const MAX_TEXT: usize = 512;

/// What one export says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExporterInfo {
    /// The commit that the exporter made of it (`commit`).
    pub commit: Option<String>,
    /// The exporter's commit before that one (`previous_commit`), where the exporter says: then a gap shows.
    pub previous_commit: Option<String>,
    /// What was exported (`commits_since_last_export`), oldest first, each hash once.
    pub commits: Vec<Commit>,
    /// The exporter's build (`export_build_link`).
    pub build_link: Option<String>,
    /// The W3C trace context of the build (`traceparent`).
    pub traceparent: Option<String>,
    /// There were more commits.
    pub truncated: bool,
}

impl ExporterInfo {
    /// Reads a payload, of more than `max` commits the newest. `place` says where it is from, for messages.
    ///
    /// # Errors
    /// [`Problem::Malformed`], with line and column: not JSON, no object with any of the payload's keys, a commit without
    /// `hash` or `time`, or a time that is not RFC 3339.
    pub fn parse(payload: &[u8], place: &str, max: usize) -> Result<Self, ChangesError> {
        let Wire(mut info) = serde_json::from_slice(payload).map_err(|error| {
            let detail = printable(&error.to_string(), MAX_TEXT);
            ChangesError::new(
                Problem::Malformed,
                format!("failed to read the exporter's payload of {place}: {detail}"),
            )
        })?;
        let mut seen = HashSet::with_capacity(info.commits.len());
        info.commits.retain(|commit| seen.insert(commit.id.clone()));
        info.commits.sort_by_key(|commit| commit.merged);
        let surplus = info.commits.len().saturating_sub(max);
        info.truncated = surplus > 0;
        info.commits.drain(..surplus);
        Ok(info)
    }

    /// The same as an answer. `exported` is when the exporter made its commit, where that is known.
    pub fn into_changes(self, exported: Option<Timestamp>) -> Changes {
        Changes {
            commits: self.commits,
            exported_as: self.commit,
            exported,
            build_link: self.build_link,
            traceparent: self.traceparent,
            truncated: self.truncated,
            ..Changes::default()
        }
    }
}

/// The payload as it is read.
struct Wire(ExporterInfo);

impl<'de> Deserialize<'de> for Wire {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WireVisitor).map(Self)
    }
}

struct WireVisitor;

impl<'de> Visitor<'de> for WireVisitor {
    type Value = ExporterInfo;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with commit and commits_since_last_export")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut info, mut recognised) = (ExporterInfo::default(), false);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.to_ascii_lowercase().as_str() {
                "commit" => {
                    info.commit = hash::<A::Error>(map.next_value()?)?;
                    recognised = true;
                }
                "previous_commit" => info.previous_commit = hash::<A::Error>(map.next_value()?)?,
                "commits_since_last_export" => {
                    let commits: Option<Vec<WireCommit>> = map.next_value()?;
                    info.commits = commits.into_iter().flatten().map(|WireCommit(commit)| commit).collect();
                    recognised = true;
                }
                "export_build_link" => info.build_link = text(map.next_value()?),
                "traceparent" => info.traceparent = text(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if recognised {
            return Ok(info);
        }
        Err(de::Error::custom("it has neither commit nor commits_since_last_export"))
    }
}

struct WireCommit(Commit);

impl<'de> Deserialize<'de> for WireCommit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CommitVisitor).map(Self)
    }
}

struct CommitVisitor;

impl<'de> Visitor<'de> for CommitVisitor {
    type Value = Commit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a commit with hash and time")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut id, mut merged, mut summary, mut author, mut traceparent) = (None, None, None, None, None);
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.to_ascii_lowercase().as_str() {
                "hash" => id = hash::<A::Error>(map.next_value()?)?,
                "time" => merged = time::<A::Error>(map.next_value()?)?,
                "summary" | "message" => summary = text(map.next_value()?),
                "author" => author = text(map.next_value()?),
                "traceparent" => traceparent = text(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Commit {
            id: id.ok_or_else(|| de::Error::missing_field("hash"))?,
            merged: merged.ok_or_else(|| de::Error::missing_field("time"))?,
            summary: summary.unwrap_or_default(),
            author: author.unwrap_or_default(),
            traceparent: traceparent.map(Into::into),
            exported: None,
        })
    }
}

/// A hash, or nothing for an empty one.
fn hash<E: de::Error>(value: Option<Cow<'_, str>>) -> Result<Option<String>, E> {
    let Some(value) = value.as_deref().map(str::trim).filter(|value| !value.is_empty()) else {
        return Ok(None);
    };
    if value.len() > MAX_HASH || !value.chars().all(|c| c.is_ascii_graphic()) {
        return Err(E::custom(format_args!("a commit's hash is at most {MAX_HASH} printable characters")));
    }
    Ok(Some(value.to_owned()))
}

fn time<E: de::Error>(value: Option<Cow<'_, str>>) -> Result<Option<Timestamp>, E> {
    let Some(value) = value else { return Ok(None) };
    let parsed = value.parse().map_err(|_| {
        E::custom(format_args!(
            "{:?} is no time in RFC 3339, such as 2026-03-04T09:15:00Z",
            printable(&value, 64)
        ))
    })?;
    Ok(Some(parsed))
}

/// The first line, or nothing for an empty one.
fn text(value: Option<Cow<'_, str>>) -> Option<String> {
    let line = value.as_deref()?.trim().lines().next()?.trim();
    (!line.is_empty()).then(|| printable(line, MAX_TEXT))
}

#[cfg(test)]
mod tests;
