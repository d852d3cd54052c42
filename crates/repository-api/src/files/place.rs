//! A repository that is open, and its trees.

use tokio_util::sync::CancellationToken;
use windlass_api::{Repository, RepositoryUrls, ResourceRepositoryInfo};
use windlass_git::{Entry, GitError, ObjectId, Revision, Tree};
use windlass_repository::{Opened, ReadError, prefix};
use windlass_resources::SyncContext;

use crate::answer::Refusal;
use crate::state::RepositoryApi;

/// An open repository.
pub(crate) struct Place {
    pub(crate) repository: Repository,
    pub(crate) opened: Opened,
    pub(crate) context: SyncContext,
    /// Never cancelled: whoever does not want an answer any more drops the question.
    pub(crate) cancel: CancellationToken,
}

impl Place {
    pub(crate) async fn open(state: &RepositoryApi, repository: Repository) -> Result<Self, Refusal> {
        let opened = state.opener.open(&state.core, &repository).await?;
        let context = SyncContext::for_repository(&repository);
        Ok(Self { repository, opened, context, cancel: CancellationToken::new() })
    }

    /// The branch that is pulled, as its short name; empty for a folder, which has none.
    pub(crate) async fn branch(&self) -> Result<String, Refusal> {
        let branch = self.repository.spec.branch();
        let Some(versioned) = self.opened.versioned.as_ref().filter(|_| branch.is_empty()) else {
            return Ok(branch.to_owned());
        };
        let refs = versioned.refs("HEAD", &self.cancel).await?;
        let head = refs.into_iter().find(|found| found.name == "HEAD").and_then(|head| head.symref_target);
        let short = head.as_deref().and_then(|full| full.strip_prefix("refs/heads/"));
        short.map(str::to_owned).ok_or_else(|| {
            Refusal::new(
                400,
                "the repository's server names no default branch; set the branch in its specification",
            )
        })
    }

    /// What a reference points at: a branch, the id of a commit, or, if empty, the branch that is pulled.
    pub(crate) async fn revision(&self, reference: &str) -> Result<Revision, Refusal> {
        if reference.is_empty() {
            return Ok(self.opened.reader.resolve(self.repository.spec.branch(), &self.cancel).await?);
        }
        if self.opened.versioned.is_none() {
            return Err(Refusal::new(400, "local repository does not support ref"));
        }
        if let Ok(commit) = reference.parse::<ObjectId>() {
            return Ok(commit.into());
        }
        self.opened.reader.resolve(reference, &self.cancel).await.map_err(|error| match error {
            ReadError::Git(GitError::BranchNotFound { .. }) => {
                Refusal::new(404, format!("ref not found: there is no branch {reference:?}"))
            }
            error => error.into(),
        })
    }

    /// The files of a revision, relative to the repository's folder.
    pub(crate) async fn tree(&self, revision: &Revision) -> Result<Tree, ReadError> {
        self.opened.reader.tree(revision, prefix(&self.repository.spec), &self.cancel).await
    }

    /// The files of what a reference points at.
    pub(crate) async fn tree_at(&self, reference: &str) -> Result<Tree, Refusal> {
        let revision = self.revision(reference).await?;
        Ok(self.tree(&revision).await?)
    }

    pub(super) fn info(&self) -> ResourceRepositoryInfo {
        ResourceRepositoryInfo {
            kind: self.repository.spec.kind,
            title: self.repository.spec.title.clone(),
            namespace: self.context.namespace.clone(),
            name: self.context.repository.clone(),
        }
    }

    /// Pages of a file at a reference, where the provider has pages.
    pub(super) fn urls(&self, reference: &str, path: &str) -> Option<RepositoryUrls> {
        let urls = self.opened.urls.as_ref()?;
        let branch = self.repository.spec.branch();
        let at = if reference.is_empty() { branch } else { reference };
        let mut found = RepositoryUrls {
            repository_url: urls.repository(),
            source_url: urls.file(at, path),
            ..RepositoryUrls::default()
        };
        if at != branch {
            found.compare_url = urls.compare(branch, at);
            found.new_pull_request_url = urls.new_pull_request(branch, at);
        }
        Some(found)
    }
}

/// The file at a path.
pub(super) fn find<'a>(tree: &'a Tree, path: &str) -> Option<&'a Entry> {
    tree.entries.iter().find(|entry| entry.path == path)
}

/// What is below a folder.
pub(super) fn below<'a>(tree: &'a Tree, folder: &'a str) -> impl Iterator<Item = &'a Entry> {
    tree.entries.iter().filter(move |entry| is_below(&entry.path, folder))
}

/// Whether a path is below another.
pub(super) fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.starts_with('/'))
}
