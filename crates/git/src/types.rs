//! What is read of a repository: revisions, refs, trees and differences.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ObjectId;

/// Splits `items` into runs of at most `max_items` items and `max_bytes` bytes (at least one item each), for
/// reading many files with [`RemoteRepository::blobs`](crate::RemoteRepository::blobs) in bounded memory.
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

/// A state of a source that can be read: a commit's id, or, beside this crate, the hash of a local folder's contents.
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
    /// What [`RemoteRepository::blobs`](crate::RemoteRepository::blobs) takes.
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
