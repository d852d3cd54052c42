//! Questions about histories: answered from what is remembered, or fetched for everybody who waits.
//!
//! Whoever asks looks at the graph first. What it does not answer waits for its turn; whoever has the turn fetches
//! for everybody who waits: new revisions in one request, then what lies deeper, one request for all who know the
//! same. Dropping a question that has the turn hands the turn to the next, which finds what came until then.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio_util::sync::CancellationToken;

use super::History;
use super::archive::{Archive, PendingQuery};
use super::graph::{Graph, Need};
use super::transfer::transfer;
use crate::call::Call;
use crate::remote::RemoteRepository;
use crate::{GitError, ObjectId};

/// How deep the first look at a repository goes: far enough that what was known yesterday is usually there.
const FIRST: u32 = 128;
/// How deep a transfer goes that is told what is known, and so is short where that is true.
const NEXT: u32 = 1_000;
/// How much shallower a transfer is made that crossed a limit.
const SHALLOWER: u32 = 8;

/// Which commits `new` holds and none of `known` holds, at most `max`: out of the history of `source`, fetching what is
/// missing.
pub(crate) async fn query(
    source: &RemoteRepository,
    new: ObjectId,
    known: Vec<ObjectId>,
    max: usize,
    cancel: &CancellationToken,
) -> Result<History, GitError> {
    let histories = &source.shared.histories;
    let archive = histories.archive(&source.state.key);
    let answer = archive.query(source, PendingQuery::new(new, known, max), cancel).await;
    drop(archive);
    histories.forget();
    answer
}

impl Archive {
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
}

fn missing(source: &RemoteRepository, revision: ObjectId) -> GitError {
    let url = source.state.url.to_string();
    GitError::RevisionMissing { url, revision: revision.to_string() }
}
