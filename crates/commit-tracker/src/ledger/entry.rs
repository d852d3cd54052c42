//! What is remembered of one Kustomization, and how a record changes it.

use jiff::Timestamp;

use super::Refusal;
use crate::changes::Problem;
use crate::histogram::Histogram;
use crate::{Instrument, Revision, SourceKind};

/// How many accounted revisions are remembered of each Kustomization.
pub const FRONTIER: usize = 16;

/// How many revisions that could not be looked into are remembered of each: more than a Kustomization remembers of what it
/// applied.
const STUCK: usize = 8;

/// What is remembered of one Kustomization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// The kind of its source, as of the newest record.
    pub source_kind: SourceKind,
    /// When it was seen first: its cumulative series start then.
    pub began: Timestamp,
    /// The revisions that are accounted for, at most [`FRONTIER`] of them, the one that was applied last at the end.
    pub accounted: Vec<Accounted>,
    /// The revisions that could not be looked into for good and are not behind it yet, at most eight, in the order in which
    /// they were applied. Each is counted once, however often it is tried again.
    pub stuck: Vec<Stuck>,
    /// The newest commit that is applied.
    pub last: Option<Box<LastApplied>>,
    /// Its durations; only what was observed, in the order of [`Instrument`].
    pub histograms: Vec<(Instrument, Histogram)>,
    /// Its commits by what came of them.
    pub commits: CommitCounts,
    /// Its revisions by what came of them; only what occurred, in the order of [`Outcome`].
    pub revisions: Vec<(Outcome, u64)>,
}

/// A revision that is accounted for: what it holds was counted, or is baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounted {
    /// The revision.
    pub revision: Revision,
    /// The revision of the origin that it was built from.
    pub origin: Option<Box<str>>,
}

/// A revision that could not be looked into, and cannot be until something changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The revision.
    pub revision: Revision,
    /// Why.
    pub problem: Problem,
}

/// The newest commit that is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastApplied {
    /// Its hash.
    pub commit: Box<str>,
    /// When it was merged.
    pub merged: Timestamp,
    /// When it was applied.
    pub applied: Timestamp,
}

/// Commits by what came of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The kind of its source.
    pub source_kind: SourceKind,
    /// The newest accounted revision when this was worked out ([`Entry::newest`]); none for the first sight.
    pub from: Option<Revision>,
    /// The revision that is accounted for from now on; none when it stays as it is, and only `stuck` is said.
    pub to: Option<Accounted>,
    /// Durations, in seconds.
    pub observations: Vec<(Instrument, f64)>,
    /// Commits.
    pub commits: CommitCounts,
    /// What came of the revision; none when it is not to be counted. A failure is not when all of `stuck` is remembered
    /// already.
    pub outcome: Option<Outcome>,
    /// The newest commit that is applied; none leaves what is known.
    pub last: Option<LastApplied>,
    /// Where it is stuck from now on, all of it; at most eight, of more the newest.
    pub stuck: Vec<Stuck>,
}

impl Entry {
    /// The revision that was accounted for last.
    pub fn newest(&self) -> Option<&Revision> {
        self.accounted.last().map(|accounted| &accounted.revision)
    }

    /// The histogram of an instrument, where anything was observed.
    pub fn histogram(&self, instrument: Instrument) -> Option<&Histogram> {
        self.histograms.iter().find(|(own, _)| *own == instrument).map(|(_, histogram)| histogram)
    }

    /// Of a Kustomization that was not seen before.
    fn first(record: &Record, now: Timestamp) -> Self {
        Self {
            namespace: record.namespace.as_str().into(),
            name: record.name.as_str().into(),
            source_kind: record.source_kind,
            began: now,
            accounted: Vec::new(),
            stuck: Vec::new(),
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
        if newest != record.from.as_ref() {
            return Err(Refusal::Outdated {
                from: record.from.as_ref().map(ToString::to_string),
                newest: newest.map(ToString::to_string),
            });
        }
        let known = entry.is_some_and(|entry| {
            record.to.is_none() && entry.stuck == record.stuck && !record.stuck.is_empty()
        });
        if known {
            return Ok(None);
        }
        let mut next = entry.cloned().unwrap_or_else(|| Self::first(record, now));
        next.namespace = record.namespace.as_str().into();
        next.name = record.name.as_str().into();
        if next.source_kind != record.source_kind {
            next.restart(record.source_kind, now);
        }
        if let Some(to) = &record.to {
            next.account(to.clone());
        }
        for (instrument, seconds) in &record.observations {
            next.histogram_mut(*instrument).add(*seconds).map_err(Refusal::Observation)?;
        }
        next.commits.counted += record.commits.counted;
        next.commits.baseline += record.commits.baseline;
        next.commits.skewed += record.commits.skewed;
        if let Some(outcome) = record.outcome
            && !(matches!(outcome, Outcome::Failed(_)) && next.knows(&record.stuck))
        {
            next.count(outcome);
        }
        if let Some(last) = &record.last {
            next.last = Some(Box::new(last.clone()));
        }
        next.stuck = record.stuck[record.stuck.len().saturating_sub(STUCK)..].to_vec();
        Ok(Some(next))
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
    fn account(&mut self, to: Accounted) {
        self.accounted.retain(|accounted| accounted.revision != to.revision);
        if self.accounted.len() >= FRONTIER {
            self.accounted.drain(..=self.accounted.len() - FRONTIER);
        }
        self.accounted.reserve_exact(1);
        self.accounted.push(to);
    }

    /// Whether it is remembered of all of these that they could not be looked into, for whatever reason.
    fn knows(&self, stuck: &[Stuck]) -> bool {
        stuck.iter().all(|stuck| self.stuck.iter().any(|known| known.revision == stuck.revision))
    }

    fn histogram_mut(&mut self, instrument: Instrument) -> &mut Histogram {
        let place = match self.histograms.binary_search_by_key(&instrument, |(own, _)| *own) {
            Ok(place) => place,
            Err(place) => {
                self.histograms.insert(place, (instrument, Histogram::default()));
                place
            }
        };
        &mut self.histograms[place].1
    }

    fn count(&mut self, outcome: Outcome) {
        match self.revisions.binary_search_by_key(&outcome, |(own, _)| *own) {
            Ok(place) => self.revisions[place].1 += 1,
            Err(place) => self.revisions.insert(place, (outcome, 1)),
        }
    }
}
