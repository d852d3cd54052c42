//! Repositories on a Git server.

use std::io::Read;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_git::{
    CommitMeta, Diff, GitError, History, HistoryQuery, JOB_TRAILER, Limits, ObjectId, Ref, RemoteRepository,
    Revision, Tree, TreeChange,
};

use crate::signing::Signer;
use crate::{
    Base, Commit, Opened, ReadError, Reader, Signature, StagedChange, Versioned, WriteError, Writer, Written,
};

/// A repository on a Git server.
pub(crate) struct GitRepository {
    remote: Arc<RemoteRepository>,
    /// The folder in it that is written to; empty for the root.
    prefix: String,
    /// Signs what is written.
    signer: Option<Signer>,
}

impl GitRepository {
    /// What a remote offers; files are written under `prefix`, in commits that `signer` signs.
    pub(crate) fn open(remote: Arc<RemoteRepository>, prefix: &str, signer: Option<Signer>) -> Opened {
        let repository = Arc::new(Self { remote, prefix: prefix.to_owned(), signer });
        let (versioned, writer): (Arc<dyn Versioned>, Arc<dyn Writer>) =
            (repository.clone(), repository.clone());
        Opened { versioned: Some(versioned), writer: Some(writer), ..Opened::read_only(repository) }
    }

    fn placed(&self, path: String) -> String {
        if self.prefix.is_empty() { path } else { format!("{}/{path}", self.prefix) }
    }

    fn change(&self, change: StagedChange) -> TreeChange {
        match change {
            StagedChange::Put { path, content } => {
                TreeChange::Put { path: self.placed(path), content, executable: false }
            }
            StagedChange::Delete { path } => TreeChange::Delete { path: self.placed(path) },
            StagedChange::Rename { from, to } => {
                TreeChange::Rename { from: self.placed(from), to: self.placed(to) }
            }
        }
    }

    fn refused(&self, base: &Base, error: GitError) -> WriteError {
        let name = self.remote.name().to_owned();
        match error {
            GitError::RefMoved { .. } => WriteError::Conflict { name, base: base.revision.to_string() },
            GitError::FileNotFound { path } => WriteError::NotFound { path, name },
            error => WriteError::Write { name, source: Box::new(error.into()) },
        }
    }
}

#[async_trait]
impl Reader for GitRepository {
    fn name(&self) -> &str {
        self.remote.name()
    }

    fn limits(&self) -> &Limits {
        self.remote.limits()
    }

    async fn resolve(&self, branch: &str, cancel: &CancellationToken) -> Result<Revision, ReadError> {
        Ok(self.remote.resolve(branch, cancel).await?)
    }

    async fn tree(
        &self,
        revision: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Tree, ReadError> {
        Ok(self.remote.tree(revision, prefix, cancel).await?)
    }

    async fn blobs(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, ReadError> {
        Ok(self.remote.blobs(ids, cancel).await?)
    }

    async fn open_blob(
        &self,
        id: ObjectId,
        cancel: &CancellationToken,
    ) -> Result<Box<dyn Read + Send>, ReadError> {
        Ok(Box::new(self.remote.open_blob(id, cancel).await?))
    }
}

#[async_trait]
impl Versioned for GitRepository {
    async fn refs(&self, prefix: &str, cancel: &CancellationToken) -> Result<Vec<Ref>, ReadError> {
        Ok(self.remote.refs(prefix, cancel).await?)
    }

    async fn diff(
        &self,
        old: &Revision,
        new: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Diff, ReadError> {
        Ok(self.remote.diff(old, new, prefix, cancel).await?)
    }

    async fn ids_at(
        &self,
        commits: &[ObjectId],
        path: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<Option<ObjectId>>, ReadError> {
        Ok(self.remote.ids_at(commits, path, cancel).await?)
    }

    async fn history(&self, query: &HistoryQuery, cancel: &CancellationToken) -> Result<History, ReadError> {
        Ok(self.remote.history(query, cancel).await?)
    }
}

#[async_trait]
impl Writer for GitRepository {
    fn limits(&self) -> &Limits {
        self.remote.limits()
    }

    fn id_of(&self, content: &[u8]) -> ObjectId {
        ObjectId::of_blob(content)
    }

    async fn check_access(&self, cancel: &CancellationToken) -> Result<(), WriteError> {
        self.remote.check_push_access(cancel).await.map_err(|error| WriteError::Write {
            name: self.remote.name().to_owned(),
            source: Box::new(error.into()),
        })
    }

    async fn write(
        &self,
        base: &Base,
        changes: Vec<StagedChange>,
        commit: &Commit,
        cancel: &CancellationToken,
    ) -> Result<Written, WriteError> {
        let began = Instant::now();
        let changes: Vec<TreeChange> = changes.into_iter().map(|change| self.change(change)).collect();
        let named = |who: &Signature| windlass_git::Signature {
            name: who.name.clone(),
            email: who.email.clone(),
            seconds: commit.seconds,
        };
        let (author, committer) = (named(&commit.author), named(&commit.committer));
        let signing_key = match &self.signer {
            Some(signer) => Some(signer.key(self.remote.name()).await?),
            None => None,
        };
        let mut message = commit.message.trim_end().to_owned();
        if !commit.job.is_empty() {
            message = format!("{message}\n\n{JOB_TRAILER}: {}", commit.job);
        }
        let meta = CommitMeta { author, committer, message, signing_key };
        let parent = Some(&base.revision).filter(|revision| !revision.is_nothing());
        let made = self.remote.commit(parent, &changes, &meta, cancel).await;
        let Some(new) = made.map_err(|error| self.refused(base, error))? else {
            return Ok(Written { revision: base.revision.clone(), committing: began.elapsed() });
        };
        let committing = began.elapsed();
        let expected = parent.filter(|_| !base.is_new);
        let pushed = self.remote.push(&base.branch, expected, &new, cancel).await;
        pushed.map_err(|error| self.refused(base, error))?;
        Ok(Written { revision: new, committing })
    }
}
