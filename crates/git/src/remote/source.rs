//! A remote as a [`Source`].

use std::sync::{Arc, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use git2::ObjectType;
use tokio_util::sync::CancellationToken;

use super::{RemoteRepository, single_line};
use crate::history;
use crate::{
    Diff, GitError, History, HistoryQuery, Limits, ObjectId, Ref, Revision, Source, Tree, diff, tree,
};

#[async_trait]
impl Source for RemoteRepository {
    fn versioned(&self) -> bool {
        true
    }

    fn name(&self) -> &str {
        self.state.url.as_str()
    }

    fn limits(&self) -> &Limits {
        &self.shared.config.limits
    }

    async fn refs(&self, prefix: &str, cancel: &CancellationToken) -> Result<Vec<Ref>, GitError> {
        let prefixes = if prefix.is_empty() { vec![] } else { vec![single_line(prefix)] };
        let mut refs = self.list(&prefixes, cancel).await?;
        refs.retain(|found| found.name.starts_with(prefix));
        Ok(refs)
    }

    async fn resolve(&self, branch: &str, cancel: &CancellationToken) -> Result<Revision, GitError> {
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

    async fn tree(
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

    async fn diff(
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

    async fn history(&self, query: &HistoryQuery, cancel: &CancellationToken) -> Result<History, GitError> {
        let new = self.commit_id(&query.new)?;
        // What is no id of a commit holds none.
        let known = query.known.iter().filter_map(|known| known.as_str().parse().ok()).collect();
        self.prove_access(cancel).await?;
        history::query(self, new, known, query.max, cancel).await
    }

    async fn blobs(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, GitError> {
        let (ids, max): (Arc<[ObjectId]>, _) = (ids.into(), self.limits().blob_bytes);
        let listed = *self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        self.read(listed.as_slice(), cancel, move |repository, stop| {
            let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
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
}

impl RemoteRepository {
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

    /// Refs whose full names start with one of `prefixes`, which are not empty; one request. Others may be among them.
    pub async fn refs_of(
        &self,
        prefixes: &[String],
        cancel: &CancellationToken,
    ) -> Result<Vec<Ref>, GitError> {
        let prefixes: Vec<String> = prefixes.iter().map(|prefix| single_line(prefix)).collect();
        self.list(&prefixes, cancel).await
    }
}
