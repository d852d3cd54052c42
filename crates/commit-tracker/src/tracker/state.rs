//! What this process knows of each Kustomization while it leads, beside what the ledger holds: what waits, what was tried
//! in vain, and what was logged of it.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use opentelemetry::trace::{SpanId, TraceId};
use tokio::time::Instant;
use windlass_telemetry::Exemplar;

use super::reconcile::View;
use crate::{Instrument, Revision};

/// How long a source may be missing before its Kustomization is logged as one without: the two are watched apart.
pub(super) const MISSING: Duration = Duration::from_secs(10);

/// What is exported of a Kustomization besides what the ledger says.
#[derive(Clone, Debug, Default)]
pub struct Now {
    /// What its source has and it has not applied.
    pub waiting: Waiting,
    /// It applies nothing until somebody resumes it.
    pub suspended: bool,
    /// The newest revision that this process measured.
    pub example: Option<Arc<Example>>,
}

/// What waits for a Kustomization.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Waiting {
    /// Nobody could look yet.
    #[default]
    Unknown,
    /// Nothing: all that its source has is applied.
    Nothing,
    /// Commits of this revision, the oldest of which was merged then.
    Since(Box<(Revision, Timestamp)>),
    /// It is not tracked any more: nothing is to be said of it.
    Untracked,
}

/// What one revision had of each duration, the longest.
#[derive(Debug)]
pub struct Example {
    trace: (TraceId, SpanId),
    time: Timestamp,
    longest: Box<[(Instrument, f64)]>,
}

/// What is logged once for as long as it lasts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Topic {
    /// What keeps a Kustomization from being measured.
    Standing,
    /// Why what was measured cannot be recorded.
    Recording,
}

/// Everything by UID.
#[derive(Debug, Default)]
pub struct States {
    states: Mutex<HashMap<Box<str>, State>>,
}

#[derive(Debug, Default)]
struct State {
    now: Now,
    troubles: Option<Box<Troubles>>,
}

/// What most Kustomizations have nothing of.
#[derive(Debug, Default)]
struct Troubles {
    logged: [Option<Box<str>>; 2],
    /// Since when its source is missing.
    missing: Option<Instant>,
    tried: Vec<Tried>,
}

/// A question that was asked in vain.
#[derive(Debug)]
struct Tried {
    revision: Revision,
    at: Instant,
    /// Everything as it was that somebody may change to make it work.
    of: u64,
}

impl States {
    /// What is to be exported of the Kustomization of this UID.
    pub fn now(&self, uid: &str) -> Now {
        self.lock().get(uid).map(|state| state.now.clone()).unwrap_or_default()
    }

    pub(super) fn change(&self, uid: &str, change: impl FnOnce(&mut Now)) {
        change(&mut self.lock().entry(uid.into()).or_default().now);
    }

    pub(super) fn wait(&self, uid: &str, waiting: Waiting) {
        self.change(uid, |now| now.waiting = waiting);
    }

    /// Whether this is another text than was logged last; none clears it, and is no news.
    pub(super) fn is_news(&self, uid: &str, topic: Topic, text: Option<&str>) -> bool {
        self.troubles(uid, text.is_some(), |troubles| {
            let last = &mut troubles.logged[topic as usize];
            let is_news = text.is_some() && last.as_deref() != text;
            *last = text.map(Into::into);
            is_news
        })
        .unwrap_or_default()
    }

    /// How long a source that is missing may still be on its way; none when it took too long.
    pub(super) fn missing_for(&self, uid: &str) -> Option<Duration> {
        let since =
            self.troubles(uid, true, |troubles| *troubles.missing.get_or_insert_with(Instant::now))?;
        MISSING.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    pub(super) fn found(&self, uid: &str) {
        self.troubles(uid, false, |troubles| troubles.missing = None);
    }

    /// A revision was asked about in vain.
    pub(super) fn tried(&self, view: &View, revision: &Revision) {
        // What a Kustomization does not remember any more is not asked about again.
        let remembers = |known: &Revision| view.standing.steps.iter().any(|step| step.revision == *known);
        let tried = Tried { revision: revision.clone(), at: Instant::now(), of: mendable(view) };
        self.troubles(&view.standing.uid, true, |troubles| {
            troubles.tried.retain(|known| known.revision != *revision && remembers(&known.revision));
            troubles.tried.push(tried);
        });
    }

    /// When a revision was tried in vain last, whatever has changed since.
    pub(super) fn tried_at(&self, uid: &str, revision: &Revision) -> Option<Instant> {
        self.last_try(uid, revision).map(|(at, _)| at)
    }

    /// Whether a revision was tried in vain, and nothing has changed since.
    pub(super) fn was_tried(&self, view: &View, revision: &Revision) -> bool {
        self.last_try(&view.standing.uid, revision).is_some_and(|(_, of)| of == mendable(view))
    }

    /// It is not tracked any more.
    pub(super) fn forget(&self, uid: &str) {
        let now = Now { waiting: Waiting::Untracked, ..Now::default() };
        self.lock().insert(uid.into(), State { now, troubles: None });
    }

    fn last_try(&self, uid: &str, revision: &Revision) -> Option<(Instant, u64)> {
        self.troubles(uid, false, |troubles| {
            let tried = troubles.tried.iter().find(|tried| tried.revision == *revision)?;
            Some((tried.at, tried.of))
        })?
    }

    /// Looks at what went wrong with a Kustomization, if anything did, or something is about to.
    fn troubles<T>(&self, uid: &str, new: bool, look: impl FnOnce(&mut Troubles) -> T) -> Option<T> {
        let mut states = self.lock();
        if !new {
            return states.get_mut(uid)?.troubles.as_deref_mut().map(look);
        }
        Some(look(states.entry(uid.into()).or_default().troubles.get_or_insert_default()))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Now {
    /// Something is coming: what was known to wait still does until it `is_applied`; else nobody knows yet.
    pub(super) fn look(&mut self, is_applied: impl Fn(&Revision) -> bool) {
        if !matches!(&self.waiting, Waiting::Since(coming) if !is_applied(&coming.0)) {
            self.waiting = Waiting::Unknown;
        }
    }
}

impl Example {
    /// A revision with this trace was measured at this time.
    pub(super) fn new(trace: (TraceId, SpanId), time: Timestamp, observations: &[(Instrument, f64)]) -> Self {
        let mut longest = Vec::<(Instrument, f64)>::new();
        for (instrument, seconds) in observations {
            match longest.iter_mut().find(|(known, _)| known == instrument) {
                Some((_, most)) => *most = most.max(*seconds),
                None => longest.push((*instrument, *seconds)),
            }
        }
        Self { trace, time, longest: longest.into() }
    }

    /// As an exemplar of this instrument's histogram.
    pub(crate) fn of(&self, instrument: Instrument) -> Option<Exemplar> {
        let (_, value) = *self.longest.iter().find(|(known, _)| *known == instrument)?;
        let (trace_id, span_id) = self.trace;
        Some(Exemplar { value, time: self.time, trace_id, span_id })
    }
}

/// Everything that somebody may change to make a question work, as a number: the specifications, what the source has, and
/// the newest revision that was applied, with which those before get one more chance.
fn mendable(view: &View) -> u64 {
    let mut hasher = DefaultHasher::new();
    view.kustomization.metadata.generation.hash(&mut hasher);
    view.source_version.hash(&mut hasher);
    view.source.as_ref().map(|source| &source.revision).hash(&mut hasher);
    view.standing.applied.hash(&mut hasher);
    hasher.finish()
}
