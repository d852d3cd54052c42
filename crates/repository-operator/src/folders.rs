//! The folders of local repositories: one in which something changes is synced now, not when its interval elapses.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::task::AbortOnDropHandle;
use windlass_api::repositories::is_pending_delete;
use windlass_api::{Repository, RepositoryType};
use windlass_repository::Opener;
use windlass_runtime::{KeyedQueue, ObjectKey};
use windlass_telemetry::ErrorChain;

use crate::memory::Memory;

/// Watches folders for as long as this process leads.
pub(crate) struct Folders {
    opener: Opener,
    memory: Arc<Memory>,
    queue: KeyedQueue<ObjectKey>,
    watched: Mutex<HashMap<ObjectKey, Watched>>,
}

struct Watched {
    path: String,
    /// Ends with the entry.
    _task: AbortOnDropHandle<()>,
}

impl Folders {
    /// Watches nothing yet. A repository whose folder changes is marked in `memory` and added to `queue`.
    pub(crate) fn new(opener: Opener, memory: Arc<Memory>, queue: KeyedQueue<ObjectKey>) -> Self {
        Self { opener, memory, queue, watched: Mutex::default() }
    }

    /// Ends the watch of a repository that is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Watches the folder of this repository if it is a local one that is synced, and no folder of it otherwise. A folder
    /// that cannot be watched is synced by its interval alone, and tried again by the next pass.
    pub(crate) fn follow(&self, key: &ObjectKey, repository: &Repository) {
        let spec = &repository.spec;
        let wanted = spec.kind == RepositoryType::Local
            && spec.sync.enabled
            && repository.metadata.deletion_timestamp.is_none()
            && !is_pending_delete(repository);
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !wanted {
            watched.remove(key);
            return;
        }
        if watched.get(key).is_some_and(|watched| watched.path == spec.path()) {
            return;
        }
        watched.remove(key);
        match self.opener.watch(spec) {
            Ok(mut changes) => {
                let (memory, queue, owner) = (Arc::clone(&self.memory), self.queue.clone(), key.clone());
                let task = AbortOnDropHandle::new(tokio::spawn(async move {
                    loop {
                        changes.next().await;
                        memory.folder_changed(&owner);
                        queue.add(owner.clone());
                    }
                }));
                watched.insert(key.clone(), Watched { path: spec.path().to_owned(), _task: task });
            }
            Err(error) => {
                tracing::debug!(repository = %key, error = %ErrorChain(&error), "the folder is not watched");
            }
        }
    }
}
