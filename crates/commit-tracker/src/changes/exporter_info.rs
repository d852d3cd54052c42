//! The exporter's payload: which commits went into one export, as `exporter-info.json` or a layer of an artifact says.
//!
//! The first generation of exporters wrote `Hash` and `Message`, later ones `hash` and `summary`. Unknown keys are ignored.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::Deserialize;
use windlass_http_client::printable;

use super::{Changes, ChangesError, Commit, Problem};

/// Characters of a commit's hash.
const MAX_HASH: usize = 128;
/// Characters that are kept of a subject line, a name or a link.
const MAX_TEXT: usize = 512;

/// Reads a payload, of more than `max` commits the newest. `place` says where it is from, for messages. When it was exported
/// it does not say.
///
/// # Errors
/// [`Problem::Malformed`], with line and column: not JSON, no object with any of the payload's keys, a commit without
/// `hash` or `time`, or a time that is not RFC 3339.
pub(super) fn parse(payload: &[u8], place: &str, max: usize) -> Result<Changes, ChangesError> {
    let malformed = |detail: &str| {
        let detail = printable(detail, MAX_TEXT);
        let text = format!("failed to read the exporter's payload of {place}: {detail}");
        ChangesError::new(Problem::Malformed, text)
    };
    let wire: Wire = serde_json::from_slice(payload).map_err(|error| malformed(&error.to_string()))?;
    if wire.commit.is_none() && wire.commits_since_last_export.is_none() {
        return Err(malformed("it has neither commit nor commits_since_last_export"));
    }
    let mut commits: Vec<_> =
        wire.commits_since_last_export.into_iter().flatten().map(Commit::from).collect();
    let mut seen = HashSet::with_capacity(commits.len());
    commits.retain(|commit| seen.insert(commit.id.clone()));
    commits.sort_by_key(|commit| commit.merged);
    let surplus = commits.len().saturating_sub(max);
    commits.drain(..surplus);
    Ok(Changes {
        commits,
        exported_as: wire.commit.map(|commit| commit.0),
        build_link: text(wire.export_build_link),
        traceparent: text(wire.traceparent),
        truncated: surplus > 0,
        ..Changes::default()
    })
}

/// The payload as it is written.
#[derive(Deserialize)]
struct Wire {
    #[serde(alias = "Commit")]
    commit: Option<Hash>,
    commits_since_last_export: Option<Vec<WireCommit>>,
    export_build_link: Option<String>,
    traceparent: Option<String>,
}

#[derive(Deserialize)]
struct WireCommit {
    #[serde(alias = "Hash")]
    hash: Hash,
    #[serde(alias = "Time")]
    time: Timestamp,
    summary: Option<String>,
    #[serde(alias = "Message")]
    message: Option<String>,
    #[serde(alias = "Author")]
    author: Option<String>,
    traceparent: Option<String>,
}

/// What can name a commit.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Hash(String);

impl TryFrom<String> for Hash {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_hash = (1..=MAX_HASH).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic());
        is_hash.then_some(Self(text)).ok_or_else(|| format!("a hash is 1 to {MAX_HASH} printable characters"))
    }
}

impl From<WireCommit> for Commit {
    fn from(wire: WireCommit) -> Self {
        Self {
            id: wire.hash.0,
            merged: wire.time,
            summary: text(wire.summary.or(wire.message)).unwrap_or_default(),
            author: text(wire.author).unwrap_or_default(),
            traceparent: text(wire.traceparent).map(Into::into),
            exported: None,
        }
    }
}

/// The first line, or nothing for an empty one.
fn text(value: Option<String>) -> Option<String> {
    let line = value.as_deref()?.trim().lines().next()?.trim();
    (!line.is_empty()).then(|| printable(line, MAX_TEXT))
}

#[cfg(test)]
mod tests;
