//! From what was observed to a plan.

use windlass_api::FileOutcome;
use windlass_git::{Diff, Revision, Tree};
use windlass_repository::prefix;
use windlass_resources::ignore_file::{self, IgnoreFile};
use windlass_resources::{Managed, Plan, folders, managed, plan};

use super::observe::Mode;
use super::stats::Stats;
use super::{Sync, quota};
use crate::worker::JobError;

/// What is to be done, and from where.
pub(super) struct Planned {
    pub(super) plan: Plan,
    /// Whether everything was compared.
    pub(super) full: bool,
    /// What the repository manages before.
    pub(super) stats: Stats,
    /// New objects that the limit has no room for.
    pub(super) refused: Vec<quota::Refused>,
    /// Objects that there is room for beyond one for each new file.
    pub(super) room: usize,
    /// What an earlier pull left out, and this one does not try again.
    pub(super) left: Vec<FileOutcome>,
}

impl Sync<'_> {
    /// The plan for what changed since the last pull, and for what may succeed now; nothing when only a full comparison
    /// will do.
    pub(super) async fn plan_incremental(&self) -> Result<Option<Planned>, JobError> {
        let progress = self.request.progress;
        progress.message("incremental sync");
        let Some(diff) = self.difference().await? else { return Ok(None) };
        let most = self.pull.limits.incremental_changes;
        if most > 0 && diff.changes.len() > most {
            tracing::info!(changes = diff.changes.len(), most, "many files changed, a full pull follows");
            return Ok(None);
        }
        if ignore_file::is_changed_by(&diff) {
            tracing::info!("the ignore file changed, a full pull follows");
            return Ok(None);
        }
        let (tree, ignore) = self.tree().await?;
        let metadata = self.metadata(&tree, &Managed::default()).await?;
        let retry = self.previous.retry();
        let mut plan = match plan::incremental(&ignore.diff(diff), &tree, &metadata, &retry, &self.context) {
            plan::Incremental::Plan(plan) => *plan,
            plan::Incremental::NeedsFull(why) => {
                tracing::info!(why, "a full pull follows");
                return Ok(None);
            }
        };
        plan.notices.extend(ignore.notices().iter().cloned());
        let stats = Stats::of_status(self.repository);
        let Some(room) = self.pull.quota().room(&plan, stats.total()) else {
            tracing::info!("the limit of resources may be reached, a full pull follows");
            return Ok(None);
        };
        if plan.is_empty() {
            progress.final_message("no changes detected between commits");
        }
        let left = self.previous.left(&tree, &plan);
        Ok(Some(Planned { plan, full: false, stats, refused: Vec::new(), room, left }))
    }

    /// What changed since the last pull; nothing when that can no longer be told.
    async fn difference(&self) -> Result<Option<Diff>, JobError> {
        if self.observed.mode == Mode::Retry {
            return Ok(Some(Diff::default()));
        }
        let Some(versioned) = &self.opened.versioned else { return Ok(None) };
        let last = Revision::new(&*self.repository.status.sync.last_ref);
        let (prefix, revision) = (prefix(&self.repository.spec), &self.observed.revision);
        match versioned.diff(&last, revision, prefix, self.request.stop.token()).await {
            Ok(diff) => Ok(Some(diff)),
            Err(error) => {
                tracing::info!(%error, "the last revision cannot be compared with, a full pull follows");
                Ok(None)
            }
        }
    }

    pub(super) async fn plan_full(&self) -> Result<Planned, JobError> {
        let progress = self.request.progress;
        progress.message("full sync");
        let (tree, ignore) = self.tree().await?;
        let managed = self.list().await?;
        let metadata = self.metadata(&tree, &managed).await?;
        let mut plan = plan::full(&tree, &managed, &metadata, &self.context);
        plan.notices.extend(ignore.notices().iter().cloned());
        if plan.is_empty() {
            progress.final_message("no changes to sync");
        }
        let root = plan.root.as_ref().map(|root| root.folder.id.as_str());
        let root_is_new = root.is_some_and(|root| managed.folders.iter().all(|folder| folder.name != root));
        let stats = Stats::of_managed(&managed);
        let (plan, refused, left) = self.pull.quota().fit(plan, stats.total() + usize::from(root_is_new));
        Ok(Planned { plan, full: true, stats, refused, room: left, left: Vec::new() })
    }

    /// What the repository manages. A kind that the API server does not list fails the pull of a repository that has
    /// objects of it, and no other.
    pub(super) async fn list(&self) -> Result<Managed, JobError> {
        let (namespace, repository) = (&*self.context.namespace, &*self.context.repository);
        let listed = managed::list(&self.pull.clients, namespace, repository).await;
        let counts = &self.repository.status.stats;
        listed
            .and_then(|managed| {
                managed.complete(repository, |kind| {
                    counts.iter().any(|count| count.group == kind.group && count.resource == kind.resource)
                })
            })
            .map_err(JobError::List)
    }

    async fn metadata(&self, tree: &Tree, managed: &Managed) -> Result<folders::Metadata, JobError> {
        folders::read_metadata(&*self.opened.reader, tree, managed, &self.context, self.request.stop.token())
            .await
            .map_err(|source| JobError::Repository { what: "read the folders' metadata", source })
    }

    /// The files of the revision that are not ignored. A path that is not there is an error: read as an empty folder, a
    /// mistyped one would delete everything that the repository manages.
    async fn tree(&self) -> Result<(Tree, IgnoreFile), JobError> {
        let (prefix, revision) = (prefix(&self.repository.spec), &self.observed.revision);
        let tree = self
            .opened
            .reader
            .tree(revision, prefix, self.request.stop.token())
            .await
            .map_err(|source| JobError::Repository { what: "read the tree", source })?;
        if tree.root.is_none() && !prefix.is_empty() {
            return Err(JobError::PathMissing { path: prefix.to_owned(), revision: revision.clone() });
        }
        let ignore = IgnoreFile::read(&*self.opened.reader, &tree, self.request.stop.token())
            .await
            .map_err(JobError::IgnoreFile)?;
        Ok((ignore.tree(tree), ignore))
    }
}
