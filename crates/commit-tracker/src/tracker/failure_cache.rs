//! What was tried in vain, and which sources are missing: what keeps a look from asking again before something changed.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::reconcile::View;
use super::sources::Version;
use crate::Revision;

/// How long a source may be missing before its Kustomization is logged as one without: the two are watched apart.
pub(super) const MISSING: Duration = Duration::from_secs(10);

/// What was tried in vain of each Kustomization, so that it is tried again when something changed and not before.
#[derive(Debug, Default)]
pub(super) struct FailureCache {
    tried: Mutex<HashMap<Box<str>, Tried>>,
    missing: Mutex<HashMap<Box<str>, Instant>>,
}

/// Everything that somebody may change to make a question work, and the revisions that did not work so.
#[derive(Clone, Debug)]
struct Tried {
    generation: u64,
    source: Option<Version>,
    /// The newest revision that was applied: with another one, those before get one more chance.
    newest: Option<Revision>,
    /// What the source has.
    has: Option<Revision>,
    revisions: Vec<(Revision, Instant)>,
    /// Those that did not work when something of this was another.
    before: Vec<(Revision, Instant)>,
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
        let tried = all.entry(view.standing.uid.as_str().into()).or_insert_with(|| Tried::of(view));
        if !tried.is_of(view) {
            let before = tried.all().cloned().collect();
            *tried = Tried { before, ..Tried::of(view) };
        }
        // What a Kustomization does not remember any more is not asked about again.
        let remembers = |known: &Revision| view.standing.steps.iter().any(|step| step.revision == *known);
        tried.revisions.retain(|(known, _)| remembers(known));
        tried.before.retain(|(known, _)| remembers(known) && known != revision);
        tried.revisions.push((revision.clone(), Instant::now()));
    }

    /// When a revision was tried in vain last, whatever has changed since.
    pub(super) fn tried_at(&self, uid: &str, revision: &Revision) -> Option<Instant> {
        let all = self.lock();
        let times = all.get(uid)?.all().filter(|(known, _)| known == revision).map(|(_, at)| *at);
        times.max()
    }

    pub(super) fn was_tried(&self, view: &View, revision: &Revision) -> bool {
        let all = self.lock();
        let tried = all.get(view.standing.uid.as_str()).filter(|tried| tried.is_of(view));
        tried.is_some_and(|tried| tried.revisions.iter().any(|(known, _)| known == revision))
    }

    pub(super) fn forget(&self, uid: &str) {
        self.found(uid);
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Tried>> {
        self.tried.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tried {
    fn of(view: &View) -> Self {
        Self {
            generation: view.kustomization.metadata.generation,
            source: view.source_version.clone(),
            newest: view.standing.applied.clone(),
            has: view.source.as_ref().and_then(|source| source.revision.clone()),
            revisions: Vec::new(),
            before: Vec::new(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &(Revision, Instant)> {
        self.revisions.iter().chain(&self.before)
    }

    fn is_of(&self, view: &View) -> bool {
        self.generation == view.kustomization.metadata.generation
            && self.source == view.source_version
            && self.newest == view.standing.applied
            && self.has.as_ref() == view.source.as_ref().and_then(|source| source.revision.as_ref())
    }
}
