//! Kustomizations that were deleted, or whose source became one of another kind, and whose last figures nobody has taken
//! yet.
//!
//! They stay in the cluster for as long: whoever leads next finds them there, sees that they are gone, and shows them
//! again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::entry::Entry;

/// Those that leave, in the order in which they were forgotten.
#[derive(Debug, Default)]
pub(super) struct DeletedEntries(Mutex<Vec<Deleted>>);

#[derive(Debug)]
struct Deleted {
    uid: Arc<str>,
    entry: Arc<Entry>,
    until: Instant,
}

impl DeletedEntries {
    pub(super) fn add(&self, uid: Arc<str>, entry: Arc<Entry>, until: Instant) {
        self.lock().push(Deleted { uid, entry, until });
    }

    pub(super) fn all(&self) -> Vec<(Arc<str>, Arc<Entry>)> {
        self.lock().iter().map(|left| (left.uid.clone(), Arc::clone(&left.entry))).collect()
    }

    /// Takes out these, and those that nobody took for long enough.
    pub(super) fn evict(&self, taken: &[Arc<str>]) -> Vec<Arc<str>> {
        let now = Instant::now();
        let is_gone = |left: &mut Deleted| left.until <= now || taken.contains(&left.uid);
        self.lock().extract_if(.., is_gone).map(|gone| gone.uid).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Deleted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
