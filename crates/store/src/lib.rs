//! Where the API server keeps its objects.
//!
//! [`Store`] is the whole contract: the latest state of each object under an ordered [`Key`], one store-wide
//! revision that grows by one with each object written, consistent snapshots for paged lists, atomic commits that
//! are durable when they are answered, and a bounded log of events that feeds watches.
//! It knows bytes and revisions; what a value means (JSON, selectors, admission) is the server's affair.
//!
//! Two implementations, one engine (redb): [`open_file`] and [`in_memory`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

mod backup;
mod check;
mod commit;
#[cfg(test)]
mod crash_tests;
mod database;
mod durable;
mod engine;
mod entry;
mod index;
mod key;
mod log;
mod pages;
mod snapshots;
mod wal;

pub use backup::{BackupError, Compacted, Copied, backup_file, check_copy, compact_file, restore};
pub use check::{Checked, Stored, check_file, read_object};
pub use database::FIRST_REVISION;
pub use engine::{in_memory, open_file};
pub use index::{Index, Lookup, Terms};
pub use key::{Key, Range};
pub use log::WatchStream;

/// One stored object. Clones share the key and the value.
#[derive(Clone, PartialEq, Eq)]
pub struct Object {
    /// Where it is stored.
    pub key: Key,
    /// The store-wide revision of the write that made this state: the object's `resourceVersion`.
    pub revision: u64,
    /// The value as it was written; the revision is kept beside it, so that reading never parses it.
    pub value: Bytes,
}

impl fmt::Debug for Object {
    /// Values may hold secrets: only the length is printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{} ({} bytes)", self.key, self.revision, self.value.len())
    }
}

/// What must hold of the stored state for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// The object does not exist.
    Absent,
    /// The object exists and its latest revision is this one.
    Revision(u64),
    /// Anything. A [`Op::Delete`] still needs an object to delete.
    Any,
}

/// What a write does.
#[derive(Clone, PartialEq, Eq)]
pub enum Op {
    /// Stores this value, over what is there.
    Put(Bytes),
    /// Removes the object; when there is none the commit fails with [`StoreError::Conflict`].
    Delete,
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(value) => write!(f, "Put({} bytes)", value.len()),
            Self::Delete => f.write_str("Delete"),
        }
    }
}

/// One write of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The object that is written.
    pub key: Key,
    /// What must hold before.
    pub expect: Precondition,
    /// What is done.
    pub op: Op,
}

impl Write {
    /// Stores `value` where nothing is stored yet.
    pub fn create(key: Key, value: impl Into<Bytes>) -> Self {
        Self { key, expect: Precondition::Absent, op: Op::Put(value.into()) }
    }

    /// Replaces the state that has this revision.
    pub fn update(key: Key, revision: u64, value: impl Into<Bytes>) -> Self {
        Self { key, expect: Precondition::Revision(revision), op: Op::Put(value.into()) }
    }

    /// Removes the state that has this revision.
    pub fn delete(key: Key, revision: u64) -> Self {
        Self { key, expect: Precondition::Revision(revision), op: Op::Delete }
    }
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It was absent and is stored now.
    Added,
    /// Its value was replaced.
    Modified,
    /// It was removed.
    Deleted,
}

/// An event as watchers are sent it, encoded once for all of them. It is no part of what events are.
#[derive(Clone, Debug, Default)]
pub struct Encoded(OnceLock<Bytes>);

impl Encoded {
    /// The bytes, which `make` makes the first time.
    pub fn get_or_make(&self, make: impl FnOnce() -> Bytes) -> &Bytes {
        self.0.get_or_init(make)
    }
}

impl PartialEq for Encoded {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Encoded {}

/// One change of one object; `revision` equals `object.revision`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The revision of the change.
    pub revision: u64,
    /// The state after the change; for [`EventKind::Deleted`] the last value, under the deletion's revision.
    pub object: Object,
    /// The state before the change; `None` exactly for [`EventKind::Added`].
    pub previous: Option<Object>,
    /// As watchers are sent it.
    pub encoded: Encoded,
}

/// The answer to a commit.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The revision of the last write of this commit (the store's current one if it had no writes).
    pub revision: u64,
    /// One event for each write, in the order of the writes.
    pub events: Vec<Arc<Event>>,
}

/// Which objects a list returns.
pub type Filter = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// Which part of a range a list returns. The default is everything, now.
#[derive(Clone, Default)]
pub struct Page {
    /// At most this many objects; 0 means all.
    pub limit: usize,
    /// Only objects that are ordered after this key, which need not exist.
    pub after: Option<Key>,
    /// The state at this revision, as an earlier page returned it with `more`; `None` means the latest state.
    pub snapshot: Option<u64>,
    /// Only these. Called for each object of the range, perhaps on another thread.
    pub filter: Option<Filter>,
    /// Where to find those that the filter lets through, instead of looking at each of the range; without a filter it is of
    /// no effect.
    pub lookup: Option<Lookup>,
    /// No further object once their values have so many bytes; 0 means no bound.
    pub bytes: usize,
    /// The state to read, as an earlier page left it; `snapshot` is then not looked at.
    pub state: Option<State>,
}

impl Page {
    fn at_most(&self) -> usize {
        if self.limit == 0 { usize::MAX } else { self.limit }
    }

    fn bytes_at_most(&self) -> usize {
        if self.bytes == 0 { usize::MAX } else { self.bytes }
    }
}

/// A state that a page was read from. It is kept as long as this is: what is overwritten meanwhile cannot be used again.
#[derive(Clone)]
pub struct State(Arc<snapshots::Snapshot>);

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({})", self.0.revision)
    }
}

/// Some objects of a range, by key.
#[derive(Clone, Debug)]
pub struct ListPage {
    /// The objects, ordered by namespace and name.
    pub objects: Vec<Object>,
    /// The revision of the state that was read.
    pub revision: u64,
    /// Whether there are objects after the last one (with a filter: perhaps none that it lets through). The snapshot
    /// is then kept for a while under `revision`.
    pub more: bool,
    /// How many objects come after the last one; `None` with a filter, or without a limit.
    pub remaining: Option<usize>,
    /// The state that was read, where there is more.
    pub state: Option<State>,
}

/// Why the store could not do what was asked.
///
/// Cheap to clone: one failed commit may answer many callers.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// A precondition did not hold; nothing of the commit was written.
    #[error("failed to write {key}: {}", Mismatch(.expected, .actual))]
    Conflict {
        /// The first write whose precondition failed.
        key: Key,
        /// What that write expected.
        expected: Precondition,
        /// The revision that is stored, if the object exists.
        actual: Option<u64>,
    },
    /// The events or the snapshot asked for are no longer kept: the caller lists anew (410 Gone).
    #[error("failed to read revision {requested}: it is no longer kept, the store is at {current}")]
    Expired {
        /// The revision asked for.
        requested: u64,
        /// The store's revision.
        current: u64,
    },
    /// A part of a key held a NUL character, or its group, resource or name was empty.
    #[error("failed to form a key: {part} {text:?} is empty or holds a NUL character")]
    InvalidKey {
        /// `resource`, `name`, ….
        part: &'static str,
        /// What it held.
        text: String,
    },
    /// Reading from the database failed.
    #[error("failed to read from the object store")]
    Read {
        /// What the database said.
        #[source]
        source: Arc<redb::Error>,
    },
    /// Writing to the database failed; whether the commit is stored is known after the next start.
    #[error("failed to commit to the object store")]
    Commit {
        /// What the database said.
        #[source]
        source: Arc<redb::Error>,
    },
    /// A stored entry is not in the format that this version writes.
    #[error("failed to decode the stored entry {entry:?}: {problem}")]
    Corrupt {
        /// The entry's key.
        entry: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The store is being shut down.
    #[error("failed to reach the object store: it is closed")]
    Closed,
}

/// Prints why a precondition failed.
struct Mismatch<'a>(&'a Precondition, &'a Option<u64>);

impl fmt::Display for Mismatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (Precondition::Absent, Some(actual)) => write!(f, "it exists already, at revision {actual}"),
            (Precondition::Revision(expected), Some(actual)) => {
                write!(f, "revision {expected} was expected, {actual} is stored")
            }
            (_, _) => f.write_str("it does not exist"),
        }
    }
}

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process holds the file.
    #[error(
        "failed to open the object store {}: another process has it open; stop that process, or choose another file",
        path.display()
    )]
    Locked {
        /// The store's file.
        path: PathBuf,
    },
    /// Another version wrote it, in a format that this one does not read.
    #[error(
        "failed to open the object store {}: its format version is {found}, this program knows only {known}; \
         start the version that wrote it, or start with a new data folder",
        path.display()
    )]
    Format {
        /// The store's file.
        path: PathBuf,
        /// The version in the file.
        found: u64,
        /// The version that this program reads.
        known: u64,
    },
    /// The file is not a store, or it is damaged.
    #[error(
        "failed to open the object store {}: it is not an object store, or it is damaged ({problem}); \
         restore it from a copy, or move it away to start empty",
        path.display()
    )]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// What was found.
        problem: String,
    },
    /// The file could not be read or written.
    #[error("failed to open the object store {}", path.display())]
    Open {
        /// The store's file.
        path: PathBuf,
        /// What the database said.
        #[source]
        source: redb::Error,
    },
}

/// Bounds of a store. The defaults suit one machine with tens of thousands of objects.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes of the file kept in memory by the database.
    pub cache_bytes: usize,
    /// How many events are kept for watches.
    pub log_events: usize,
    /// How many bytes of events are kept for watches. The kind with the most bytes loses its oldest events first.
    pub log_bytes: usize,
    /// How long an event is kept all the same, so that a burst of writes leaves no watch behind that keeps up; up to
    /// eight times as many events and bytes.
    pub log_grace: Duration,
    /// How many snapshots are kept for the next pages of lists.
    pub snapshots: usize,
    /// How long a snapshot that nobody reads is kept.
    pub snapshot_idle: Duration,
    /// How many bytes of the file may be overwritten between two reads of a snapshot before it is given up: until
    /// then none of them can be used again.
    pub snapshot_bytes: u64,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 16 << 20,
            log_events: 32_768,
            log_bytes: 16 << 20,
            log_grace: Duration::from_secs(5),
            snapshots: 32,
            snapshot_idle: Duration::from_mins(1),
            snapshot_bytes: 32 << 20,
        }
    }
}

/// Versioned objects by key. Shared by all requests of a server.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The latest state of an object.
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError>;

    /// Some objects of a range, from one consistent state.
    ///
    /// A page that says `more` keeps its snapshot for a bounded time; asking for a snapshot that is not kept is
    /// [`StoreError::Expired`].
    async fn list(&self, range: &Range, page: Page) -> Result<ListPage, StoreError>;

    /// Does all of the writes or none. Durable, and visible to every reader, when it returns.
    ///
    /// Each write gets the next revision. Commits that are asked for at the same time share one sync to disk but
    /// succeed and fail each on its own. Dropping the future does not take the commit back.
    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError>;

    /// The events of a range after revision `from`, in the order of revisions, without gaps; 0 means from now on.
    ///
    /// [`StoreError::Expired`] when events after `from` are no longer kept, or when `from` is of a future that
    /// this store has not seen (it was replaced by an older copy).
    fn watch(&self, range: &Range, from: u64) -> Result<WatchStream, StoreError>;

    /// The revision of the last write that watchers can see; 1 in a store that was never written to.
    fn revision(&self) -> u64;

    /// Writes a copy of the latest state, whatever is written to the store meanwhile. Blocks.
    ///
    /// A store that is only a part of another says that it is closed.
    fn backup(&self, out: &mut dyn std::io::Write) -> Result<Copied, BackupError> {
        let _ = out;
        Err(BackupError::ReadStore(StoreError::Closed))
    }

    /// What keeps the store from doing what it is asked for, if anything does: it is closed, its last commit failed, or an
    /// entry was found damaged.
    fn problem(&self) -> Option<String> {
        None
    }
}
