//! Transfers that were refused for their size. The same commit is as large the next time, so that it is not fetched again
//! at each pull: until the branch moves, or an hour is over.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::{GitError, ObjectId};

/// How long a refusal is remembered.
const REMEMBERED: Duration = Duration::from_hours(1);
/// Refusals that are remembered.
const MAX: usize = 64;

#[derive(Default)]
pub(super) struct Refusals(Mutex<VecDeque<Refusal>>);

struct Refusal {
    wants: Vec<ObjectId>,
    at: Instant,
    limit: &'static str,
    max: u64,
    what: String,
}

impl Refusals {
    /// The error with which a transfer of these was refused, if it was.
    pub(super) fn check(&self, wants: &[ObjectId]) -> Result<(), GitError> {
        let mut refused = self.lock();
        refused.retain(|refusal| refusal.at.elapsed() < REMEMBERED);
        match refused.iter().find(|refusal| refusal.wants == wants) {
            None => Ok(()),
            Some(Refusal { limit, max, what, .. }) => {
                Err(GitError::LimitExceeded { limit, max: *max, what: what.clone() })
            }
        }
    }

    /// Remembers the error, if a size is its reason.
    pub(super) fn note(&self, wants: &[ObjectId], error: &GitError) {
        let GitError::LimitExceeded { limit, max, what } = error else { return };
        let mut refused = self.lock();
        let at = Instant::now();
        refused.push_back(Refusal { wants: wants.to_vec(), at, limit, max: *max, what: what.clone() });
        if refused.len() > MAX {
            refused.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Refusal>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
