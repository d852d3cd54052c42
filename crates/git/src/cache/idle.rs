//! Opened repositories that wait for their next reader, over all caches.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use git2::Repository;

use super::Cache;

/// As many are kept open: each keeps up to 16 MiB of what it unpacked.
const MAX_OPEN: usize = 4;

/// The caches with opened repositories that nobody uses, one entry for each, the longest unused first.
#[derive(Default)]
pub(super) struct Idle(Mutex<VecDeque<Weak<Cache>>>);

impl Idle {
    /// An opened repository of this cache, if one waits.
    pub(super) fn take(&self, cache: &Arc<Cache>) -> Option<Repository> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = kept.iter().rposition(|of| std::ptr::eq(of.as_ptr(), Arc::as_ptr(cache)));
        newest.map(|newest| kept.remove(newest));
        drop(kept);
        cache.state().idle.pop()
    }

    /// Keeps it for the next reader, and closes the one that nobody used for longest if there are too many.
    pub(super) fn keep(&self, cache: &Arc<Cache>, repository: Repository) {
        cache.state().idle.push(repository);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(Arc::downgrade(cache));
        let oldest = if kept.len() > MAX_OPEN { kept.pop_front() } else { None };
        drop(kept);
        if let Some(oldest) = oldest.and_then(|oldest| oldest.upgrade()) {
            let mut state = oldest.state();
            let closed = if state.idle.is_empty() { None } else { Some(state.idle.remove(0)) };
            drop(state);
            drop(closed);
        }
    }
}
