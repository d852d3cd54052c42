//! What is read of a remote: its refs, and revisions through the cache.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use git2::{ObjectType, Odb, Repository};
use tokio_util::sync::CancellationToken;

use super::{RemoteRepository, single_line};
use crate::history;
use crate::{
    BlobReader, Diff, GitError, History, HistoryQuery, Limits, ObjectId, Ref, Revision, Tree, diff, tree,
};

/// Every call may be dropped or cancelled at any time; the blocking work behind it then stops at its next step.
/// All paths are relative, separated by `/`, valid UTF-8 and free of `.`, `..` and control characters.
impl RemoteRepository {
    /// What it is called in messages: its URL without secrets.
    pub fn name(&self) -> &str {
        self.state.url.as_str()
    }

    /// The limits that it is read and written under; compare [`Entry::size`](crate::Entry::size) with
    /// [`Limits::blob_bytes`] before reading.
    pub fn limits(&self) -> &Limits {
        &self.shared.config.limits
    }

    /// Refs whose full name starts with `prefix` (for branches: `refs/heads/`); one request.
    pub async fn refs(&self, prefix: &str, cancel: &CancellationToken) -> Result<Vec<Ref>, GitError> {
        let prefixes = if prefix.is_empty() { vec![] } else { vec![single_line(prefix)] };
        let mut refs = self.list(&prefixes, cancel).await?;
        refs.retain(|found| found.name.starts_with(prefix));
        Ok(refs)
    }

    /// Refs whose full names start with one of `prefixes`, which are not empty; one request. Others may be among them.
    pub async fn refs_of(
        &self,
        prefixes: &[String],
        cancel: &CancellationToken,
    ) -> Result<Vec<Ref>, GitError> {
        let prefixes: Vec<String> = prefixes.iter().map(|prefix| single_line(prefix)).collect();
        self.list(&prefixes, cancel).await
    }

    /// The revision that a branch points at now; one request. `branch` is a short name, a full name that starts
    /// with `refs/`, or empty for the remote's default branch.
    pub async fn resolve(&self, branch: &str, cancel: &CancellationToken) -> Result<Revision, GitError> {
        let name = match branch {
            "" => "HEAD".to_owned(),
            full if full.starts_with("refs/") => full.to_owned(),
            short => format!("refs/heads/{short}"),
        };
        let refs = self.list(&[single_line(&name)], cancel).await?;
        let Some(found) = refs.into_iter().find(|found| found.name == name) else {
            return Err(self.not_found(branch, cancel).await);
        };
        Ok(found.peeled.unwrap_or(found.id).into())
    }

    /// Why there is no such branch: a repository that has none at all says so, which costs one more request.
    async fn not_found(&self, branch: &str, cancel: &CancellationToken) -> GitError {
        let url = self.state.url.to_string();
        match self.list(&["refs/heads/".to_owned()], cancel).await {
            Ok(branches) if branches.is_empty() => GitError::Empty { url },
            _ => GitError::BranchNotFound {
                url,
                branch: if branch.is_empty() { "HEAD".to_owned() } else { branch.to_owned() },
            },
        }
    }

    /// Every file under `prefix` (empty: the whole tree) at `revision`, fetching what is missing: no request when
    /// the revision is in the cache, one otherwise.
    pub async fn tree(
        &self,
        revision: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Tree, GitError> {
        let commit = self.commit_id(revision)?;
        self.set_listed(commit);
        let (prefix, limits) = (prefix.to_owned(), self.limits().clone());
        self.read(&[commit], cancel, move |repository, stop| {
            tree::list(repository, commit, &prefix, &limits, stop)
        })
        .await
    }

    /// What changed under `prefix` from `old` to `new`, fetching what is missing with one request. Sub-trees
    /// that are the same in both are not read. [`GitError::RevisionMissing`] means that `old` can no longer be
    /// had (a force-push, for example): compare in full.
    pub async fn diff(
        &self,
        old: &Revision,
        new: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Diff, GitError> {
        let (old, new) = (self.commit_id(old)?, self.commit_id(new)?);
        self.set_listed(new);
        let (prefix, limits) = (prefix.to_owned(), self.limits().clone());
        self.read(&[old, new], cancel, move |repository, stop| {
            diff::diff(repository, old, new, &prefix, &limits, stop)
        })
        .await
    }

    /// The commits between revisions: no request when they were fetched before, one otherwise (and more only where
    /// history goes far back). Questions that are asked at the same time share their requests.
    ///
    /// [`GitError::RevisionMissing`] means that the server has no such revision, or none any more; known revisions
    /// may be gone.
    pub async fn history(
        &self,
        query: &HistoryQuery,
        cancel: &CancellationToken,
    ) -> Result<History, GitError> {
        let new = self.commit_id(&query.new)?;
        // What is no id of a commit holds none.
        let known = query.known.iter().filter_map(|known| known.as_str().parse().ok()).collect();
        self.prove_access(cancel).await?;
        history::query(self, new, known, query.max, cancel).await
    }

    /// Contents by id, in the order asked for. All of them are in memory at once: ask in [`batches`](crate::batches).
    /// One that is larger than [`Limits::blob_bytes`] fails the call with [`GitError::LimitExceeded`].
    pub async fn blobs(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, GitError> {
        let (ids, max): (Arc<[ObjectId]>, _) = (ids.into(), self.limits().blob_bytes);
        self.read_listed(cancel, move |repository, stop| {
            let odb = odb(repository)?;
            let read = |id: &ObjectId| {
                if stop.is_cancelled() {
                    return Err(GitError::Cancelled);
                }
                let blob = tree::read(&odb, *id, ObjectType::Blob, ("blob_bytes", max))?;
                Ok(Bytes::copy_from_slice(blob.data()))
            };
            ids.iter().map(read).collect()
        })
        .await
    }

    /// The content of one object.
    pub async fn blob(&self, id: ObjectId, cancel: &CancellationToken) -> Result<Bytes, GitError> {
        let mut found = self.blobs(&[id], cancel).await?;
        found.pop().ok_or(GitError::ObjectMissing { id })
    }

    /// The content of one object in pieces. It may be as large as a transfer, [`Limits::pack_bytes`]; what the server
    /// sent as a difference from another object, at most [`Limits::delta_bytes`], is in memory whole, and few of them are
    /// at a time: whoever reads one must not wait for another.
    pub async fn open_blob(&self, id: ObjectId, cancel: &CancellationToken) -> Result<BlobReader, GitError> {
        let limits = self.limits().clone();
        let packed = self.read_listed(cancel, move |repository, _stop| {
            let packs: PathBuf = repository.path().join("objects/pack");
            BlobReader::packed(&odb(repository)?, &packs, id, &limits)
        });
        if let Some(blob) = packed.await? {
            return Ok(blob);
        }
        let place = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(GitError::Cancelled),
            place = Arc::clone(&self.shared.unfolding).acquire_owned() => place,
        };
        let place = Arc::new(place.map_err(|_| GitError::Cancelled)?);
        let limits = self.limits().clone();
        self.read_listed(cancel, move |repository, _stop| {
            BlobReader::unfolded(&odb(repository)?, id, &limits, Arc::clone(&place))
        })
        .await
    }

    /// Reads with what was listed last at hand.
    async fn read_listed<T: Send + 'static>(
        &self,
        cancel: &CancellationToken,
        work: impl Fn(&Repository, &CancellationToken) -> Result<T, GitError> + Clone + Send + Sync + 'static,
    ) -> Result<T, GitError> {
        let listed = *self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        self.read(listed.as_slice(), cancel, work).await
    }
}

fn odb(repository: &Repository) -> Result<Odb<'_>, GitError> {
    repository.odb().map_err(|error| GitError::cache("open the object store", error))
}
