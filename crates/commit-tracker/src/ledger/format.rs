//! The ledger as text: what is in the `ConfigMap`s. `docs/reference/commit-tracker-ledger.md` describes it to people.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::entry::{Accounted, CommitCounts, Entry, FRONTIER, LastApplied, Outcome, Stuck};
use crate::changes::Problem;
use crate::histogram::{CLASSIC_BUCKETS, Exponential, Histogram, MAX_SCALE};
use crate::{Instrument, SourceKind};

/// The format that this version reads and writes. Every change that an older version would lose takes a new number.
pub(super) const FORMAT: u32 = 1;

/// The number of shards: part of the format.
///
/// An entry of a busy Kustomization is about 2 KB, and never above 8 KB. So 10,000 of the busiest make shards of 620 KB,
/// where an API server takes 1 MiB, and what a write rewrites stays at 160 KB when all of them are merely busy.
pub(super) const SHARDS: u8 = 128;

/// The key of a shard's header among the UIDs in `data`.
pub(super) const HEADER: &str = "ledger";

/// The shard of a UID: the lowest bits of its FNV-1a hash.
pub(super) fn shard_of(uid: &str) -> u8 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    let hash = uid.bytes().fold(0x811c_9dc5, step);
    hash.to_le_bytes()[0] % SHARDS
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
        #[derive(Deserialize)]
        struct Format {
            format: u32,
        }
        let text = data.get(HEADER).ok_or_else(|| Unreadable::damaged(HEADER, "it is missing"))?;
        let Format { format } =
            serde_json::from_str(text).map_err(|error| Unreadable::damaged(HEADER, error))?;
        if format != FORMAT {
            return Err(other_format(HEADER, &format.to_string()));
        }
        serde_json::from_str(text).map_err(|error| Unreadable::damaged(HEADER, error))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryText<'a> {
    namespace: &'a str,
    name: &'a str,
    source: &'a str,
    began: Timestamp,
    /// Left to its own: strings for a revision, pairs for one with its origin.
    accounted: Vec<AccountedText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<LastText>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    stuck: Vec<StuckText>,
    #[serde(default, skip_serializing_if = "CommitsText::is_empty")]
    commits: CommitsText,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    revisions: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    times: BTreeMap<String, TimesText>,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum AccountedText {
    Revision(String),
    WithOrigin(String, Box<str>),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LastText {
    commit: Box<str>,
    merged: Timestamp,
    applied: Timestamp,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StuckText {
    revision: Box<str>,
    problem: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommitsText {
    #[serde(default, skip_serializing_if = "is_zero")]
    counted: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    baseline: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    skewed: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimesText {
    count: u64,
    sum_us: u64,
    classic: [u64; CLASSIC_BUCKETS],
    #[serde(default, skip_serializing_if = "is_zero")]
    zero: u64,
    #[serde(default = "finest", skip_serializing_if = "is_finest")]
    scale: i8,
    /// Runs of buckets: the index of the first, then the counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<Vec<i64>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn finest() -> i8 {
    MAX_SCALE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_finest(scale: &i8) -> bool {
    *scale == MAX_SCALE
}

impl CommitsText {
    fn is_empty(&self) -> bool {
        self.counted == 0 && self.baseline == 0 && self.skewed == 0
    }
}

/// An entry as the value of its UID's key: JSON on one line.
pub(super) fn entry_text(entry: &Entry) -> String {
    let accounted = entry.accounted.iter().map(|Accounted { revision, origin }| match origin {
        None => AccountedText::Revision(revision.as_str().to_owned()),
        Some(origin) => AccountedText::WithOrigin(revision.as_str().to_owned(), origin.clone()),
    });
    let CommitCounts { counted, baseline, skewed } = entry.commits;
    let text = EntryText {
        namespace: &entry.namespace,
        name: &entry.name,
        source: entry.source_kind.name(),
        began: entry.began,
        accounted: accounted.collect(),
        last: entry.last.as_deref().map(|last| LastText {
            commit: last.commit.clone(),
            merged: last.merged,
            applied: last.applied,
        }),
        stuck: entry.stuck.iter().map(stuck_text).collect(),
        commits: CommitsText { counted, baseline, skewed },
        revisions: entry.revisions.iter().map(|(outcome, n)| (outcome.name().to_owned(), *n)).collect(),
        times: entry
            .histograms
            .iter()
            .map(|(own, times)| (own.name().to_owned(), times_text(times)))
            .collect(),
    };
    // Nothing in it can fail: no map has keys but strings, and nothing is written to but memory.
    serde_json::to_string(&text).unwrap_or_default()
}

/// An entry of its text.
pub(super) fn entry_of(uid: &str, text: &str) -> Result<Entry, Unreadable> {
    entry_of_text(text).map_err(|what| Unreadable::damaged(uid, what))
}

fn entry_of_text(text: &str) -> Result<Entry, String> {
    let text: EntryText<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let source_kind =
        SourceKind::of(text.source).ok_or_else(|| format!("{:?} is no kind of source", text.source))?;
    if text.accounted.len() > FRONTIER {
        return Err(format!("{} accounted revisions are more than {FRONTIER}", text.accounted.len()));
    }
    let accounted = text.accounted.into_iter().map(|accounted| {
        let (revision, origin) = match accounted {
            AccountedText::Revision(revision) => (revision, None),
            AccountedText::WithOrigin(revision, origin) => (revision, Some(origin)),
        };
        Ok(Accounted { revision: revision.parse().map_err(|error| format!("{error}"))?, origin })
    });
    let mut revisions = text.revisions.into_iter().map(|(name, count)| {
        let outcome = Outcome::all().find(|outcome| outcome.name() == name);
        Ok((outcome.ok_or_else(|| format!("{name:?} is no outcome"))?, count))
    });
    let mut revisions = revisions.by_ref().collect::<Result<Vec<_>, String>>()?;
    revisions.sort_unstable();
    let mut histograms = Vec::with_capacity(text.times.len());
    for (name, times) in text.times {
        let instrument = Instrument::of(&name).ok_or_else(|| format!("{name:?} is no metric"))?;
        histograms.push((instrument, times_of(times).map_err(|what| format!("{name}: {what}"))?));
    }
    histograms.sort_unstable_by_key(|(instrument, _)| *instrument);
    Ok(Entry {
        namespace: text.namespace.into(),
        name: text.name.into(),
        source_kind,
        began: text.began,
        accounted: accounted.collect::<Result<_, String>>()?,
        stuck: text.stuck.into_iter().map(stuck_of).collect::<Result<_, String>>()?,
        last: text
            .last
            .map(|LastText { commit, merged, applied }| Box::new(LastApplied { commit, merged, applied })),
        histograms,
        commits: CommitCounts {
            counted: text.commits.counted,
            baseline: text.commits.baseline,
            skewed: text.commits.skewed,
        },
        revisions,
    })
}

fn stuck_text(stuck: &Stuck) -> StuckText {
    StuckText { revision: stuck.revision.as_str().into(), problem: stuck.problem.name().to_owned() }
}

fn stuck_of(StuckText { revision, problem }: StuckText) -> Result<Stuck, String> {
    let found = Problem::ALL.into_iter().find(|known| known.name() == problem);
    let problem = found.ok_or_else(|| format!("{problem:?} is no problem"))?;
    Ok(Stuck { revision: revision.parse().map_err(|error| format!("{error}"))?, problem })
}

/// Gaps of so many empty buckets are written out: a new run would take more room.
const GAP: usize = 3;

fn times_text(histogram: &Histogram) -> TimesText {
    let exponential = histogram.exponential();
    let mut buckets: Vec<Vec<i64>> = Vec::new();
    let mut empty = usize::MAX;
    for (index, count) in (exponential.offset()..).zip(exponential.counts()) {
        if *count == 0 {
            empty = empty.saturating_add(1);
            continue;
        }
        match buckets.last_mut() {
            Some(run) if empty <= GAP => run.extend(std::iter::repeat_n(0, empty)),
            _ => buckets.push(vec![i64::from(index)]),
        }
        empty = 0;
        if let Some(run) = buckets.last_mut() {
            run.push(i64::from(*count));
        }
    }
    TimesText {
        count: histogram.count(),
        sum_us: u64::try_from(histogram.sum_exactly().as_micros()).unwrap_or(u64::MAX),
        classic: *histogram.classic(),
        zero: histogram.zero_count(),
        scale: exponential.scale(),
        buckets,
    }
}

fn times_of(text: TimesText) -> Result<Histogram, String> {
    let mut counts: Vec<u32> = Vec::new();
    let mut offset = 0;
    for run in &text.buckets {
        let (Some(index), true) = (run.first().and_then(|index| i32::try_from(*index).ok()), run.len() > 1)
        else {
            return Err(format!("{run:?} is no run of buckets"));
        };
        if counts.is_empty() {
            offset = index;
        }
        let place = usize::try_from(i64::from(index) - i64::from(offset)).unwrap_or(usize::MAX);
        if place < counts.len() || place > crate::histogram::MAX_SIZE {
            return Err(format!("a run of buckets begins at {index}, out of order or too far off"));
        }
        counts.resize(place, 0);
        for count in &run[1..] {
            counts.push(u32::try_from(*count).map_err(|_| format!("{count} is no count"))?);
        }
    }
    let exponential = Exponential::of_parts(text.scale, offset, counts)?;
    let histogram = Histogram::of_parts(text.sum_us, text.classic, text.zero, exponential)?;
    if histogram.count() != text.count {
        return Err(format!("the count is {}, and the buckets hold {}", text.count, histogram.count()));
    }
    Ok(histogram)
}

#[cfg(test)]
mod tests;
