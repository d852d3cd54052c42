//! What a Kustomization and its source say: which revision was fetched, applied and healthy, and when.
//!
//! Everything here is a pure function of the objects, so that a tracker that comes back later reads the same.
//!
//! # What kustomize-controller writes (1.9), and when
//!
//! A run of revision R, in order:
//!
//! 1. `Ready=Unknown/Progressing`. At every run, interval runs included: this moves `Ready`'s `lastTransitionTime`, which
//!    is therefore the end of the *latest* run and not that of the first one of R.
//! 2. The artifact is fetched: `lastAttemptedRevision = R`.
//! 3. Everything is applied. Where health is waited for, `Healthy=Unknown/Progressing` then, and in the end
//!    `Healthy=True` with the message `Health check passed in 5.01s`: so the end of the apply is known to the
//!    millisecond, until the next run replaces the message.
//! 4. The end: `Ready=True/ReconciliationSucceeded`, `lastAppliedRevision = R`, and a snapshot in `history`. Conditions go
//!    out in a patch of their own, just before the rest: for a moment `Ready` speaks of R and all else of its predecessor.
//!
//! A snapshot of `history` stands for all runs that built the *same manifests* and ended the *same way*. A further such
//! run counts it up, moves `lastReconciled`, and replaces the duration and the revision; only `firstReconciled` stays.
//! Failed runs have snapshots too (apply, health), but not those that failed at fetching or building. Times have whole
//! seconds and are cut off, durations are exact; the time of a snapshot is the end of a run.
//!
//! # Which time is R's
//!
//! `firstReconciled` is the end of R's first successful run unless an earlier revision had built the same manifests: R
//! changed nothing here, or reverted something. Then it lies before another snapshot that is older than this one (the
//! revision in between), or before the source had R at all, or before R's newest commit was merged (which only
//! [`measure`](crate::measure()) knows). In these cases R ended first at `lastReconciled` if no interval run can have been
//! since: that is so when less than an interval lies between it and the time from which R could be applied. Otherwise
//! interval runs have overwritten the time, and what remains is an estimate: when the source had R, plus the length of a
//! run. [`Step::estimated`] says so.
//!
//! Whole seconds that were cut off are taken at their middle, so that they are at most half a second off. Within the same
//! second the order of what the source and the applier did is not known: a run that followed the first within two seconds
//! is taken for the revision's own, which is at most that far off.
//!
//! What was superseded has no source any more that would say since when: [`Step::latest`] bounds it, and
//! [`measure`](crate::measure()) moves it there when its newest commit was merged after `ready`.
//!
//! What cannot be known afterwards is absent: a first run's start and the end of its apply, when interval runs have
//! replaced the duration and the message.

mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use windlass_runtime::ObjectKey;

use crate::intern::intern;
use crate::objects::{ConditionStatus, Kustomization, Source};
use crate::{Revision, SourceKey};

/// Half of a second that was cut off.
const HALF: SignedDuration = SignedDuration::from_millis(500);

/// What a Kustomization says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its namespace and name.
    pub key: Arc<ObjectKey>,
    /// Which object of that name it is.
    pub uid: Arc<str>,
    /// When it was made.
    pub created: Option<Timestamp>,
    /// The source that it applies; none where it names no kind that we know.
    pub source: Option<SourceKey>,
    /// The revisions that it applied, as far as it knows them still, oldest first; the last is the one that it applied last.
    pub steps: Vec<Step>,
    /// The first of `steps` is the first that it ever applied: it remembers nothing else, and either its first runs or
    /// its first hour.
    pub whole: bool,
    /// The revision that it fetched last.
    pub attempted: Option<Revision>,
    /// Why its last run failed.
    pub failing: Option<String>,
    /// It does nothing until somebody resumes it.
    pub suspended: bool,
    /// It is being deleted.
    pub deleted: bool,
}

/// A revision that was applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The revision.
    pub revision: Revision,
    /// The revision of the origin that it was built from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// When the source had it, as far as the source still says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Timestamp>,
    /// When a run began to fetch it, for the first time that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<Timestamp>,
    /// When it was applied; the same as `ready` where no health was waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Timestamp>,
    /// The end of its first successful run.
    pub ready: Timestamp,
    /// The latest that the end of its first successful run can have been; the same as `ready` where that is certain.
    pub latest: Timestamp,
    /// Whether the run waited for health.
    pub health_checked: bool,
    /// `ready` is not known exactly: interval runs have overwritten it.
    pub estimated: bool,
    /// Its snapshot had runs before, which may have been of revisions that are forgotten now.
    pub replaced: bool,
}

/// What a Kustomization says. Its source, where it is known, tells from when on its revision could be applied.
pub fn standing(kustomization: &Kustomization, source: Option<&Source>) -> Standing {
    let metadata = &kustomization.metadata;
    let status = &kustomization.status;
    let steps = steps::steps(kustomization, source);
    let failing = status.ready.as_ref().filter(|ready| ready.status == ConditionStatus::False);
    Standing {
        uid: Arc::clone(&metadata.uid),
        created: metadata.created,
        source: source_of(kustomization),
        whole: steps.first().is_none_or(|first| steps::is_first(kustomization, first)),
        steps,
        attempted: revision(status.last_attempted_revision.as_deref()),
        failing: failing.map(|ready| format!("{}: {}", ready.reason, ready.message)),
        suspended: kustomization.spec.suspend,
        deleted: metadata.deleted,
        key: Arc::clone(&metadata.key),
    }
}

/// The source that a Kustomization names, in its own namespace unless it says another; none where it names no kind that
/// we know.
pub fn source_of(kustomization: &Kustomization) -> Option<SourceKey> {
    let named = &kustomization.spec.source_ref;
    Some(SourceKey {
        kind: named.kind?,
        namespace: named.namespace.clone().unwrap_or_else(|| intern(&kustomization.metadata.key.namespace)),
        name: named.name.clone()?,
    })
}

impl Source {
    /// The revision that it has now.
    pub fn revision(&self) -> Option<Revision> {
        revision(self.status.artifact.as_ref().map(|artifact| &*artifact.revision))
    }

    /// When it had this revision; none where it has another now. It may have made the artifact anew since.
    pub fn seen(&self, revision: &Revision) -> Option<Timestamp> {
        let updated = self.status.artifact.as_ref()?.last_update_time.map(middle)?;
        (self.revision().as_ref() == Some(revision)).then_some(updated)
    }
}

fn revision(text: Option<&str>) -> Option<Revision> {
    text?.parse().ok()
}

/// The middle of the second that a time was cut off at.
fn middle(time: Timestamp) -> Timestamp {
    if time.subsec_nanosecond() == 0 { time.saturating_add(HALF).unwrap_or(time) } else { time }
}
