//! Turns of writers: those of one repository go one after the other, in the order in which they came.
//!
//! Writers of other processes are noticed by the branch having moved; those of this one need not try in vain.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use crate::answer::Refusal;
use crate::request::Target;

/// How long a writer waits for those before it.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Repositories that are remembered although nobody writes to them.
const REMEMBERED: usize = 1_000;

/// Held by whoever writes; others wait in line.
type Turn = Arc<tokio::sync::Mutex<()>>;

/// A lock for each repository that is written to, by namespace and name.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<HashMap<(String, String), Turn>>>);

impl Turns {
    /// Waits for the repository's turn; it ends when the answer is dropped.
    pub(crate) async fn take(&self, target: &Target) -> Result<OwnedMutexGuard<()>, Refusal> {
        let turn = self.of(target).lock_owned();
        tokio::time::timeout(LONGEST_WAIT, turn).await.map_err(|_elapsed| {
            let message = format!(
                "other changes of the repository have been under way for {LONGEST_WAIT:?}; nothing was written, try again"
            );
            Refusal::new(503, message)
        })
    }

    fn of(&self, target: &Target) -> Turn {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= REMEMBERED {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry((target.namespace.clone(), target.name.clone())).or_default())
    }
}
