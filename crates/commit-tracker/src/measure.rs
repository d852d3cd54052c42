//! From a step and its commits to observations.

#[cfg(test)]
mod tests;

use jiff::{SignedDuration, Timestamp};

use crate::changes::{Changes, Commit};
use crate::{Instrument, Step};

/// A duration is less than this below zero because times are rounded to seconds, not because clocks differ.
const RESOLUTION: SignedDuration = SignedDuration::from_secs(1);

/// When Git's first commit was made. A date before that is somebody's invention.
pub(crate) const FIRST_COMMIT: Timestamp = Timestamp::constant(1_112_911_993, 0);

/// What a revision's way came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Every observation, in seconds, none below zero.
    pub observations: Vec<(Instrument, f64)>,
    /// Every commit, oldest first, with what became of it.
    pub commits: Vec<MeasuredCommit>,
    /// Commits that were counted.
    pub counted: u64,
    /// Commits that were merged before we count.
    pub baseline: u64,
    /// Commits that were applied before they were merged, by the clocks, or merged before there was Git: not counted.
    pub skewed: u64,
    /// Stages of counted commits and of the revision that took less than no time, by the clocks: not recorded.
    pub skewed_stages: u64,
    /// There were more commits than are taken, and of those that are missing some would have been counted.
    pub truncated: bool,
    /// The end of the first successful run, as it was reckoned with.
    pub ready: Option<Timestamp>,
    /// `ready` is not known exactly.
    pub estimated: bool,
    /// When the source had the revision, as far as it was reckoned with.
    pub seen: Option<Timestamp>,
    /// When it was fetched, likewise.
    pub fetched: Option<Timestamp>,
    /// When it was applied, likewise.
    pub applied: Option<Timestamp>,
}

/// A commit and what was measured of it.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredCommit {
    /// The commit.
    pub commit: Commit,
    /// What became of it.
    pub outcome: CommitOutcome,
    /// From merge to apply, in seconds; also below zero where that is what the clocks say.
    pub end_to_end: f64,
    /// From merge to the exporter's commit, in seconds, where there is an exporter and it was recorded.
    pub export: Option<f64>,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommitOutcome {
    /// It was counted.
    Counted,
    /// It was merged before we count.
    Baseline,
    /// By the clocks it was applied before it was merged, or merged before there was Git.
    Skewed,
}

/// Measures a revision's way. Commits that were merged before `since` are not counted, and a revision that brought no
/// others is not either.
pub fn measure(step: &Step, changes: &Changes, since: Option<Timestamp>) -> Measured {
    let newest = changes.commits.iter().map(|commit| commit.merged).chain(changes.exported).max();
    let (ready, estimated) = ready(step, newest);
    // An artifact that was made anew after all this says nothing of when it was made first.
    let seen = step.seen.filter(|seen| seconds(*seen, step.fetched.unwrap_or(ready)).is_some());
    // What is known of another run is not of this one.
    let of_run = |time: Option<Timestamp>| time.filter(|_| ready == step.ready);
    let (fetched, applied) = (of_run(step.fetched), of_run(step.applied));
    let mut measured =
        Measured { ready: Some(ready), estimated, seen, fetched, applied, ..Measured::default() };
    for commit in &changes.commits {
        measured.commit(commit, changes, ready, seen, since);
    }
    // What is missing is older than what is there: behind one that is not counted no other would be.
    measured.truncated = changes.truncated && measured.baseline == 0;
    let is_baseline =
        measured.counted == 0 && (measured.baseline > 0 || (since.is_some() && measured.skewed == 0));
    if !is_baseline {
        let health = Some(ready).filter(|_| step.health_checked);
        measured.observe(Instrument::Reconcile, changes.exported, Some(ready));
        measured.observe(Instrument::StageFetch, seen, fetched);
        measured.observe(Instrument::StageApply, fetched, applied);
        measured.observe(Instrument::StageHealth, applied.filter(|_| health.is_some()), health);
    }
    measured
}

/// When the revision was ready. It cannot have been before its newest commit was made: then the time is that of an
/// earlier revision with the same manifests.
fn ready(step: &Step, newest: Option<Timestamp>) -> (Timestamp, bool) {
    match newest {
        Some(newest) if seconds(newest, step.ready).is_none() && seconds(newest, step.latest).is_some() => {
            (step.latest, true)
        }
        _ => (step.ready, step.estimated),
    }
}

impl Measured {
    fn commit(
        &mut self,
        commit: &Commit,
        changes: &Changes,
        ready: Timestamp,
        seen: Option<Timestamp>,
        since: Option<Timestamp>,
    ) {
        let end_to_end = seconds(commit.merged, ready);
        let outcome = match end_to_end {
            _ if since.is_some_and(|since| commit.merged < since) => CommitOutcome::Baseline,
            Some(_) if commit.merged >= FIRST_COMMIT => CommitOutcome::Counted,
            _ => CommitOutcome::Skewed,
        };
        let mut export = None;
        match outcome {
            CommitOutcome::Baseline => self.baseline += 1,
            CommitOutcome::Skewed => self.skewed += 1,
            CommitOutcome::Counted => {
                self.counted += 1;
                self.observe(Instrument::EndToEnd, Some(commit.merged), Some(ready));
                // With a revision that Flux skipped, a commit was exported earlier than the revision as a whole.
                let exported = commit.exported.or(changes.exported);
                export = exported.and_then(|exported| seconds(commit.merged, exported));
                self.observe(Instrument::Export, Some(commit.merged), exported);
                self.observe(Instrument::StageSource, exported.or(Some(commit.merged)), seen);
                if let Some(export) = export {
                    self.observations.push((Instrument::StageExport, export));
                }
            }
        }
        let end_to_end = end_to_end.unwrap_or_else(|| ready.duration_since(commit.merged).as_secs_f64());
        self.commits.push(MeasuredCommit { commit: commit.clone(), outcome, end_to_end, export });
    }

    /// Records the time between two points, where both are known.
    fn observe(&mut self, instrument: Instrument, from: Option<Timestamp>, to: Option<Timestamp>) {
        let (Some(from), Some(to)) = (from, to) else { return };
        match seconds(from, to) {
            Some(seconds) => self.observations.push((instrument, seconds)),
            None => self.skewed_stages += 1,
        }
    }
}

/// The time between two points in seconds; none where the second lies before the first.
pub(crate) fn seconds(from: Timestamp, to: Timestamp) -> Option<f64> {
    let between = to.duration_since(from);
    (between > -RESOLUTION).then(|| between.as_secs_f64().max(0.0))
}
