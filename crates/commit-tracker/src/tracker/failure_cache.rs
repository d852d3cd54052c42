//! What was tried in vain, and which sources are missing: what keeps a reconcile from asking again before something
//! changed.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::reconcile::View;
use crate::Revision;

/// How long a source may be missing before its Kustomization is logged as one without: the two are watched apart.
pub(super) const MISSING: Duration = Duration::from_secs(10);

/// What was tried in vain of each Kustomization, by its UID.
#[derive(Debug, Default)]
pub(super) struct FailureCache {
    tried: Mutex<HashMap<Box<str>, Vec<Tried>>>,
    missing: Mutex<HashMap<Box<str>, Instant>>,
}

#[derive(Debug)]
struct Tried {
    revision: Revision,
    at: Instant,
    /// Everything as it was that somebody may change to make it work.
    of: u64,
}

impl FailureCache {
    /// How long a source that is missing may still be on its way; none when it took too long.
    pub(super) fn missing_for(&self, uid: &str) -> Option<Duration> {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *missing.entry(uid.into()).or_insert_with(Instant::now);
        MISSING.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    pub(super) fn found(&self, uid: &str) {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }

    pub(super) fn tried(&self, view: &View, revision: &Revision) {
        let mut all = self.lock();
        let tried = all.entry(view.standing.uid.as_str().into()).or_default();
        // What a Kustomization does not remember any more is not asked about again.
        let remembers = |known: &Revision| view.standing.steps.iter().any(|step| step.revision == *known);
        tried.retain(|known| known.revision != *revision && remembers(&known.revision));
        tried.push(Tried { revision: revision.clone(), at: Instant::now(), of: state(view) });
    }

    /// When a revision was tried in vain last, whatever has changed since.
    pub(super) fn tried_at(&self, uid: &str, revision: &Revision) -> Option<Instant> {
        let all = self.lock();
        all.get(uid)?.iter().find(|tried| tried.revision == *revision).map(|tried| tried.at)
    }

    /// Whether a revision was tried in vain, and nothing has changed since.
    pub(super) fn was_tried(&self, view: &View, revision: &Revision) -> bool {
        let (all, state) = (self.lock(), state(view));
        let tried = all.get(view.standing.uid.as_str());
        tried.is_some_and(|tried| tried.iter().any(|tried| tried.revision == *revision && tried.of == state))
    }

    pub(super) fn forget(&self, uid: &str) {
        self.found(uid);
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Vec<Tried>>> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything that somebody may change to make a question work, as a number: the specifications, what the source has, and
/// the newest revision that was applied, with which those before get one more chance.
fn state(view: &View) -> u64 {
    let mut hasher = DefaultHasher::new();
    view.kustomization.metadata.generation.hash(&mut hasher);
    view.source_version.hash(&mut hasher);
    view.source.as_ref().map(|source| &source.revision).hash(&mut hasher);
    view.standing.applied.hash(&mut hasher);
    hasher.finish()
}
