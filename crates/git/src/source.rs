//! The trait that remotes and local folders share, and the values it speaks in.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{GitError, History, HistoryQuery, Limits, ObjectId};

/// Something that files are read from.
///
/// Every call may be dropped or cancelled at any time; the blocking work behind it then stops at its next step.
/// All paths are relative, separated by `/`, valid UTF-8 and free of `.`, `..` and control characters.
#[async_trait]
pub trait Source: Send + Sync + 'static {
    /// Whether revisions of the past can be read, and so whether [`diff`](Source::diff) works. A local folder
    /// has no past: callers do a full comparison.
    fn versioned(&self) -> bool;

    /// What this source is called in messages: a URL without secrets, or a path.
    fn name(&self) -> &str;

    /// The limits that it works under; compare [`Entry::size`] with [`Limits::blob_bytes`] before reading.
    fn limits(&self) -> &Limits;

    /// Refs whose full name starts with `prefix` (for branches: `refs/heads/`); one request. A local folder has
    /// none.
    async fn refs(&self, prefix: &str, cancel: &CancellationToken) -> Result<Vec<Ref>, GitError>;

    /// The revision that a branch points at now; one request. `branch` is a short name, a full name that starts
    /// with `refs/`, or empty for the remote's default branch. A local folder ignores it and answers a hash of
    /// its contents.
    async fn resolve(&self, branch: &str, cancel: &CancellationToken) -> Result<Revision, GitError>;

    /// Every file under `prefix` (empty: the whole tree) at `revision`, fetching what is missing: no request when
    /// the revision is in the cache, one otherwise.
    async fn tree(
        &self,
        revision: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Tree, GitError>;

    /// What changed under `prefix` from `old` to `new`, fetching what is missing with one request. Sub-trees
    /// that are the same in both are not read. [`GitError::RevisionMissing`] means that `old` can no longer be
    /// had (a force-push, for example): compare in full.
    async fn diff(
        &self,
        old: &Revision,
        new: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Diff, GitError>;

    /// The commits between revisions: no request when they were fetched before, one otherwise (and more only where
    /// history goes far back). Questions that are asked at the same time share their requests.
    ///
    /// [`GitError::RevisionMissing`] means that the server has no such revision, or none any more; known revisions
    /// may be gone. A source without a past answers [`GitError::Unsupported`].
    async fn history(&self, query: &HistoryQuery, cancel: &CancellationToken) -> Result<History, GitError> {
        let _ = (query, cancel);
        Err(GitError::Unsupported { url: self.name().to_owned(), detail: "it has no history".to_owned() })
    }

    /// Contents by id, in the order asked for. All of them are in memory at once: ask in [`batches`]. One that
    /// is larger than [`Limits::blob_bytes`] fails the call with [`GitError::LimitExceeded`].
    async fn blobs(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, GitError>;

    /// The content of one object.
    async fn blob(&self, id: ObjectId, cancel: &CancellationToken) -> Result<Bytes, GitError> {
        let mut found = self.blobs(&[id], cancel).await?;
        found.pop().ok_or(GitError::ObjectMissing { id })
    }
}

/// Splits `items` into runs of at most `max_items` items and `max_bytes` bytes (at least one item each), for
/// reading many files with [`Source::blobs`] in bounded memory.
pub fn batches<T>(
    items: &[T],
    size: impl Fn(&T) -> u64,
    max_items: usize,
    max_bytes: u64,
) -> impl Iterator<Item = &[T]> {
    let mut rest = items;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (mut count, mut bytes) = (0, 0_u64);
        for item in rest.iter().take(max_items.max(1)) {
            bytes = bytes.saturating_add(size(item));
            if count > 0 && bytes > max_bytes {
                break;
            }
            count += 1;
        }
        let (batch, tail) = rest.split_at(count);
        rest = tail;
        Some(batch)
    })
}

/// A state of a source that can be read: a commit's id, or the hash of a local folder's contents.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Revision(String);

impl Revision {
    /// The revision of this name, as a status or a job carries it; judged when it is used.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// What a repository without commits is at, as Git writes it: nothing can be read there, but written upon.
    pub fn nothing() -> Self {
        ObjectId::from_bytes([0; 20]).into()
    }

    /// Whether this is no commit at all.
    pub fn is_nothing(&self) -> bool {
        *self == Self::nothing()
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ObjectId> for Revision {
    fn from(id: ObjectId) -> Self {
        Self(id.to_string())
    }
}

/// A branch, a tag, or `HEAD`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ref {
    /// Full name, such as `refs/heads/main`.
    pub name: String,
    /// What it points at, annotated tags not followed.
    pub id: ObjectId,
    /// The commit behind an annotated tag.
    pub peeled: Option<ObjectId>,
    /// The ref that a symbolic one (`HEAD`) stands for.
    pub symref_target: Option<String>,
}

impl Ref {
    /// `main` for `refs/heads/main`; nothing for other refs.
    pub fn branch(&self) -> Option<&str> {
        self.name.strip_prefix("refs/heads/")
    }
}

/// What kind of thing an [`Entry`] is. Only files have contents worth reading; the others are never followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum EntryKind {
    /// A plain file.
    File,
    /// A file with the executable bit.
    Executable,
    /// A symbolic link; its blob is the target's path.
    Symlink,
    /// A commit of another repository.
    Submodule,
}

impl EntryKind {
    /// Whether it has contents that a reader wants.
    pub fn is_file(self) -> bool {
        matches!(self, Self::File | Self::Executable)
    }
}

/// A file of a [`Tree`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Path relative to the prefix that was asked for.
    pub path: String,
    /// What [`Source::blobs`] takes.
    pub id: ObjectId,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes; 0 for a submodule.
    pub size: u64,
}

/// The files of one revision.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tree {
    /// Hash of the directory that was asked for; nothing when the revision has no such directory.
    pub root: Option<ObjectId>,
    /// Files, depth first in Git's order.
    pub entries: Vec<Entry>,
    /// What was left out, and why.
    pub rejected: Vec<Rejected>,
}

/// An entry that nobody should handle: its name or mode is one that Git itself would refuse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejected {
    /// Path relative to the prefix, with what is not printable escaped.
    pub path: String,
    /// What is wrong with it, as a clause: `its name is ".git" in disguise`.
    pub reason: String,
}

/// What happened to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ChangeKind {
    /// It is new.
    Added,
    /// Its content or kind is different.
    Modified,
    /// It is gone.
    Deleted,
    /// The same content is at another path.
    Renamed,
}

/// One file's difference between two revisions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Path relative to the prefix: the new one, or the old one of a deleted file.
    pub path: String,
    /// Where a renamed file was.
    pub previous_path: Option<String>,
    /// What happened.
    pub kind: ChangeKind,
    /// The new content; nothing when deleted.
    pub id: Option<ObjectId>,
    /// The old content; nothing when added.
    pub previous_id: Option<ObjectId>,
    /// What the path is now, or was, if deleted.
    pub entry: EntryKind,
    /// Bytes of the new content; 0 when deleted.
    pub size: u64,
}

/// What is different between two revisions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Diff {
    /// Changes in the order of their paths.
    pub changes: Vec<Change>,
    /// New entries that nobody should handle (see [`Tree::rejected`]); old ones are not repeated.
    pub rejected: Vec<Rejected>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_bounded_by_count_and_bytes_and_never_empty() {
        let sizes = [5, 5, 5, 100, 1, 1, 1, 1];
        let runs: Vec<usize> = batches(&sizes, |size| *size, 3, 10).map(<[u64]>::len).collect();
        assert_eq!(runs, [2, 1, 1, 3, 1]);
        assert_eq!(batches(&[] as &[u64], |size| *size, 3, 10).count(), 0);
    }

    #[test]
    fn a_file_is_called_as_git_calls_it() {
        // `printf 'hello\n' | git hash-object --stdin`
        let id = ObjectId::of_blob(b"hello\n").to_string();
        assert_eq!(id, "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn ids_are_forty_hexadecimal_digits() {
        let text = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(text.parse::<ObjectId>().unwrap().to_string(), text);
        for bad in ["", "0123", &text[1..], &text.replace('a', "g"), &text.replace("ab", "é")] {
            assert!(bad.parse::<ObjectId>().is_err(), "{bad}");
        }
    }
}
