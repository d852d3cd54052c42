//! What this process knows of each Kustomization while it leads, beside what the ledger holds: what waits, and what keeps
//! it from being measured.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use opentelemetry::trace::{SpanId, TraceId};
use tokio::time::Instant;
use windlass_telemetry::Exemplar;

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

/// Everything by UID.
#[derive(Debug, Default)]
pub struct States {
    states: Mutex<HashMap<Arc<str>, State>>,
}

#[derive(Debug, Default)]
struct State {
    now: Now,
    trouble: Option<Box<Trouble>>,
}

/// What most Kustomizations have nothing of.
#[derive(Debug, Default)]
struct Trouble {
    /// What keeps it from being measured, as it was logged.
    logged: Option<&'static str>,
    /// Since when its source is missing.
    missing: Option<Instant>,
}

impl States {
    /// What is to be exported of the Kustomization of this UID.
    pub fn now(&self, uid: &str) -> Now {
        self.lock().get(uid).map(|state| state.now.clone()).unwrap_or_default()
    }

    pub(super) fn change(&self, uid: &Arc<str>, change: impl FnOnce(&mut Now)) {
        change(&mut self.lock().entry(Arc::clone(uid)).or_default().now);
    }

    /// Whether something else keeps it from being measured than what was logged last.
    pub(super) fn is_news(&self, uid: &Arc<str>, text: &'static str) -> bool {
        let mut states = self.lock();
        let logged = &mut states.entry(Arc::clone(uid)).or_default().trouble.get_or_insert_default().logged;
        logged.replace(text) != Some(text)
    }

    /// How long a source that is missing may still be on its way; none when it took too long.
    pub(super) fn missing_for(&self, uid: &Arc<str>) -> Option<Duration> {
        let mut states = self.lock();
        let trouble = states.entry(Arc::clone(uid)).or_default().trouble.get_or_insert_default();
        let since = trouble.missing.get_or_insert_with(Instant::now);
        MISSING.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    /// Its source is there.
    pub(super) fn found(&self, uid: &str) {
        if let Some(trouble) = self.lock().get_mut(uid).and_then(|state| state.trouble.as_mut()) {
            trouble.missing = None;
        }
    }

    /// Nothing keeps it from being measured.
    pub(super) fn is_well(&self, uid: &str) {
        if let Some(state) = self.lock().get_mut(uid) {
            state.trouble = None;
        }
    }

    /// It is not tracked any more.
    pub(super) fn forget(&self, uid: &Arc<str>) {
        let now = Now { waiting: Waiting::Untracked, ..Now::default() };
        self.lock().insert(Arc::clone(uid), State { now, trouble: None });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, State>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_a_revision_is_its_exemplar() {
        let observed =
            [(Instrument::EndToEnd, 3.0), (Instrument::EndToEnd, 9.0), (Instrument::StageApply, 1.0)];
        let example = Example::new((TraceId::from(7), SpanId::from(8)), Timestamp::UNIX_EPOCH, &observed);
        let of = |instrument| example.of(instrument).map(|exemplar| exemplar.value);
        assert_eq!((of(Instrument::EndToEnd), of(Instrument::StageApply)), (Some(9.0), Some(1.0)));
        assert_eq!(of(Instrument::Export), None);
    }
}
