//! The ledger as text: what is in the `ConfigMap`s. `docs/reference/commit-tracker-ledger.md` describes it to people.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::entry::Entry;

/// The format that this version reads and writes. Every change that an older version would lose takes a new number.
pub(super) const FORMAT: u32 = 2;

/// The number of shards: part of the format.
///
/// An entry of a busy Kustomization is about 2 KB, and never above 8 KB. So 10,000 of the busiest make shards of 620 KB,
/// where an API server takes 1 MiB, and what a write rewrites stays at 160 KB when all of them are merely busy.
pub(super) const SHARDS: u8 = 128;

/// The key of a shard's header among the UIDs in `data`.
pub(super) const HEADER: &str = "ledger";

/// What stands between a UID and a time, in the key of what was counted under another kind of source until then.
const SEPARATOR: char = '.';

/// The 32-bit FNV-1a hash.
pub(super) fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The shard of a key: the lowest bits of its UID's hash.
pub(super) fn shard_of(key: &str) -> u8 {
    let uid = key.split(SEPARATOR).next().unwrap_or(key);
    hash(uid).to_le_bytes()[0] % SHARDS
}

/// The key of what a Kustomization was before its series began anew.
pub(super) fn former_key(uid: &str, began: Timestamp) -> String {
    format!("{uid}{SEPARATOR}{}", began.as_second())
}

/// Whether a key is of such.
pub(super) fn is_former(key: &str) -> bool {
    key.contains(SEPARATOR)
}

/// What the head's `data` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// `service.instance.id` of the series.
    pub(super) identity: String,
    /// When the ledger was begun.
    pub(super) began: Timestamp,
}

/// Why a `ConfigMap` could not be read, with the key that is to blame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// A later format.
    Later(String),
    /// The key, and what is wrong.
    Damaged(String, String),
}

impl Unreadable {
    fn damaged(key: &str, what: impl ToString) -> Self {
        Self::Damaged(key.to_owned(), what.to_string())
    }
}

impl Head {
    pub(super) fn data(&self) -> BTreeMap<String, String> {
        let data = [
            ("format", FORMAT.to_string()),
            ("identity", self.identity.clone()),
            ("began", self.began.to_string()),
            ("shards", SHARDS.to_string()),
        ];
        data.map(|(key, value)| (key.to_owned(), value)).into()
    }

    pub(super) fn of(data: &BTreeMap<String, String>) -> Result<Self, Unreadable> {
        let value = |key: &str| data.get(key).ok_or_else(|| Unreadable::damaged(key, "it is missing"));
        let format = value("format")?;
        if *format != FORMAT.to_string() {
            return Err(other_format("format", format));
        }
        if *value("shards")? != SHARDS.to_string() {
            return Err(Unreadable::damaged("shards", format!("format {FORMAT} has {SHARDS}")));
        }
        let identity = value("identity")?.clone();
        if identity.is_empty() {
            return Err(Unreadable::damaged("identity", "it is empty"));
        }
        let began = value("began")?.parse().map_err(|error| Unreadable::damaged("began", error))?;
        Ok(Self { identity, began })
    }
}

/// A later format, or none at all.
fn other_format(key: &str, found: &str) -> Unreadable {
    match found.parse::<u32>() {
        Ok(number) if number > FORMAT => Unreadable::Later(number.to_string()),
        _ => Unreadable::damaged(key, format!("{found:?} is no format")),
    }
}

/// A shard's header.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    format: u32,
    /// The ledger that the shard belongs to.
    pub(super) identity: String,
    pub(super) began: Timestamp,
    /// Which write this is: it tells a writer that got no answer whether its write arrived.
    pub(super) write: String,
}

impl Header {
    pub(super) fn new(head: &Head, write: String) -> Self {
        Self { format: FORMAT, identity: head.identity.clone(), began: head.began, write }
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn of(data: &BTreeMap<String, String>) -> Result<Self, Unreadable> {
        let text = data.get(HEADER).ok_or_else(|| Unreadable::damaged(HEADER, "it is missing"))?;
        let damaged = |error| Unreadable::damaged(HEADER, error);
        let header: Value = serde_json::from_str(text).map_err(damaged)?;
        if header["format"] != FORMAT {
            return Err(other_format(HEADER, &header["format"].to_string()));
        }
        serde_json::from_value(header).map_err(damaged)
    }
}

/// An entry as the value of its UID's key: JSON on one line.
pub(super) fn entry_text(entry: &Entry) -> String {
    // Nothing in it can fail: no map has keys but strings, and nothing is written to but memory.
    serde_json::to_string(entry).unwrap_or_default()
}

/// An entry of its text.
pub(super) fn entry_of(uid: &str, text: &str) -> Result<Entry, Unreadable> {
    let entry: Entry = serde_json::from_str(text).map_err(|error| Unreadable::damaged(uid, error))?;
    let checked = entry.histograms.iter().try_for_each(|(_, histogram)| histogram.check());
    checked.map_err(|error| Unreadable::damaged(uid, error))?;
    Ok(entry.shrunk())
}

#[cfg(test)]
mod tests;
