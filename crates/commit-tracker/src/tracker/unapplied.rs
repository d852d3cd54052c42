//! Commits that a source has and its Kustomization has not applied yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::Revision;

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

/// What waits, and what is suspended, by UID.
#[derive(Debug, Default)]
pub struct Unapplied {
    states: Mutex<HashMap<Box<str>, State>>,
}

/// One Kustomization.
#[derive(Clone, Debug, Default)]
struct State {
    waiting: Waiting,
    suspended: bool,
}

impl Unapplied {
    /// What waits for the Kustomization of this UID.
    pub fn waiting(&self, uid: &str) -> Waiting {
        self.lock().get(uid).map(|state| state.waiting.clone()).unwrap_or_default()
    }

    /// Whether the Kustomization of this UID applies nothing until somebody resumes it.
    pub fn is_suspended(&self, uid: &str) -> bool {
        self.lock().get(uid).is_some_and(|state| state.suspended)
    }

    pub(crate) fn suspend(&self, uid: &str, suspended: bool) {
        self.lock().entry(uid.into()).or_default().suspended = suspended;
    }

    pub(crate) fn set(&self, uid: &str, waiting: Waiting) {
        self.lock().entry(uid.into()).or_default().waiting = waiting;
    }

    /// Something is coming: what was known to wait still does until it `is_applied`; else nobody knows yet.
    pub(crate) fn look(&self, uid: &str, is_applied: impl Fn(&Revision) -> bool) {
        let mut states = self.lock();
        let state = states.entry(uid.into()).or_default();
        if !matches!(&state.waiting, Waiting::Since(coming) if !is_applied(&coming.0)) {
            state.waiting = Waiting::Unknown;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
