//! Tells running jobs that their repository is being deleted, so that its finalizers need not wait for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use windlass_api::Repository;
use windlass_runtime::{Event, ObjectKey};

/// The running jobs by repository.
#[derive(Clone, Default)]
pub(crate) struct Departures {
    running: Arc<Mutex<HashMap<ObjectKey, Vec<CancellationToken>>>>,
}

impl Departures {
    /// A token that is cancelled when the repository is seen to go. Dropping it ends the interest.
    pub(crate) fn of(&self, repository: ObjectKey) -> Departure {
        let token = CancellationToken::new();
        self.lock().entry(repository.clone()).or_default().push(token.clone());
        Departure { departures: self.clone(), repository, token }
    }

    /// Takes in what a watch of repositories has seen.
    pub(crate) fn handle(&self, event: Event<Repository>) {
        let gone = match event {
            Event::Applied { new, .. } if new.metadata.deletion_timestamp.is_some() => ObjectKey::of(&*new),
            Event::Deleted(gone) => ObjectKey::of(&*gone),
            _ => return,
        };
        for token in self.lock().get(&gone).into_iter().flatten() {
            token.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Vec<CancellationToken>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One running job's interest in its repository.
pub(crate) struct Departure {
    departures: Departures,
    repository: ObjectKey,
    token: CancellationToken,
}

impl Departure {
    /// Waits until the repository goes.
    pub(crate) async fn seen(&self) {
        self.token.cancelled().await;
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        self.token.cancel();
        let mut running = self.departures.lock();
        if let Some(tokens) = running.get_mut(&self.repository) {
            tokens.retain(|token| !token.is_cancelled());
            if tokens.is_empty() {
                running.remove(&self.repository);
            }
        }
    }
}
