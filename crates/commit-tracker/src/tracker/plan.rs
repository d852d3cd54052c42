//! Which revisions are to be accounted for.

#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;

use crate::ledger::{Entry, Pending};
use crate::{Revision, Standing, Step};

/// Of a Kustomization that is seen for the first time, commits from this long before it was made count: somebody merges
/// what makes it.
const BEFORE_CREATION: Duration = Duration::from_hours(1);

/// What was ready within this time after the tracker began to look may have come before its first look.
const FIRST_LOOKS: Duration = Duration::from_mins(1);

/// What is to be done about a Kustomization.
#[derive(Debug, PartialEq)]
pub(crate) struct Plan<'a> {
    /// Revisions that were there before the tracker was: they become accounted for, and nothing is asked.
    pub(crate) baseline: Vec<&'a Step>,
    /// Revisions that are looked into one after the other, oldest first.
    pub(crate) due: Vec<&'a Step>,
    /// From when on commits count while nothing says what was there before.
    pub(crate) since: Timestamp,
    /// What the source has and nobody applied yet.
    pub(crate) coming: Option<&'a Revision>,
}

/// A step that is due, with its time marked as an estimate where its commits may have come with revisions before it that
/// its Kustomization has forgotten: where it was away, the tracker sees the last of those that built the same manifests,
/// and of all others the last five. `looking` is since when this tracker looks.
pub(crate) fn as_far_as_known(
    step: &Step,
    standing: &Standing,
    entry: Option<&Entry>,
    looking: Timestamp,
) -> Step {
    let entry = entry.filter(|entry| !entry.accounted.is_empty());
    let is_known = |step: &Step| {
        let is_pending =
            |entry: &Entry| entry.pending.iter().any(|known| known.step.revision == step.revision);
        entry.is_some_and(|entry| entry.accounts_for(&step.revision) || is_pending(entry))
    };
    let is_cut_off = entry.is_some() && !standing.steps.iter().any(is_known);
    let looked = looking.saturating_add(FIRST_LOOKS).unwrap_or(looking);
    let was_away = entry.is_none() || step.ready < looked;
    let estimated = step.estimated || (was_away && (step.replaced || is_cut_off));
    Step { estimated, ..step.clone() }
}

/// What is to be looked into, oldest first: what is remembered to be pending with the times that it had when it was seen
/// first, and what is `due` besides.
pub(crate) fn pending(
    due: &[&Step],
    standing: &Standing,
    entry: Option<&Entry>,
    looking: Timestamp,
) -> Vec<Pending> {
    let known = entry.map_or(&[][..], |entry| &entry.pending);
    let forgotten = known.iter().filter(|known| !due.iter().any(|step| step.revision == known.step.revision));
    let due = due.iter().map(|step| {
        let known = known.iter().find(|known| known.step.revision == step.revision);
        let new = || Pending { step: as_far_as_known(step, standing, entry, looking), problem: None };
        // When the source had it may have come later than the rest.
        known.cloned().map_or_else(new, |mut known| {
            known.step.seen = known.step.seen.or(step.seen);
            known
        })
    });
    forgotten.cloned().chain(due).collect()
}

/// Compares what a Kustomization says, and what its source has, with what is accounted for. `began` is when the ledger was
/// begun.
pub(crate) fn plan<'a>(
    standing: &'a Standing,
    has: Option<&'a Revision>,
    entry: Option<&Entry>,
    began: Timestamp,
) -> Plan<'a> {
    let accounted = |revision: &Revision| entry.is_some_and(|entry| entry.accounts_for(revision));
    let created = standing.created.and_then(|created| created.checked_sub(BEFORE_CREATION).ok());
    let since = created.map_or(began, |created| created.max(began));
    let coming = has.filter(|has| {
        !standing.deleted && !accounted(has) && !standing.steps.iter().any(|step| step.revision == **has)
    });
    if entry.is_some_and(|entry| !entry.accounted.is_empty()) {
        return Plan { baseline: Vec::new(), due: due(standing, accounted), since, coming };
    }
    // Of what it remembers no more nobody can tell which commits came with it, or when; the oldest that is left stands for
    // all. Nothing is forgotten of one that had applied nothing when it was seen first.
    let was_seen_before = |step: &Step| entry.is_some_and(|entry| entry.began <= step.ready);
    let (mut baseline, mut due) = (Vec::new(), Vec::new());
    for (place, step) in standing.steps.iter().enumerate() {
        if step.ready < since || (place == 0 && !standing.whole && !was_seen_before(step)) {
            baseline.push(step);
        } else {
            due.push(step);
        }
    }
    Plan { baseline, due, since, coming }
}

/// What is due of the steps while others are `accounted` for.
///
/// What was ready before an accounted one was accounted for with it, even where it could not be looked into. The order of
/// the steps does not say so: the one that is applied now is the last, also after a roll back. That one is due in any case:
/// where its manifests were built before, the time at which it was ready is an estimate.
pub(crate) fn due(standing: &Standing, accounted: impl Fn(&Revision) -> bool) -> Vec<&Step> {
    let current = standing.steps.len().saturating_sub(1);
    let places = standing.steps.iter().enumerate();
    let newest = places
        .clone()
        .filter(|(_, step)| accounted(&step.revision))
        .map(|(place, step)| (step.ready, place))
        .max();
    places
        .filter(|(place, step)| {
            let is_later = newest.is_none_or(|newest| (step.ready, *place) > newest);
            !accounted(&step.revision) && (*place == current || is_later)
        })
        .map(|(_, step)| step)
        .collect()
}
