//! What is remembered of one Kustomization, and how a record changes it.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use windlass_runtime::ObjectKey;

use super::Refusal;
use crate::changes::{Accounted, Problem};
use crate::histogram::Histogram;
use crate::{Algorithm, Instrument, Revision, SourceKind, Step};

/// How many accounted revisions are remembered in full of each Kustomization.
pub const FRONTIER: usize = 16;

/// How many accounted artifacts before those are remembered by a number each.
const OLDER: usize = 240;

/// How many revisions wait to be looked into at most: their commits come with the next ones otherwise.
const PENDING: usize = 16;

/// What is remembered of one Kustomization.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its namespace and name: the key that its object has in memory, and not an equal one.
    #[serde(flatten, serialize_with = "KeyText::serialize", deserialize_with = "key")]
    pub key: Arc<ObjectKey>,
    /// The kind of its source, as of the newest record.
    #[serde(rename = "source")]
    pub source_kind: SourceKind,
    /// When it was seen first: its cumulative series start then.
    pub began: Timestamp,
    /// The revisions that are accounted for, at most [`FRONTIER`] of them, the one that was applied last at the end.
    pub accounted: Vec<Accounted>,
    /// [Marks](mark) of artifacts that were accounted for before those, or were skipped and counted with a later one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older: Vec<u32>,
    /// The revisions that were applied and are not accounted for yet, in the order in which they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Pending>,
    /// The newest commit that is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Box<LastApplied>>,
    /// Its durations; only what was observed, in the order of [`Instrument`].
    #[serde(rename = "times", default, skip_serializing_if = "Vec::is_empty")]
    pub histograms: Vec<(Instrument, Histogram)>,
    /// Its commits by what came of them.
    #[serde(default)]
    pub commits: CommitCounts,
    /// Its revisions by what came of them; only what occurred, in the order of [`Outcome`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revisions: Vec<(Outcome, u64)>,
}

/// An entry's key as it is written: two fields among the others. Serde promises nothing of `flatten` beside
/// `deny_unknown_fields`; a test has an entry with an unknown field.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ObjectKey")]
struct KeyText {
    namespace: String,
    name: String,
}

fn key<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<ObjectKey>, D::Error> {
    KeyText::deserialize(deserializer).map(Arc::new)
}

/// A revision whose commits are not known yet, with its times as they were when it was seen first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// The revision and its times.
    pub step: Step,
    /// Why it could not be looked into, and cannot be until something changes. It was counted then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// The newest commit that is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastApplied {
    /// Its hash.
    pub commit: Box<str>,
    /// When it was merged.
    pub merged: Timestamp,
    /// When it was applied.
    pub applied: Timestamp,
}

/// Commits by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitCounts {
    /// Those whose durations are in the histograms.
    pub counted: u64,
    /// Those that were there before the tracker was.
    pub baseline: u64,
    /// Those whose duration would be negative, since two clocks disagree.
    pub skewed: u64,
}

impl CommitCounts {
    /// Each count with its outcome, as [`crate::metrics::COMMIT_OUTCOMES`] names it.
    pub fn by_outcome(&self) -> [(&'static str, u64); 3] {
        [("counted", self.counted), ("baseline", self.baseline), ("skewed", self.skewed)]
    }
}

/// What came of looking into a revision: the values of `outcome` of the counter of revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its commits were counted.
    Measured,
    /// It was there before the tracker was.
    Baseline,
    /// It brought no new commit.
    Empty,
    /// What was accounted before is no ancestor of it.
    Rewritten,
    /// It brought more commits than are taken: the newest were counted, and older ones are lost.
    Truncated,
    /// Its commits were counted, and nothing tells whether revisions that Flux skipped had more.
    Incomplete,
    /// It could not be looked into, for good.
    #[serde(untagged)]
    Failed(Problem),
}

impl Outcome {
    /// Every outcome. Problems that are retried are none.
    pub fn all() -> impl Iterator<Item = Self> {
        let failed = Problem::ALL.into_iter().filter(|problem| problem.is_permanent()).map(Self::Failed);
        let looked_into =
            [Self::Measured, Self::Baseline, Self::Empty, Self::Rewritten, Self::Truncated, Self::Incomplete];
        looked_into.into_iter().chain(failed)
    }

    /// Its name in metrics and in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Baseline => "baseline",
            Self::Empty => "empty",
            Self::Rewritten => "rewritten",
            Self::Truncated => "truncated",
            Self::Incomplete => "incomplete",
            Self::Failed(problem) => problem.name(),
        }
    }
}

/// What is to be remembered of a Kustomization, all of it or nothing.
#[derive(Clone, Debug)]
pub struct Record {
    /// The Kustomization's UID.
    pub uid: Arc<str>,
    /// Its namespace and name.
    pub key: Arc<ObjectKey>,
    /// The kind of its source.
    pub source_kind: SourceKind,
    /// The newest accounted revision when this was worked out ([`Entry::newest`]); none for the first sight.
    pub from: Option<Revision>,
    /// The revision that is accounted for from now on; none when it stays as it is.
    pub to: Option<Accounted>,
    /// [Marks](mark) of artifacts that are accounted for with it.
    pub skipped: Vec<u32>,
    /// Durations, in seconds.
    pub observations: Vec<(Instrument, f64)>,
    /// Commits.
    pub commits: CommitCounts,
    /// What came of the revision; none when it is not to be counted.
    pub outcome: Option<Outcome>,
    /// The newest commit that is applied; none leaves what is known.
    pub last: Option<LastApplied>,
    /// What waits from now on, all of it; of more than are kept the newest.
    pub pending: Vec<Pending>,
}

/// A number that stands for an artifact; none for a commit of Git, whose history says what is new.
pub fn mark(revision: &Revision) -> Option<u32> {
    let is_commit = revision.algorithm() == Some(Algorithm::Sha1);
    (!is_commit).then(|| mark_of(revision.digest().unwrap_or(revision.as_str())))
}

/// The mark of a digest, without what it was made with: its 32-bit FNV-1a hash.
pub fn mark_of(digest: &str) -> u32 {
    super::format::hash(digest)
}

impl Entry {
    /// The revision that was accounted for last.
    pub fn newest(&self) -> Option<&Revision> {
        self.accounted.last().map(|accounted| &accounted.revision)
    }

    /// Whether a revision is accounted for, also long ago.
    pub fn accounts_for(&self, revision: &Revision) -> bool {
        self.accounted.iter().any(|known| known.revision == *revision)
            || mark(revision).is_some_and(|mark| self.older.contains(&mark))
    }

    /// The histogram of an instrument, where anything was observed.
    pub fn histogram(&self, instrument: Instrument) -> Option<&Histogram> {
        self.histograms.iter().find(|(own, _)| *own == instrument).map(|(_, histogram)| histogram)
    }

    /// Of a Kustomization that was not seen before.
    fn first(record: &Record, now: Timestamp) -> Self {
        Self {
            key: Arc::clone(&record.key),
            source_kind: record.source_kind,
            began: now,
            accounted: Vec::new(),
            older: Vec::new(),
            pending: Vec::new(),
            last: None,
            histograms: Vec::new(),
            commits: CommitCounts::default(),
            revisions: Vec::new(),
        }
    }

    /// What `entry` is after `record`; none when the record says nothing new.
    pub(super) fn after(
        entry: Option<&Self>,
        record: &Record,
        now: Timestamp,
    ) -> Result<Option<Self>, Refusal> {
        let newest = entry.and_then(Self::newest);
        if record.from.as_ref() != newest {
            let shown = |revision: Option<&Revision>| revision.map_or("nothing", Revision::as_str).to_owned();
            return Err(Refusal::Outdated { from: shown(record.from.as_ref()), newest: shown(newest) });
        }
        let mut next = entry.cloned().unwrap_or_else(|| Self::first(record, now));
        next.key = Arc::clone(&record.key);
        if next.source_kind != record.source_kind {
            next.restart(record.source_kind, now);
        }
        if let Some(to) = &record.to {
            next.account(to.clone(), &record.skipped);
        }
        for (instrument, seconds) in &record.observations {
            of(&mut next.histograms, *instrument).add(*seconds).map_err(Refusal::Observation)?;
        }
        next.commits.counted += record.commits.counted;
        next.commits.baseline += record.commits.baseline;
        next.commits.skewed += record.commits.skewed;
        if let Some(outcome) = record.outcome {
            *of(&mut next.revisions, outcome) += 1;
        }
        if let Some(last) = &record.last {
            next.last = Some(Box::new(last.clone()));
        }
        next.pending = record.pending[record.pending.len().saturating_sub(PENDING)..].to_vec();
        Ok((entry != Some(&next)).then_some(next))
    }

    /// Begins new series. The kind is one of their attributes: what was counted under another kind is told there already.
    fn restart(&mut self, kind: SourceKind, now: Timestamp) {
        self.source_kind = kind;
        self.began = now;
        self.histograms.clear();
        self.commits = CommitCounts::default();
        self.revisions.clear();
    }

    /// Puts a revision at the end; one that was there already moves.
    fn account(&mut self, to: Accounted, skipped: &[u32]) {
        self.accounted.retain(|accounted| accounted.revision != to.revision);
        let surplus = (self.accounted.len() + 1).saturating_sub(FRONTIER);
        let left = self.accounted.drain(..surplus).filter_map(|left| mark(&left.revision));
        self.older.extend(left.chain(skipped.iter().copied()));
        self.older.drain(..self.older.len().saturating_sub(OLDER));
        self.accounted.reserve_exact(1);
        self.accounted.push(to);
    }

    /// Without the room that reading left.
    pub(super) fn shrunk(mut self) -> Self {
        self.accounted.shrink_to_fit();
        self.older.shrink_to_fit();
        self.pending.shrink_to_fit();
        self.histograms.shrink_to_fit();
        self.revisions.shrink_to_fit();
        self
    }
}

/// The value of a key, which has a place of its own in the list's order.
fn of<K: Ord, V: Default>(list: &mut Vec<(K, V)>, key: K) -> &mut V {
    let place = list.binary_search_by(|(own, _)| own.cmp(&key)).unwrap_or_else(|place| {
        list.reserve_exact(1);
        list.insert(place, (key, V::default()));
        place
    });
    &mut list[place].1
}
