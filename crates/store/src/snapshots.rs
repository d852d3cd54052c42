//! The states that pages of lists are read from.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redb::ReadTransaction;
use tokio::time::Instant;

use super::{Key, Range};

/// How many positions of readers a snapshot remembers.
const MAX_POSITIONS: usize = 1024;
/// A snapshot whose lists were read to their end is kept for this part of the usual time, and of the usual writes.
const LOST_ANSWER: u32 = 12;
/// What a write overwrites in the file beside the value: a page of the tree on the way to it, and its share of those
/// above.
const WRITE_OVERHEAD: u64 = 8 << 10;
/// What may be written while a list is read from its first page to its last, in what may be between two pages.
const WHOLE_LIST: u64 = 8;

/// One consistent state.
pub(crate) struct Snapshot {
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

/// The snapshots that are kept for the next pages: a bounded number, for a bounded time, and while a bounded amount is
/// written beside them.
///
/// A kept snapshot keeps the database from reusing what was overwritten since: a list that nobody goes on with would
/// make the file grow by all that is written in a minute. Nothing runs in the background: [`Snapshots::expire`] is
/// called whenever the store is read or written.
pub(super) struct Snapshots {
    kept: Mutex<Vec<Kept>>,
    /// What was written to the file since the start.
    written: AtomicU64,
    max: usize,
    idle: Duration,
    /// What may be written between two reads of a snapshot.
    max_written: u64,
}

struct Kept {
    snapshot: Arc<Snapshot>,
    expires: Instant,
    /// [`Snapshots::written`] when it was made, and when it was last read.
    begun_at: u64,
    read_at: u64,
    /// What may be written after `read_at`.
    max_written: u64,
    /// Lists that were begun on it and not read to their end.
    lists: usize,
}

impl Snapshots {
    pub(super) fn new(max: usize, idle: Duration, max_written: u64) -> Self {
        Self { kept: Mutex::default(), written: AtomicU64::new(0), max, idle, max_written }
    }

    /// Counts a write of a value of this size.
    pub(super) fn wrote(&self, bytes: usize) {
        self.written.fetch_add(WRITE_OVERHEAD + bytes as u64, Ordering::Relaxed);
    }

    /// The snapshot of this revision, if it is kept.
    pub(super) fn find(&self, revision: u64) -> Option<Arc<Snapshot>> {
        self.expire();
        let mut kept = lock(&self.kept);
        let found = kept.iter_mut().find(|kept| kept.snapshot.revision == revision)?;
        found.expires = Instant::now() + self.idle;
        found.read_at = self.written.load(Ordering::Relaxed);
        found.max_written = self.max_written;
        Some(found.snapshot.clone())
    }

    /// Keeps a snapshot for the pages after the first of a list.
    pub(super) fn begin(&self, snapshot: Arc<Snapshot>) {
        let expires = Instant::now() + self.idle;
        let written = self.written.load(Ordering::Relaxed);
        let mut kept = lock(&self.kept);
        if let Some(same) = kept.iter_mut().find(|kept| kept.snapshot.revision == snapshot.revision) {
            same.lists += 1;
            same.expires = expires;
            same.read_at = written;
            same.max_written = self.max_written;
            return;
        }
        if kept.len() >= self.max {
            let longest_unused = kept.iter().enumerate().min_by_key(|(_, kept)| kept.expires);
            if let Some((index, _)) = longest_unused {
                kept.remove(index);
            }
        }
        kept.push(Kept {
            snapshot,
            expires,
            begun_at: written,
            read_at: written,
            max_written: self.max_written,
            lists: 1,
        });
    }

    /// The last page of a list was read. A snapshot that no list needs any more is kept just long enough for a
    /// client that lost this answer.
    pub(super) fn end(&self, revision: u64) {
        let mut kept = lock(&self.kept);
        if let Some(found) = kept.iter_mut().find(|kept| kept.snapshot.revision == revision) {
            found.lists = found.lists.saturating_sub(1);
            if found.lists == 0 {
                found.expires = Instant::now() + self.idle / LOST_ANSWER;
                found.max_written = self.max_written / u64::from(LOST_ANSWER);
            }
        }
    }

    /// Lets go of the snapshots that nobody has read for long, or that too much was written beside.
    pub(super) fn expire(&self) {
        let now = Instant::now();
        let written = self.written.load(Ordering::Relaxed);
        lock(&self.kept).retain(|kept| {
            kept.expires > now
                && written.saturating_sub(kept.read_at) <= kept.max_written
                && written.saturating_sub(kept.begun_at) <= self.max_written * WHOLE_LIST
        });
    }

    /// Lets go of all.
    pub(super) fn clear(&self) {
        lock(&self.kept).clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
