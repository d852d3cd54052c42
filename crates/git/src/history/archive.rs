//! Where histories are remembered, and the questions about them that wait for their turn (`query.rs`).

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use super::History;
use super::graph::{Graph, Need};
use crate::cache::Key;
use crate::{GitError, ObjectId};

/// Revisions that are asked for in one request.
const MAX_WANTS: usize = 4_096;
/// Known revisions that are named in one request.
const MAX_HAVES: usize = 256;
/// Remotes whose histories are remembered.
const MAX_ARCHIVES: usize = 1_024;

/// The histories of all remotes.
pub(crate) struct Histories {
    archives: Mutex<HashMap<Key, (Arc<Archive>, u64)>>,
    clock: AtomicU64,
    max_commits: usize,
}

impl Histories {
    /// Remembers `max_commits` of all remotes together.
    pub(crate) fn new(max_commits: usize) -> Self {
        Self { archives: Mutex::default(), clock: AtomicU64::default(), max_commits }
    }

    /// The history of this remote, shared by everyone who asks.
    pub(super) fn archive(&self, key: &Key) -> Arc<Archive> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut archives = self.archives();
        let (archive, used) = archives.entry(key.clone()).or_default();
        *used = now;
        Arc::clone(archive)
    }

    /// Forgets what is beyond the bounds, the least recently used first, unless somebody asks about it just now.
    pub(super) fn forget(&self) {
        let mut archives = self.archives();
        let size = |archive: &Archive| archive.size.load(Ordering::Relaxed);
        let mut commits: usize = archives.values().map(|(archive, _)| size(archive)).sum();
        while archives.len() > MAX_ARCHIVES || commits > self.max_commits {
            let idle = archives.iter().filter(|(_, (archive, _))| Arc::strong_count(archive) == 1);
            let Some(oldest) = idle.min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone()) else {
                break;
            };
            commits -= archives.remove(&oldest).map_or(0, |(archive, _)| size(&archive));
        }
    }

    fn archives(&self) -> MutexGuard<'_, HashMap<Key, (Arc<Archive>, u64)>> {
        self.archives.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The history of one remote.
#[derive(Default)]
pub(super) struct Archive {
    graph: Mutex<Graph>,
    pub(super) size: AtomicUsize,
    waiting: Mutex<Vec<Weak<PendingQuery>>>,
    pub(super) turn: tokio::sync::Mutex<()>,
}

/// A question.
pub(super) struct PendingQuery {
    pub(super) new: ObjectId,
    pub(super) known: Vec<ObjectId>,
    pub(super) max: usize,
    pub(super) answer: OnceLock<Result<History, GitError>>,
}

impl PendingQuery {
    pub(super) fn new(new: ObjectId, known: Vec<ObjectId>, max: usize) -> Arc<Self> {
        Arc::new(Self { new, known, max, answer: OnceLock::new() })
    }

    pub(super) fn is_open(&self) -> bool {
        self.answer.get().is_none()
    }

    pub(super) fn need(&self, graph: &Graph) -> Need {
        graph.need(self.new, &self.known)
    }

    pub(super) fn fail(&self, error: &GitError) {
        let _ = self.answer.set(Err(error.clone()));
    }
}

impl Archive {
    pub(super) fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, Vec<Weak<PendingQuery>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revisions that are to be fetched, and what the server may leave out.
    pub(super) fn lacking(&self, queries: &[Arc<PendingQuery>]) -> (Vec<ObjectId>, Vec<ObjectId>) {
        let graph = self.graph();
        let (mut wants, mut haves) = (Vec::new(), Vec::new());
        for query in queries.iter().filter(|query| query.is_open()) {
            if let Need::Revisions(revisions) = query.need(&graph) {
                wants.extend(revisions);
                haves.extend(graph.present(&query.known));
            }
        }
        for (ids, max) in [(&mut wants, MAX_WANTS), (&mut haves, MAX_HAVES)] {
            ids.sort_unstable();
            ids.dedup();
            ids.truncate(max);
        }
        (wants, haves)
    }

    /// Questions whose answers are not whole yet, by what is known to those who ask.
    pub(super) fn too_shallow(
        &self,
        queries: &[Arc<PendingQuery>],
    ) -> BTreeMap<Vec<ObjectId>, Vec<Arc<PendingQuery>>> {
        let graph = self.graph();
        let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for query in queries.iter().filter(|query| query.is_open() && query.need(&graph) != Need::Nothing) {
            groups.entry(graph.present(&query.known)).or_default().push(Arc::clone(query));
        }
        groups
    }
}
