//! What an open repository offers.

use std::io::{self, Read};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use windlass_git::{Diff, History, HistoryQuery, Limits, ObjectId, Ref, Revision, Tree};

use crate::{ReadError, Writer};

/// A repository that is open: what can be read from it, and what else can be done with it.
#[derive(Clone)]
pub struct Opened {
    /// Its files, now and at any revision that it still has.
    pub reader: Arc<dyn Reader>,
    /// Its past. A folder has none: whoever compares does so in full.
    pub versioned: Option<Arc<dyn Versioned>>,
    /// Writes files as commits (or into the folder).
    pub writer: Option<Arc<dyn Writer>>,
    /// Links to its pages.
    pub urls: Option<Arc<dyn Urls>>,
}

impl Opened {
    /// A repository that can be read, and no more.
    pub fn read_only(reader: Arc<dyn Reader>) -> Self {
        Self { reader, versioned: None, writer: None, urls: None }
    }
}

/// Something that files are read from.
///
/// Every call may be dropped or cancelled at any time; the blocking work behind it then stops at its next step.
/// All paths are relative, separated by `/`, valid UTF-8 and free of `.`, `..` and control characters.
#[async_trait]
pub trait Reader: Send + Sync + 'static {
    /// What the repository is called in messages: a URL without secrets, or a path.
    fn name(&self) -> &str;

    /// The limits that it is read under; compare [`Entry::size`](windlass_git::Entry::size) with
    /// [`Limits::blob_bytes`] before reading.
    fn limits(&self) -> &Limits;

    /// The revision that a branch points at now; one request to a server. `branch` is a short name, a full name that
    /// starts with `refs/`, or empty for the default branch. A folder ignores it and answers a hash of its contents.
    async fn resolve(&self, branch: &str, cancel: &CancellationToken) -> Result<Revision, ReadError>;

    /// Every file under `prefix` (empty: the whole tree) at `revision`, fetching what is missing: no request when
    /// the revision is in the cache, one otherwise.
    async fn tree(
        &self,
        revision: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Tree, ReadError>;

    /// Contents by id, in the order asked for. All of them are in memory at once: ask in
    /// [`batches`](windlass_git::batches). One that is larger than [`Limits::blob_bytes`] fails the call.
    async fn blobs(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, ReadError>;

    /// The content of one object, to be read in pieces where that may block.
    ///
    /// One of a Git repository may have [`Limits::pack_bytes`]. A folder's files are read whole: none is larger than
    /// [`Limits::blob_bytes`].
    async fn open_blob(
        &self,
        id: ObjectId,
        cancel: &CancellationToken,
    ) -> Result<Box<dyn Read + Send>, ReadError> {
        Ok(Box::new(io::Cursor::new(self.blob(id, cancel).await?)))
    }

    /// The content of one object.
    async fn blob(&self, id: ObjectId, cancel: &CancellationToken) -> Result<Bytes, ReadError> {
        let mut found = self.blobs(&[id], cancel).await?;
        found.pop().ok_or(ReadError::missing(id))
    }
}

/// The past of a repository.
#[async_trait]
pub trait Versioned: Send + Sync + 'static {
    /// Refs whose full name starts with `prefix` (for branches: `refs/heads/`); one request.
    async fn refs(&self, prefix: &str, cancel: &CancellationToken) -> Result<Vec<Ref>, ReadError>;

    /// What changed under `prefix` from `old` to `new`, fetching what is missing with one request.
    /// [`RevisionMissing`](windlass_git::GitError::RevisionMissing) means that `old` can no longer be had (a force-push,
    /// for example): compare in full.
    async fn diff(
        &self,
        old: &Revision,
        new: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Diff, ReadError>;

    /// The ids of what is at `path`, seen from the root, at each of `commits`: a file or a folder, and nothing where there
    /// is none. One request; files are not transferred where the server can leave them out.
    async fn ids_at(
        &self,
        commits: &[ObjectId],
        path: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Option<ObjectId>>, ReadError>;

    /// The commits between revisions: no request when they were fetched before, one otherwise.
    async fn history(&self, query: &HistoryQuery, cancel: &CancellationToken) -> Result<History, ReadError>;
}

/// Pages of a repository that a person can open in a browser. Nothing is sent to make one.
pub trait Urls: Send + Sync + 'static {
    /// The repository's own page.
    fn repository(&self) -> String;

    /// The page of a file, its path seen from the repository's folder, at a branch, tag or commit.
    fn file(&self, reference: &str, path: &str) -> String;

    /// The page of a branch, tag or commit.
    fn reference(&self, reference: &str) -> String;

    /// The page that shows what is in `head` and not in `base`.
    fn compare(&self, base: &str, head: &str) -> String;

    /// The page on which a pull request of `head` into `base` is opened.
    fn new_pull_request(&self, base: &str, head: &str) -> String;
}
