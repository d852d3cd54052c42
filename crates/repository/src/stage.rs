//! Changes that are collected, judged, and written at once.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use windlass_git::{Limits, ObjectId, Revision};

use crate::WriteError;

/// What changes are made to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The branch that the commit goes onto, as its short name; a folder has none.
    pub branch: String,
    /// What the branch pointed at when the changes were decided on: they are refused if it points elsewhere by then.
    /// [Nothing](Revision::nothing) where the repository has no commit yet, and this is to be the first.
    pub revision: Revision,
    /// Whether the branch is yet to be made, with this as its first commit's parent. The changes are refused if it is
    /// there by then.
    pub is_new: bool,
}

/// Who made a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Name, in one line.
    pub name: String,
    /// E-mail address.
    pub email: String,
}

/// What a commit says beside its files. The same [`Base`], changes and `Commit` make the same commit, so that one whose
/// answer was lost is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The message, without the trailer.
    pub message: String,
    /// Who wrote the change.
    pub author: Signature,
    /// Who makes the commit.
    pub committer: Signature,
    /// The commit's date, in seconds since 1970: the time at which its job was created, never now.
    pub seconds: i64,
    /// UID of the job that makes it: becomes the trailer `Windlass-Job`. Empty for a commit of no job, which has none.
    pub job: String,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The revision that holds the changes; the base's where they change nothing.
    pub revision: Revision,
    /// How long it took to make the commit, before it was pushed.
    pub committing: Duration,
}

/// One change to one path, seen from the repository's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StagedChange {
    /// The file is there with this content, whatever was there.
    Put {
        /// The file.
        path: String,
        /// Its content.
        content: Bytes,
    },
    /// The file is gone.
    Delete {
        /// The file.
        path: String,
    },
    /// The file keeps content and mode under another path.
    Rename {
        /// Where it is.
        from: String,
        /// Where it goes; nothing may be there.
        to: String,
    },
}

impl StagedChange {
    /// The path that is there, or gone, afterwards.
    pub fn path(&self) -> &str {
        match self {
            Self::Put { path, .. } | Self::Delete { path } | Self::Rename { to: path, .. } => path,
        }
    }
}

/// Writes files to a repository.
#[async_trait]
pub trait Writer: Send + Sync + 'static {
    /// The limits that changes are staged under.
    fn limits(&self) -> &Limits;

    /// The id under which a file of this content will be found.
    fn id_of(&self, content: &[u8]) -> ObjectId;

    /// Whether writes are taken at all: one request to a server. Single branches may be protected all the same.
    async fn check_access(&self, _cancel: &CancellationToken) -> Result<(), WriteError> {
        Ok(())
    }

    /// Writes changes, in their order, as one commit onto `base`. The paths were judged by [`Stage`].
    async fn write(
        &self,
        base: &Base,
        changes: Vec<StagedChange>,
        commit: &Commit,
        cancel: &CancellationToken,
    ) -> Result<Written, WriteError>;
}

impl dyn Writer {
    /// Begins to collect changes to `base`.
    pub fn stage(self: &Arc<Self>, base: Base) -> Stage {
        Stage { writer: Arc::clone(self), base, changes: Vec::new(), bytes: 0 }
    }
}

/// Changes that end in one commit and one push. Dropped before, they leave nothing behind.
pub struct Stage {
    writer: Arc<dyn Writer>,
    base: Base,
    changes: Vec<StagedChange>,
    bytes: u64,
}

impl Stage {
    /// Puts a file, new or in place of an old one.
    pub fn put(&mut self, path: &str, content: impl Into<Bytes>) -> Result<(), WriteError> {
        let (path, content) = (self.judge(path)?, content.into());
        let too_large = |limit, max| WriteError::TooLarge { path: path.clone(), limit, max };
        let (size, limits) = (content.len() as u64, self.writer.limits());
        if size > limits.blob_bytes {
            return Err(too_large("blob_bytes", limits.blob_bytes));
        }
        if self.bytes.saturating_add(size) > limits.pack_bytes {
            return Err(too_large("pack_bytes", limits.pack_bytes));
        }
        self.bytes += size;
        self.changes.push(StagedChange::Put { path, content });
        Ok(())
    }

    /// Deletes a file.
    pub fn delete(&mut self, path: &str) -> Result<(), WriteError> {
        let path = self.judge(path)?;
        self.changes.push(StagedChange::Delete { path });
        Ok(())
    }

    /// Gives a file another path.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), WriteError> {
        let (from, to) = (self.judge(from)?, self.judge(to)?);
        self.changes.push(StagedChange::Rename { from, to });
        Ok(())
    }

    /// What was staged, in its order.
    pub fn changes(&self) -> &[StagedChange] {
        &self.changes
    }

    /// Whether nothing was staged.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Writes what was staged as one commit.
    pub async fn push(self, commit: &Commit, cancel: &CancellationToken) -> Result<Written, WriteError> {
        if self.changes.is_empty() {
            return Ok(Written { revision: self.base.revision, committing: Duration::ZERO });
        }
        self.writer.write(&self.base, self.changes, commit, cancel).await
    }

    fn judge(&self, path: &str) -> Result<String, WriteError> {
        let refuse = |reason| Err(WriteError::Path { path: path.to_owned(), reason });
        let limits = self.writer.limits();
        if path.len() > limits.path_bytes {
            return refuse("it is too long");
        }
        if path.split('/').count() > limits.depth {
            return refuse("it is nested too deep");
        }
        if let Some(reason) = path.split('/').find_map(|name| windlass_git::refuse_name(name.as_bytes())) {
            return refuse(reason);
        }
        if self.changes.len() >= limits.entries {
            let max = limits.entries as u64;
            return Err(WriteError::TooLarge { path: path.to_owned(), limit: "entries", max });
        }
        Ok(path.to_owned())
    }
}
