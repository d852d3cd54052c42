//! The states that pages of lists are read from.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redb::ReadTransaction;
use tokio::time::Instant;

use super::{Key, Range};

/// How many positions of readers a snapshot remembers.
const MAX_POSITIONS: usize = 1024;

/// One consistent state.
pub(super) struct Snapshot {
    pub(super) revision: u64,
    pub(super) reading: ReadTransaction,
    /// How many objects of a range come after a key: what the page that ended there found, so that the next page
    /// does not count again.
    positions: Mutex<HashMap<(Range, Key), usize>>,
}

impl Snapshot {
    pub(super) fn new(revision: u64, reading: ReadTransaction) -> Self {
        Self { revision, reading, positions: Mutex::default() }
    }

    pub(super) fn remaining_after(&self, range: &Range, key: &Key) -> Option<usize> {
        lock(&self.positions).get(&(range.clone(), key.clone())).copied()
    }

    pub(super) fn remember(&self, range: &Range, key: &Key, remaining: usize) {
        let mut positions = lock(&self.positions);
        if positions.len() >= MAX_POSITIONS {
            positions.clear();
        }
        positions.insert((range.clone(), key.clone()), remaining);
    }
}

/// The snapshots that are kept for the next pages: a bounded number, for a bounded time.
///
/// A kept snapshot keeps the database from reusing what was overwritten since. Nothing runs in the background:
/// [`Snapshots::expire`] is called whenever the store is read or written.
pub(super) struct Snapshots {
    /// The longest unused first.
    kept: Mutex<VecDeque<(Instant, Arc<Snapshot>)>>,
    max: usize,
    idle: Duration,
}

impl Snapshots {
    pub(super) fn new(max: usize, idle: Duration) -> Self {
        Self { kept: Mutex::default(), max, idle }
    }

    /// The snapshot of this revision, if it is kept.
    pub(super) fn find(&self, revision: u64) -> Option<Arc<Snapshot>> {
        self.expire();
        let mut kept = lock(&self.kept);
        let index = kept.iter().position(|(_, snapshot)| snapshot.revision == revision)?;
        let (_, snapshot) = kept.remove(index)?;
        kept.push_back((Instant::now(), snapshot.clone()));
        Some(snapshot)
    }

    /// Keeps a snapshot, unless one of the same revision is kept already.
    pub(super) fn keep(&self, snapshot: Arc<Snapshot>) {
        if self.find(snapshot.revision).is_none() {
            let mut kept = lock(&self.kept);
            kept.push_back((Instant::now(), snapshot));
            while kept.len() > self.max {
                kept.pop_front();
            }
        }
    }

    /// Lets go of the snapshots that nobody has read for long.
    pub(super) fn expire(&self) {
        let now = Instant::now();
        let mut kept = lock(&self.kept);
        while kept.front().is_some_and(|(used, _)| now.saturating_duration_since(*used) >= self.idle) {
            kept.pop_front();
        }
    }

    /// Lets go of all.
    pub(super) fn clear(&self) {
        lock(&self.kept).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
