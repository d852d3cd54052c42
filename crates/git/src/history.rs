//! Which commits lie between revisions: those that the new one holds and none of the known ones holds.
//!
//! What was fetched is remembered as a graph of commits in memory (`graph.rs`), one for each remote, and bounded over
//! all of them (`archive.rs`); questions that are asked at the same time become one request (`query.rs`). The
//! caches on disk hold other things, the files of single commits, and neither is used for the other.
//!
//! An answer is exact where the graph shows that nothing is missing in it. Commits that are not in the graph are
//! asked for with `have`s of the known ones, so that the server leaves out what these hold, wherever the histories
//! meet; and down to a depth, so that it sends no whole history when it does not know the known ones.

mod archive;
mod commit;
mod graph;
mod places;
mod query;
mod received;
mod transfer;

pub(crate) use self::archive::Histories;
pub use self::commit::JOB_TRAILER;
pub(crate) use self::query::query;

use crate::{ObjectId, Revision};

/// What is asked: the commits that `new` holds and none of `known` holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryQuery {
    /// The revision whose commits are asked for. An annotated tag stands for its commit.
    pub new: Revision,
    /// Revisions whose commits are no news, oldest first: the last is the one that `new` is expected to build on.
    /// With none, the newest commits of `new` are the answer.
    pub known: Vec<Revision>,
    /// Commits of an answer at most; of more, the newest are kept.
    pub max: usize,
}

/// The answer to a [`HistoryQuery`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Oldest first, in the order in which the first-parent line took them in.
    pub commits: Vec<HistoryCommit>,
    /// The last of the known revisions is no ancestor of the new one (nor the other way round): history was
    /// rewritten, or it is another branch. The commits are those since the histories parted, where that was found.
    pub rewritten: bool,
    /// There are more commits than these, older ones.
    pub truncated: bool,
    /// None of the known revisions has a commit in common with the new one, as far as was looked: they are of another
    /// repository, or are gone from the server. Then nobody can tell which of the commits are news.
    pub unrelated: bool,
}

/// A commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryCommit {
    /// Its id.
    pub id: ObjectId,
    /// Its parents' ids, the first-parent line's first.
    pub parents: Vec<ObjectId>,
    /// When it was committed, in seconds since 1970, as its committer's clock had it: anything is possible.
    pub committed: i64,
    /// When the first-parent line of the new revision took it in, likewise: the committer's time of the merge that
    /// brought it, or its own where it is on that line.
    pub merged: i64,
    /// Its author's name, shortened, without control characters.
    pub author: String,
    /// The first paragraph of its message in one line, shortened, without control characters.
    pub subject: String,
    /// What its trailer `traceparent` says, as it is: at most 128 printable characters of ASCII.
    pub traceparent: Option<Box<str>>,
    /// What its trailer [`JOB_TRAILER`] says, likewise: the UID of the job that made it.
    pub job: Option<Box<str>>,
}
