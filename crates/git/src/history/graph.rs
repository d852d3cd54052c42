//! The commits that are known of one repository, and the walk between revisions.
//!
//! Dates are not used: they say what anybody's clock said. A commit's *generation* is one more than its parents'
//! greatest, as far as they are here; commits are visited from great to small ones, so that whatever descends from a
//! commit comes before it and a walk ends as soon as nothing new can come.

use std::collections::{BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use super::commit::Commit;
use super::received::ReceivedHistory;
use super::{History, HistoryCommit};
use crate::ObjectId;

/// Revisions that are remembered to be gone, and questions that cannot be answered better.
const MAX_REMEMBERED: usize = 10_000;
/// Tags of tags that are followed.
const MAX_TAGS: usize = 8;

#[derive(Default)]
pub(super) struct Graph {
    nodes: Vec<Node>,
    index: HashMap<ObjectId, u32>,
    /// Parents that are not here. The server left them out because all of these commits together hold them, or for
    /// a reason of its own.
    absent: HashMap<ObjectId, Option<Arc<[ObjectId]>>>,
    tags: HashMap<ObjectId, ObjectId>,
    /// What the commits count as together.
    weight: usize,
    /// Revisions that the server does not have.
    gone: HashSet<ObjectId>,
    /// Questions that nothing more can be found out about: what is asked for, and what is known.
    tried: HashSet<(ObjectId, Vec<ObjectId>)>,
}

struct Node {
    commit: Commit,
    generation: u32,
}

/// What a walk found.
pub(super) struct Range {
    /// Positions of the commits, descendants first.
    commits: Vec<u32>,
    /// Whether there may be more, which are not here.
    open: bool,
    /// Whether they grew from something that is held.
    meets: bool,
}

/// What has to be fetched for an answer.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Need {
    Nothing,
    /// These revisions are not here.
    Revisions(Vec<ObjectId>),
    /// More of what lies between them.
    Depth,
}

const WANTED: u8 = 1;
const HELD: u8 = 2;

impl Graph {
    /// How much it holds, counted in commits.
    pub(super) fn size(&self) -> usize {
        self.weight + self.tags.len()
    }

    pub(super) fn has(&self, id: ObjectId) -> bool {
        self.get(self.peel(id)).is_some()
    }

    fn get(&self, id: ObjectId) -> Option<u32> {
        self.index.get(&id).copied()
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    /// The commit behind a tag, or what is no tag itself.
    pub(super) fn peel(&self, mut id: ObjectId) -> ObjectId {
        for _ in 0..MAX_TAGS {
            match self.tags.get(&id) {
                Some(target) => id = *target,
                None => break,
            }
        }
        id
    }

    /// Takes over a transfer that was made with these `have`s.
    pub(super) fn take(&mut self, received: ReceivedHistory, haves: &[ObjectId]) {
        let haves: Option<Arc<[ObjectId]>> = (!haves.is_empty()).then(|| haves.into());
        let ReceivedHistory { commits, tags, shallow, .. } = received;
        let first = self.nodes.len();
        let mut below = false;
        let mut edges = Vec::new();
        for commit in commits {
            let known = haves.as_ref().filter(|_| !shallow.contains(&commit.id));
            edges.extend(commit.parents.iter().map(|parent| (*parent, known.cloned())));
            self.gone.remove(&commit.id);
            let position = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
            if position < u32::MAX && !self.index.contains_key(&commit.id) {
                below |= self.absent.remove(&commit.id).is_some();
                self.index.insert(commit.id, position);
                self.weight += commit.weight();
                self.nodes.push(Node { commit, generation: 0 });
            }
        }
        for (parent, holders) in edges {
            if !self.index.contains_key(&parent) {
                let known = self.absent.entry(parent).or_default();
                *known = holders.or(known.take());
            }
        }
        for (tag, target) in tags {
            self.gone.remove(&tag);
            self.tags.insert(tag, target);
        }
        if below {
            self.nodes.iter_mut().for_each(|node| node.generation = 0);
            self.number(0);
        } else {
            self.number(first);
        }
    }

    /// Gives the commits from `first` on their generations.
    fn number(&mut self, first: usize) {
        let mut path: Vec<u32> = Vec::new();
        for start in first..self.nodes.len() {
            path.extend(u32::try_from(start));
            while let Some(at) = path.last().copied() {
                let mut greatest = 0;
                let mut waits = false;
                if self.node(at).generation == 0 {
                    for parent in &self.node(at).commit.parents {
                        match self.get(*parent) {
                            Some(parent) if self.node(parent).generation == 0 => {
                                path.push(parent);
                                waits = true;
                            }
                            Some(parent) => greatest = greatest.max(self.node(parent).generation),
                            None => {}
                        }
                    }
                    if waits {
                        continue;
                    }
                    self.nodes[at as usize].generation = greatest + 1;
                }
                path.pop();
            }
        }
    }

    /// Notes that the server does not have `id`.
    pub(super) fn miss(&mut self, id: ObjectId) {
        if self.gone.len() >= MAX_REMEMBERED {
            self.gone.clear();
        }
        self.gone.insert(id);
    }

    /// Notes that the answer to a question is as good as it gets.
    pub(super) fn settle(&mut self, new: ObjectId, known: &[ObjectId]) {
        if self.tried.len() >= MAX_REMEMBERED {
            self.tried.clear();
        }
        self.tried.insert((self.peel(new), self.present(known)));
    }

    /// Those of `known` that are here, in order, each once.
    pub(super) fn present(&self, known: &[ObjectId]) -> Vec<ObjectId> {
        let mut present: Vec<_> =
            known.iter().map(|id| self.peel(*id)).filter(|id| self.index.contains_key(id)).collect();
        present.sort_unstable();
        present.dedup();
        present
    }

    /// Those of `known` that nobody has asked the server for.
    pub(super) fn unseen<'a>(&'a self, known: &'a [ObjectId]) -> impl Iterator<Item = ObjectId> + 'a {
        known.iter().copied().filter(|id| !self.has(*id) && !self.gone.contains(id))
    }

    /// What has to be fetched before [`answer`](Graph::answer) is as good as it gets.
    pub(super) fn need(&self, new: ObjectId, known: &[ObjectId]) -> Need {
        if known.contains(&new) {
            return Need::Nothing;
        }
        let mut revisions: Vec<_> = self.unseen(known).collect();
        if !self.has(new) {
            revisions.insert(0, new);
        }
        if !revisions.is_empty() {
            return Need::Revisions(revisions);
        }
        let present = self.present(known);
        if present.is_empty() || !self.range(new, &present).open {
            return Need::Nothing;
        }
        if self.tried.contains(&(self.peel(new), present)) { Need::Nothing } else { Need::Depth }
    }

    /// The commits that `new` holds and none of `known` holds.
    fn range(&self, new: ObjectId, known: &[ObjectId]) -> Range {
        let mut walk = Walk { graph: self, marks: HashMap::new(), queue: BinaryHeap::new(), wanted: 0 };
        let known: Vec<_> = known.iter().map(|id| self.peel(*id)).collect();
        for id in &known {
            walk.mark(self.get(*id), HELD);
        }
        walk.mark(self.get(self.peel(new)), WANTED);
        let mut commits = Vec::new();
        let (mut missing, mut held) = (HashSet::new(), HashSet::new());
        while walk.wanted > 0 || !missing.is_empty() {
            let Some((_, at)) = walk.queue.pop() else { break };
            let mark = walk.marks.get(&at).copied().unwrap_or_default();
            if mark & HELD == 0 {
                walk.wanted -= 1;
                commits.push(at);
            }
            for parent in &self.node(at).commit.parents {
                match self.get(*parent) {
                    Some(parent) => walk.mark(Some(parent), if mark & HELD == 0 { WANTED } else { HELD }),
                    None if mark & HELD != 0 => {
                        held.insert(*parent);
                    }
                    None if known.contains(parent) => {}
                    None => {
                        missing.insert(*parent);
                    }
                }
            }
        }
        let is_held = |id: &ObjectId| {
            let marked = |at: u32| walk.marks.get(&at).is_some_and(|mark| mark & HELD != 0);
            known.contains(id) || self.get(*id).is_some_and(marked)
        };
        missing.retain(|id| {
            let holders = self.absent.get(id).and_then(Option::as_ref);
            !held.contains(id) && !holders.is_some_and(|holders| holders.iter().all(is_held))
        });
        let meets = commits
            .iter()
            .flat_map(|at| &self.node(*at).commit.parents)
            .any(|parent| is_held(parent) || (self.get(*parent).is_none() && !missing.contains(parent)));
        Range { commits, open: !missing.is_empty(), meets }
    }

    /// Whether `old` is `new` or came before it, as far as can be seen from here.
    fn descends(&self, new: ObjectId, old: ObjectId) -> bool {
        let (new, old) = (self.peel(new), self.peel(old));
        if new == old {
            return true;
        }
        let floor = self.get(old).map_or(0, |at| self.node(at).generation);
        let mut seen = HashSet::new();
        let mut rest: Vec<u32> = self.get(new).into_iter().collect();
        while let Some(at) = rest.pop() {
            for parent in &self.node(at).commit.parents {
                if *parent == old {
                    return true;
                }
                rest.extend(
                    self.get(*parent).filter(|at| self.node(*at).generation > floor && seen.insert(*at)),
                );
            }
        }
        false
    }

    /// The answer as far as it is known; nothing when `new` is not here.
    pub(super) fn answer(&self, new: ObjectId, known: &[ObjectId], max: usize) -> Option<History> {
        if known.contains(&new) {
            return Some(History::default());
        }
        let tip = self.get(self.peel(new))?;
        let range = self.range(new, known);
        // Where a part is missing, so may be the way to the known revision; but nothing descends from what is gone.
        let is_seen = |last: &&ObjectId| !range.open || self.gone.contains(*last);
        let last = known.last().filter(|_| !range.commits.is_empty()).filter(is_seen);
        let rewritten = last.is_some_and(|last| !self.descends(new, *last));
        let mut commits = self.in_order(tip, &range);
        let excess = commits.len().saturating_sub(max);
        commits.drain(..excess);
        let commits = commits.into_iter().map(|(at, by)| self.told(at, by)).collect();
        let unrelated = !known.is_empty() && !range.commits.is_empty() && !range.meets;
        Some(History { commits, rewritten, truncated: range.open || excess > 0, unrelated })
    }

    fn told(&self, at: u32, by: u32) -> HistoryCommit {
        let commit = self.node(at).commit.clone();
        HistoryCommit {
            id: commit.id,
            parents: commit.parents,
            committed: commit.committed,
            merged: self.node(by).commit.committed,
            author: commit.author,
            subject: commit.subject,
            traceparent: commit.traceparent,
            job: commit.job,
        }
    }

    /// The commits of a range, oldest first, each with the one of the first-parent line that took it in.
    fn in_order(&self, tip: u32, range: &Range) -> Vec<(u32, u32)> {
        let mut left: HashSet<u32> = range.commits.iter().copied().collect();
        let mut line = Vec::new();
        let mut next = Some(tip);
        while let Some(at) = next.filter(|at| left.contains(at)) {
            line.push(at);
            next = self.node(at).commit.parents.first().and_then(|parent| self.get(*parent));
        }
        let mut ordered = Vec::with_capacity(left.len());
        let mut path = Vec::new();
        for by in line.into_iter().rev() {
            path.push((by, false));
            while let Some((at, done)) = path.pop() {
                if done {
                    ordered.push((at, by));
                } else if left.remove(&at) {
                    path.push((at, true));
                    let parents = self.node(at).commit.parents.iter().rev();
                    path.extend(parents.filter_map(|parent| self.get(*parent)).map(|parent| (parent, false)));
                }
            }
        }
        ordered
    }
}

struct Walk<'a> {
    graph: &'a Graph,
    marks: HashMap<u32, u8>,
    queue: BinaryHeap<(u32, u32)>,
    /// Commits in the queue that are wanted and not held.
    wanted: usize,
}

impl Walk<'_> {
    fn mark(&mut self, at: Option<u32>, mark: u8) {
        let Some(at) = at else { return };
        let known = self.marks.entry(at).or_default();
        let was = *known;
        *known |= mark;
        if was == 0 {
            self.queue.push((self.graph.node(at).generation, at));
        }
        let (before, now) = (was == WANTED, *known == WANTED);
        if now && !before {
            self.wanted += 1;
        } else if before && !now {
            self.wanted -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
