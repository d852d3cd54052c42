//! What this process has queued, for the time until the watch tells of it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use windlass_api::{Repository, SyncStatus};
use windlass_runtime::ObjectKey;

/// The last sync that was queued for each repository. Losing it costs a request, or a pull that finds nothing to do.
#[derive(Default)]
pub(crate) struct Queued {
    by_repository: Mutex<HashMap<ObjectKey, Entry>>,
}

/// When, and what the repository said then. A repository that says something else has seen the sync begin, or wants
/// another one.
struct Entry {
    at: Timestamp,
    seen: Seen,
}

#[derive(PartialEq)]
struct Seen {
    uid: Option<String>,
    generation: Option<i64>,
    healthy_since: Option<Timestamp>,
    sync: SyncStatus,
}

impl Queued {
    /// Remembers that a sync was queued for the repository as it is.
    pub(crate) fn insert(&self, key: &ObjectKey, repository: &Repository, at: Timestamp) {
        self.lock().insert(key.clone(), Entry { at, seen: Seen::of(repository) });
    }

    /// How long the sync that was queued for the repository as it is may still take to begin, before it is taken to be
    /// lost; nothing when none was queued.
    pub(crate) fn left(
        &self,
        key: &ObjectKey,
        repository: &Repository,
        patience: Duration,
        now: Timestamp,
    ) -> Option<Duration> {
        let entries = self.lock();
        let entry = entries.get(key).filter(|entry| entry.seen == Seen::of(repository))?;
        let waited = Duration::try_from(now.duration_since(entry.at)).unwrap_or_default();
        patience.checked_sub(waited).filter(|left| !left.is_zero())
    }

    /// Forgets a repository that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.lock().remove(key);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Entry>> {
        self.by_repository.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn of(repository: &Repository) -> Self {
        let status = &repository.status;
        let ready =
            windlass_api::conditions::find(&status.conditions, windlass_api::conditions::types::READY);
        Self {
            uid: repository.metadata.uid.clone(),
            generation: repository.metadata.generation,
            healthy_since: ready.map(|ready| ready.last_transition_time.0),
            sync: status.sync.clone(),
        }
    }
}
