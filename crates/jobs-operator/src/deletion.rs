//! Tells running jobs that their repository is being deleted, so that its finalizers need not wait for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use windlass_api::Repository;
use windlass_runtime::{Event, ObjectKey};

/// The deletion signals of running jobs, by repository.
#[derive(Clone, Default)]
pub(crate) struct DeletionSignals {
    subscribed: Arc<Mutex<HashMap<ObjectKey, Vec<CancellationToken>>>>,
}

impl DeletionSignals {
    /// The signal that `repository` is being deleted. Dropping it ends the subscription.
    pub(crate) fn subscribe(&self, repository: ObjectKey) -> DeletionSignal {
        let token = CancellationToken::new();
        self.lock().entry(repository.clone()).or_default().push(token.clone());
        DeletionSignal { signals: self.clone(), repository, token }
    }

    /// Takes in what a watch of repositories has seen.
    pub(crate) fn handle(&self, event: Event<Repository>) {
        let deleted = match event {
            Event::Applied { new, .. } if new.metadata.deletion_timestamp.is_some() => ObjectKey::of(&*new),
            Event::Deleted(deleted) => ObjectKey::of(&*deleted),
            _ => return,
        };
        for token in self.lock().get(&deleted).into_iter().flatten() {
            token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Vec<CancellationToken>>> {
        self.subscribed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One running job's subscription.
pub(crate) struct DeletionSignal {
    signals: DeletionSignals,
    repository: ObjectKey,
    token: CancellationToken,
}

impl DeletionSignal {
    /// Waits until the repository is seen to be deleted.
    pub(crate) async fn received(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for DeletionSignal {
    fn drop(&mut self) {
        self.token.cancel();
        let mut subscribed = self.signals.lock();
        if let Some(tokens) = subscribed.get_mut(&self.repository) {
            tokens.retain(|token| !token.is_cancelled());
            if tokens.is_empty() {
                subscribed.remove(&self.repository);
            }
        }
    }
}
