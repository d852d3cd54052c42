//! Where histories are remembered, and questions about them wait for each other.
//!
//! Whoever asks looks at the graph first. What it does not answer waits for its turn; whoever has the turn fetches
//! for everybody who waits: new revisions in one request, then what lies deeper, one request for all who know the
//! same. Dropping a question that has the turn hands the turn to the next, which finds what came until then.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

use super::History;
use super::graph::{Graph, Need};
use super::transfer::transfer;
use crate::cache::Key;
use crate::call::Call;
use crate::remote::RemoteRepository;
use crate::{GitError, ObjectId};

/// How deep the first look at a repository goes: far enough that what was known yesterday is usually there.
const FIRST: u32 = 128;
/// How deep a transfer goes that is told what is known, and so is short where that is true.
const NEXT: u32 = 1_000;
/// Revisions that are asked for in one request.
const MAX_WANTS: usize = 4_096;
/// Known revisions that are named in one request.
const MAX_HAVES: usize = 256;
/// How much shallower a transfer is made that crossed a limit.
const SHALLOWER: u32 = 8;
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

    /// Answers `query` out of the history of `source`, fetching what is missing.
    pub(crate) async fn query(
        &self,
        source: &RemoteRepository,
        query: Arc<PendingQuery>,
        cancel: &CancellationToken,
    ) -> Result<History, GitError> {
        let archive = self.archive(&source.state.key);
        let answer = archive.query(source, query, cancel).await;
        drop(archive);
        self.forget();
        answer
    }

    /// The history of this remote, shared by everyone who asks.
    fn archive(&self, key: &Key) -> Arc<Archive> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut archives = self.archives();
        let (archive, used) = archives.entry(key.clone()).or_default();
        *used = now;
        Arc::clone(archive)
    }

    /// Forgets what is beyond the bounds, the least recently used first, unless somebody asks about it just now.
    fn forget(&self) {
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
struct Archive {
    graph: Mutex<Graph>,
    size: AtomicUsize,
    waiting: Mutex<Vec<Weak<PendingQuery>>>,
    turn: tokio::sync::Mutex<()>,
}

/// A question.
pub(crate) struct PendingQuery {
    new: ObjectId,
    known: Vec<ObjectId>,
    max: usize,
    answer: OnceLock<Result<History, GitError>>,
}

impl PendingQuery {
    pub(crate) fn new(new: ObjectId, known: Vec<ObjectId>, max: usize) -> Arc<Self> {
        Arc::new(Self { new, known, max, answer: OnceLock::new() })
    }

    fn is_open(&self) -> bool {
        self.answer.get().is_none()
    }

    fn need(&self, graph: &Graph) -> Need {
        graph.need(self.new, &self.known)
    }

    fn fail(&self, error: &GitError) {
        let _ = self.answer.set(Err(error.clone()));
    }
}

impl Archive {
    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Weak<PendingQuery>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers `query`, fetching what is missing.
    async fn query(
        &self,
        source: &RemoteRepository,
        query: Arc<PendingQuery>,
        cancel: &CancellationToken,
    ) -> Result<History, GitError> {
        let limit = source.shared.config.deadlines.fetch;
        let call = source.call("fetch the history of", limit, cancel);
        {
            let graph = self.graph();
            if query.need(&graph) == Need::Nothing
                && let Some(history) = graph.answer(query.new, &query.known, query.max)
            {
                return Ok(history);
            }
        }
        self.waiting().push(Arc::downgrade(&query));
        let _turn = call.within(self.turn.lock()).await?;
        if query.is_open() {
            self.serve(source, &call, &query).await?;
        }
        query.answer.get().cloned().unwrap_or_else(|| Err(missing(source, query.new)))
    }

    /// Fetches for everybody who waits, and answers them.
    async fn serve(
        &self,
        source: &RemoteRepository,
        call: &Call<'_>,
        own: &Arc<PendingQuery>,
    ) -> Result<(), GitError> {
        let mut queries = {
            let mut waiting = self.waiting();
            waiting.retain(|query| query.strong_count() > 0);
            waiting.iter().filter_map(Weak::upgrade).filter(|query| query.is_open()).collect::<Vec<_>>()
        };
        if !queries.iter().any(|query| Arc::ptr_eq(query, own)) {
            queries.push(Arc::clone(own));
        }
        {
            let mut graph = self.graph();
            if graph.size() > source.shared.config.limits.history_commits as usize {
                // What is needed of it comes again, in one request.
                *graph = Graph::default();
            }
        }
        let reached = match self.fetch_revisions(source, call, &queries).await {
            Ok(reached) => reached,
            Err(GitError::Cancelled) => return Err(GitError::Cancelled),
            Err(error) => {
                let graph = self.graph();
                let lacking = |query: &&Arc<PendingQuery>| {
                    query.is_open() && matches!(query.need(&graph), Need::Revisions(_))
                };
                queries.iter().filter(lacking).for_each(|query| query.fail(&error));
                None
            }
        };
        self.fetch_depth(source, call, &queries, reached).await?;
        let graph = self.graph();
        self.size.store(graph.size(), Ordering::Relaxed);
        for query in queries.iter().filter(|query| query.is_open()) {
            let answer = graph.answer(query.new, &query.known, query.max);
            let _ = query.answer.set(answer.ok_or_else(|| missing(source, query.new)));
        }
        Ok(())
    }

    /// Fetches revisions that are not here. Answers which known ones the last transfer was told of, and how deep one
    /// was tried.
    async fn fetch_revisions(
        &self,
        source: &RemoteRepository,
        call: &Call<'_>,
        queries: &[Arc<PendingQuery>],
    ) -> Result<Option<(Vec<ObjectId>, u32)>, GitError> {
        let (mut shallower, mut deepest) = (None, 0);
        let mut reached = None;
        loop {
            let (wants, haves) = self.lacking(queries);
            if wants.is_empty() {
                return Ok(reached);
            }
            let depth = shallower.unwrap_or(if haves.is_empty() { FIRST } else { NEXT });
            deepest = deepest.max(depth);
            match transfer(source, call, &wants, &haves, depth).await {
                Ok(received) => {
                    let exact = received.exact;
                    self.graph().take(received, &haves);
                    reached = Some((haves, deepest));
                    if !exact {
                        // What is not here may be further behind the branches.
                        return Ok(reached);
                    }
                    for want in wants {
                        if !self.graph().has(want) {
                            self.miss(source, queries, want);
                        }
                    }
                }
                Err(GitError::RevisionMissing { revision, url }) => {
                    let Some(want) = revision.parse().ok().filter(|id| wants.contains(id)) else {
                        return Err(GitError::RevisionMissing { revision, url });
                    };
                    self.miss(source, queries, want);
                }
                Err(GitError::LimitExceeded { .. }) if depth > 1 => {
                    shallower = Some((depth / SHALLOWER).max(1));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The revisions that are to be fetched, and what the server may leave out.
    fn lacking(&self, queries: &[Arc<PendingQuery>]) -> (Vec<ObjectId>, Vec<ObjectId>) {
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

    /// Remembers that the server has no `want`, and tells those who ask for it.
    fn miss(&self, source: &RemoteRepository, queries: &[Arc<PendingQuery>], want: ObjectId) {
        self.graph().miss(want);
        let error = missing(source, want);
        queries
            .iter()
            .filter(|query| query.new == want && query.is_open())
            .for_each(|query| query.fail(&error));
    }

    /// Fetches what lies between revisions that are here, as deep as it takes and the limits allow.
    async fn fetch_depth(
        &self,
        source: &RemoteRepository,
        call: &Call<'_>,
        queries: &[Arc<PendingQuery>],
        reached: Option<(Vec<ObjectId>, u32)>,
    ) -> Result<(), GitError> {
        for (known, group) in self.too_shallow(queries) {
            let done = reached.as_ref().filter(|(haves, _)| *haves == known).map_or(0, |(_, depth)| *depth);
            for depth in [NEXT, source.shared.config.limits.history_commits] {
                let mut wants = self
                    .too_shallow(&group)
                    .into_values()
                    .flatten()
                    .map(|query| query.new)
                    .collect::<Vec<_>>();
                wants.sort_unstable();
                wants.dedup();
                if depth <= done || wants.is_empty() {
                    continue;
                }
                match transfer(source, call, &wants, &known, depth).await {
                    Ok(received) => self.graph().take(received, &known),
                    Err(GitError::Cancelled) => return Err(GitError::Cancelled),
                    Err(GitError::LimitExceeded { .. }) => break,
                    Err(error) => {
                        group.iter().filter(|query| query.is_open()).for_each(|query| query.fail(&error));
                        break;
                    }
                }
            }
            let mut graph = self.graph();
            for query in group.iter().filter(|query| query.is_open()) {
                // Nothing leads to what did not come by now.
                let unseen: Vec<_> = graph.unseen(&query.known).collect();
                for id in unseen {
                    graph.miss(id);
                }
                graph.settle(query.new, &query.known);
            }
        }
        Ok(())
    }

    /// Questions whose answers are not whole yet, by what is known to those who ask.
    fn too_shallow(&self, queries: &[Arc<PendingQuery>]) -> BTreeMap<Vec<ObjectId>, Vec<Arc<PendingQuery>>> {
        let graph = self.graph();
        let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for query in queries.iter().filter(|query| query.is_open() && query.need(&graph) != Need::Nothing) {
            groups.entry(graph.present(&query.known)).or_default().push(Arc::clone(query));
        }
        groups
    }
}

fn missing(source: &RemoteRepository, revision: ObjectId) -> GitError {
    let url = source.state.url.to_string();
    GitError::RevisionMissing { url, revision: revision.to_string() }
}
