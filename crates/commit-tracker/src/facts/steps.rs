//! From a Kustomization's history and conditions to the revisions that it applied.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use windlass_api::GoDuration;

use super::{Step, middle, revision};
use crate::Revision;
use crate::objects::{APPLIED, ConditionStatus, Kustomization, Outcome, SUCCEEDED, Snapshot, Source};

/// The clocks of two controllers may differ by this much beyond what rounding does.
const SLACK: SignedDuration = SignedDuration::from_secs(1);

/// What follows within this time is a run of its own for a revision of its own.
const MOMENT: SignedDuration = SignedDuration::from_secs(2);

/// How the message of `Healthy` begins when all is healthy; the time that it took follows.
const PASSED: &str = "Health check passed in ";

/// How many snapshots a history holds.
const HISTORY: usize = 5;

/// What is applied within this time after a Kustomization was made is taken for its beginning.
const BEGINNING: SignedDuration = SignedDuration::from_hours(1);

/// The revisions that were applied, oldest first; the one that is applied now last.
pub(super) fn steps(kustomization: &Kustomization, source: Option<&Source>) -> Vec<Step> {
    let Some(current) = revision(kustomization.status.last_applied_revision.as_deref()) else {
        return Vec::new();
    };
    let facts = Facts { kustomization, source };
    let mut steps = Vec::<Step>::new();
    // Oldest first.
    for (place, snapshot) in facts.history().iter().enumerate().rev() {
        let Some(step) = facts.step(place, snapshot, &current) else { continue };
        match steps.iter_mut().find(|known| known.revision == step.revision) {
            // Other manifests of the same revision: something else than the revision changed.
            Some(known) => known.merge(step),
            None => steps.push(step),
        }
    }
    steps.sort_by_key(|step| step.ready);
    match steps.iter().position(|step| step.revision == current) {
        Some(place) => {
            let last = steps.remove(place);
            steps.push(last);
        }
        None => steps.extend(facts.step_without_snapshot(current)),
    }
    steps
}

/// Whether the first step that is known is the first there was. Others are forgotten when a history is full, and when a
/// later revision has built the same manifests.
pub(super) fn is_first(kustomization: &Kustomization, step: &Step) -> bool {
    let history = &kustomization.status.history;
    if history.len() >= HISTORY {
        return false;
    }
    let created = kustomization.metadata.created;
    let is_its_beginning = created.is_some_and(|created| step.latest <= later(created, BEGINNING));
    let earliest = history.iter().min_by_key(|snapshot| snapshot.first);
    let is_its_run = |snapshot: &Snapshot| snapshot.total <= 1 && is_of(snapshot, &step.revision);
    is_its_beginning || earliest.is_some_and(is_its_run)
}

/// What there is to conclude from.
struct Facts<'a> {
    kustomization: &'a Kustomization,
    source: Option<&'a Source>,
}

/// When a revision's first successful run ended.
struct Ready {
    at: Timestamp,
    /// It was not later than this.
    latest: Timestamp,
    estimated: bool,
    /// The duration of the snapshot, and what the conditions say, are of this run.
    is_last_run: bool,
}

impl Facts<'_> {
    fn history(&self) -> &[Snapshot] {
        &self.kustomization.status.history
    }

    /// The step that a snapshot tells of; `place` is its place in the history, newest first.
    fn step(&self, place: usize, snapshot: &Snapshot, current: &Revision) -> Option<Step> {
        if snapshot.outcome != Outcome::Succeeded {
            return None;
        }
        let revision = revision(snapshot.revision.as_deref())?;
        let older = &self.history()[place + 1..];
        let ready = self.ready(snapshot, &revision, older);
        let is_latest_run = place == 0 && ready.is_last_run && revision == *current;
        let started = snapshot.duration.filter(|_| ready.is_last_run).map(|took| before(ready.at, took));
        let failed = older.iter().filter(|failed| {
            failed.outcome != Outcome::Succeeded && is_of(failed, &revision) && failed.first <= ready.at
        });
        let attempted = failed.clone().map(start_of_first);
        let unhealthy = failed.filter(|failed| failed.outcome == Outcome::Unhealthy).min_by_key(|s| s.first);
        let health_checked = if is_latest_run {
            self.kustomization.status.healthy.is_some()
        } else {
            self.kustomization.spec.checks_health()
        };
        let applied = match (health_checked, unhealthy) {
            (false, _) => Some(ready.at),
            (true, Some(first)) => Some(self.applied_before_it_was_unhealthy(first)),
            (true, None) => self.health_took().filter(|_| is_latest_run).map(|took| before(ready.at, took)),
        };
        Some(Step {
            origin: snapshot.origin.as_deref().map(str::to_owned),
            seen: self.source.and_then(|source| source.seen(&revision)),
            fetched: attempted.chain(started).min(),
            applied: applied.map(|applied| applied.min(ready.at)),
            ready: ready.at,
            latest: ready.latest,
            health_checked,
            estimated: ready.estimated,
            replaced: ready.at > middle(snapshot.first),
            revision,
        })
    }

    fn ready(&self, snapshot: &Snapshot, revision: &Revision, older: &[Snapshot]) -> Ready {
        let (first, last) = (middle(snapshot.first), middle(snapshot.last));
        if snapshot.total == 1 || first == last {
            let is_last_run = snapshot.total <= 1;
            return Ready { at: last, latest: last, estimated: false, is_last_run };
        }
        // Another revision was run at this time, so that this one began later.
        let other = older.iter().find(|other| !is_of(other, revision)).map(|other| middle(other.last));
        let seen =
            self.source.and_then(|source| source.seen(revision)).filter(|seen| *seen <= later(last, SLACK));
        let is_first = other.is_none_or(|other| first >= other)
            && seen.is_none_or(|seen| self.may_be_first(seen, first, last));
        if is_first {
            let latest = if seen.is_some() { first } else { last };
            return Ready { at: first, latest, estimated: false, is_last_run: false };
        }
        let Some(from) = seen.max(other) else {
            return Ready { at: last, latest: last, estimated: false, is_last_run: true };
        };
        if !self.is_within_an_interval(from, last) {
            let at = match (seen, snapshot.duration) {
                (Some(seen), Some(took)) => later(seen, signed(took)).min(last),
                // Nothing but the upper bound is known.
                _ => last,
            };
            return Ready { at, latest: last, estimated: true, is_last_run: false };
        }
        Ready { at: last, latest: last, estimated: false, is_last_run: true }
    }

    /// Whether the first run of a snapshot may be of a revision that the source had at `seen`.
    fn may_be_first(&self, seen: Timestamp, first: Timestamp, last: Timestamp) -> bool {
        if first > seen {
            return true;
        }
        if first == seen {
            // In the same second both may be. The next run was no interval's when it followed at once.
            return later(first, MOMENT) < last;
        }
        // Of two clocks that differ a little, the source's may be ahead.
        later(first, SLACK) >= seen && !self.is_within_an_interval(seen, last)
    }

    /// Whether no interval run can lie between the two: they are spread by a few percent.
    fn is_within_an_interval(&self, from: Timestamp, to: Timestamp) -> bool {
        let Some(interval) = self.kustomization.spec.interval else { return true };
        to.duration_since(from) < signed(interval.mul_f64(0.9))
    }

    /// The revision that is applied has no snapshot: an old controller, or five other snapshots since.
    fn step_without_snapshot(&self, revision: Revision) -> Option<Step> {
        let status = &self.kustomization.status;
        let said = status.ready.as_ref().filter(|ready| {
            // The condition may be ahead of the rest of the status.
            let about = ready.message.strip_prefix(APPLIED).is_none_or(|about| about == revision.as_str());
            ready.status == ConditionStatus::True && &*ready.reason == SUCCEEDED && about
        });
        let said = said.and_then(|ready| ready.transitioned).map(middle);
        // A run of this revision was the last one before all that is in the history.
        let bound = status.history.iter().map(|snapshot| middle(snapshot.last)).min();
        let latest = said.or(bound)?;
        let seen = self.source.and_then(|source| source.seen(&revision)).filter(|seen| *seen <= latest);
        let exact = said.is_some() && seen.is_none_or(|seen| self.is_within_an_interval(seen, latest));
        let ready = if exact { latest } else { seen.unwrap_or(latest) };
        let health_checked = self.kustomization.spec.checks_health();
        let applied = if health_checked {
            self.health_took().filter(|_| exact).map(|took| before(ready, took))
        } else {
            Some(ready)
        };
        Some(Step {
            origin: status.last_applied_origin_revision.as_deref().map(str::to_owned),
            seen,
            fetched: None,
            applied,
            ready,
            latest,
            health_checked,
            estimated: !exact,
            replaced: true,
            revision,
        })
    }

    /// How long the latest run waited for health.
    fn health_took(&self) -> Option<Duration> {
        let healthy = self.kustomization.status.healthy.as_ref()?;
        let took = healthy.message.strip_prefix(PASSED)?;
        took.parse::<GoDuration>().ok()?.to_std().filter(|_| healthy.status == ConditionStatus::True)
    }

    /// When a revision was applied that did not become healthy in its first run: the run waited for as long as it may.
    fn applied_before_it_was_unhealthy(&self, unhealthy: &Snapshot) -> Timestamp {
        let applied = before(middle(unhealthy.first), self.kustomization.spec.health_timeout());
        applied.max(start_of_first(unhealthy))
    }
}

impl Step {
    /// Takes over what another snapshot of the same revision says.
    fn merge(&mut self, other: Self) {
        let (latest, replaced) = (self.latest.max(other.latest), self.replaced || other.replaced);
        let fetched = self.fetched.into_iter().chain(other.fetched).min();
        if other.ready < self.ready {
            *self = other;
        }
        self.latest = latest;
        self.fetched = fetched;
        self.replaced = replaced;
    }
}

fn is_of(snapshot: &Snapshot, of: &Revision) -> bool {
    revision(snapshot.revision.as_deref()).as_ref() == Some(of)
}

/// When the first run of a snapshot began; as if it took as long as the last one, which is so when it is the only one.
fn start_of_first(snapshot: &Snapshot) -> Timestamp {
    before(middle(snapshot.first), snapshot.duration.unwrap_or_default())
}

fn before(time: Timestamp, duration: Duration) -> Timestamp {
    later(time, -signed(duration))
}

fn later(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(time)
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}
