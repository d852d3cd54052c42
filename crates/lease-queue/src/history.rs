//! How much history is kept.
//!
//! Each replica that prunes lists history page by page and keeps in mind, of each repository, the newest records that the
//! limits have room for; what falls out, the oldest first, is deleted under its uid. So replicas that prune at the same time
//! delete the same records, once each, and none has to lead.
//!
//! Ages are counted by the API server's clock alone: see [`StoreTime`].

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::store::{HistoryEntry, Key, Store, StoreError};

/// What a record without a size is taken for, in bytes.
const UNKNOWN_BYTES: u64 = 4096;

/// How much history of one repository is kept. The newest record always is, unless it is too old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HistoryLimits {
    /// Records older than that go, by the clock that timed them; nothing for no limit.
    pub max_age: Option<Duration>,
    /// So many records are kept; nothing for no limit.
    pub max_count: Option<usize>,
    /// So many bytes together; nothing for no limit.
    pub max_bytes: Option<u64>,
}

impl HistoryLimits {
    /// Whether anything is ever deleted.
    pub fn any(&self) -> bool {
        self.max_age.is_some() || self.max_count.is_some() || self.max_bytes.is_some()
    }
}

/// Which limit a record was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PruneReason {
    /// It was too old.
    Age,
    /// There were too many newer ones.
    Count,
    /// The newer ones were too large.
    Bytes,
}

impl PruneReason {
    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Count => "count",
            Self::Bytes => "bytes",
        }
    }
}

/// What was deleted.
#[derive(Debug, Default)]
pub struct Pruned {
    counts: BTreeMap<PruneReason, u64>,
    error: Option<StoreError>,
}

impl Pruned {
    /// How many, by reason.
    pub fn counts(&self) -> impl Iterator<Item = (PruneReason, u64)> {
        self.counts.iter().map(|(why, count)| (*why, *count))
    }

    /// How many together.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    pub(crate) fn into_result(mut self) -> Result<Self, StoreError> {
        self.error.take().map_or(Ok(self), Err)
    }
}

/// What the time is at the store, as far as its records tell: the newest of them, and what has passed since it was
/// seen. Never ahead of the store's own clock, whatever this machine's says, so no record goes too early.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreTime(Option<(Timestamp, Instant)>);

impl StoreTime {
    /// Takes in when a record was created.
    fn observe(&mut self, created: Timestamp) {
        if self.now().is_none_or(|now| created > now) {
            self.0 = Some((created, Instant::now()));
        }
    }

    fn now(self) -> Option<Timestamp> {
        let (newest, seen) = self.0?;
        newest.checked_add(seen.elapsed()).ok()
    }

    fn age(self, created: Timestamp) -> Duration {
        let age = self.now().and_then(|now| Duration::try_from(now.duration_since(created)).ok());
        age.unwrap_or_default()
    }
}

/// Deletes what `limits` leave no room for, but no record of a job that is still queued: whoever claims that job finds out
/// by it that the job has ended. What was deleted before a failure is told as well.
pub(crate) async fn prune(
    store: &dyn Store,
    limits: HistoryLimits,
    time: &Mutex<StoreTime>,
    queued: &HashSet<String>,
) -> Pruned {
    let mut pruned = Pruned::default();
    if limits.any()
        && let Err(error) = prune_pages(store, limits, time, queued, &mut pruned).await
    {
        pruned.error = Some(error);
    }
    pruned
}

async fn prune_pages(
    store: &dyn Store,
    limits: HistoryLimits,
    time: &Mutex<StoreTime>,
    queued: &HashSet<String>,
    pruned: &mut Pruned,
) -> Result<(), StoreError> {
    let mut kept: HashMap<Key, Kept> = HashMap::new();
    let mut next = None;
    loop {
        let page = store.history_page(next).await?;
        let mut surplus = Vec::new();
        let now = {
            let mut time = time.lock().unwrap_or_else(PoisonError::into_inner);
            page.entries.iter().for_each(|entry| time.observe(entry.created));
            *time
        };
        for entry in page.entries.into_iter().filter(|entry| !queued.contains(&entry.job_uid)) {
            if limits.max_age.is_some_and(|most| now.age(entry.created) > most) {
                surplus.push((Listed::of(entry), PruneReason::Age));
                continue;
            }
            let repository = Key::new(&*entry.key.namespace, &*entry.repository);
            kept.entry(repository).or_default().add(Listed::of(entry), limits, &mut surplus);
        }
        surplus.sort_unstable();
        for (entry, why) in surplus {
            match store.history_delete(&entry.key, &entry.uid).await {
                Ok(()) => *pruned.counts.entry(why).or_default() += 1,
                // Another replica was quicker.
                Err(StoreError::NotFound | StoreError::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        next = page.next;
        if next.is_none() {
            return Ok(());
        }
    }
}

/// A record that was listed. The oldest is the smallest.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    created: Timestamp,
    key: Key,
    uid: String,
    bytes: u64,
}

impl Listed {
    fn of(entry: HistoryEntry) -> Self {
        let bytes = entry.bytes.unwrap_or(UNKNOWN_BYTES);
        Self { created: entry.created, key: entry.key, uid: entry.uid, bytes }
    }
}

/// The newest records of one repository, as far as the limits have room.
#[derive(Debug, Default)]
struct Kept {
    entries: BTreeSet<Listed>,
    bytes: u64,
}

impl Kept {
    fn add(&mut self, entry: Listed, limits: HistoryLimits, surplus: &mut Vec<(Listed, PruneReason)>) {
        self.bytes = self.bytes.saturating_add(entry.bytes);
        self.entries.insert(entry);
        while self.entries.len() > 1 {
            let why = if limits.max_count.is_some_and(|most| self.entries.len() > most) {
                PruneReason::Count
            } else if limits.max_bytes.is_some_and(|most| self.bytes > most) {
                PruneReason::Bytes
            } else {
                return;
            };
            let Some(oldest) = self.entries.pop_first() else { return };
            self.bytes = self.bytes.saturating_sub(oldest.bytes);
            surplus.push((oldest, why));
        }
    }
}
