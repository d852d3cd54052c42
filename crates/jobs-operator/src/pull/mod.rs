//! `pull`: brings what the API holds in line with the repository's branch.
//!
//! The five steps: observe (`observe.rs`: the branch's tip, and whether the difference to the last one will do), plan
//! (pure, in the resources crate), apply (likewise), and the repository's status at both ends (`report.rs`).
//!
//! An incremental pull costs one Git request when nothing moved and two when something did, and reads no list from the
//! API. A full pull compares the whole tree with everything that the repository manages, and so repairs what was
//! deleted by hand. Grafana: `jobs/sync`.

mod observe;
mod quota;
mod report;
mod stats;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::Client;
use windlass_api::{JobAction, Repository};
use windlass_git::{Revision, Source, Tree};
use windlass_lease_queue::progress::{Failure, ResourceAction, ResourceResult};
use windlass_resources::repository::{Sources, prefix};
use windlass_resources::{
    Action, Clients, Context, ItemResult, OnResult, Plan, apply, folders, managed, plan,
};
use windlass_runtime::Clock;

use self::observe::{Mode, Observed};
use self::quota::Quota;
use self::stats::Stats;
use crate::status::StatusWriter;
use crate::worker::{JobContext, JobError, Worker};

/// Failed files after which the rest is not tried. Grafana: `sync/worker.go`.
const MAX_ERRORS: usize = 20;

/// Runs `pull` jobs.
pub(crate) struct Pull {
    pub(crate) provisioning: Client,
    pub(crate) core: Client,
    pub(crate) clients: Clients,
    pub(crate) sources: Sources,
    pub(crate) clock: Arc<dyn Clock>,
    /// Changes made at a time.
    pub(crate) workers: usize,
    /// The most time that one change may take.
    pub(crate) change_timeout: Duration,
    pub(crate) limits: Limits,
}

/// How much a pull may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Changed files beyond which everything is compared; 0 for no limit.
    pub(crate) incremental_changes: usize,
    /// Most objects that one repository may manage; 0 for no limit.
    pub(crate) resources: usize,
}

/// What a pull came to.
struct Pulled {
    /// The revision that the API holds now, but for what failed.
    revision: Revision,
    /// What the repository manages now.
    stats: Stats,
    /// Why not everything was tried.
    stopped: Option<JobError>,
}

/// What is to be done, and from where.
struct Planned {
    plan: Plan,
    /// What the repository manages before.
    stats: Stats,
    /// New objects that the limit has no room for.
    refused: Vec<quota::Refused>,
}

impl Planned {
    fn nothing(repository: &Repository) -> Self {
        Self { plan: Plan::default(), stats: Stats::of_status(repository), refused: Vec::new() }
    }
}

#[async_trait]
impl Worker for Pull {
    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::Pull
    }

    async fn run(&self, job: &JobContext) -> Result<(), JobError> {
        let options = job.job.spec.pull.as_ref().ok_or(JobError::MissingOptions { field: "spec.pull" })?;
        let mut status = StatusWriter::new(&self.provisioning, job.repository.clone(), job.lease.clone());
        job.progress.message("update sync status at start");
        report::begin(&mut status, job, options.incremental, self.clock.now()).await?;
        let repository = status.repository().clone();
        let outcome = self.pull(job, &repository, options.incremental).await;
        job.progress.message("update status and stats");
        let pull = report::Pull {
            job,
            generation: repository.metadata.generation,
            quota: self.quota(),
            outcome: &outcome,
        };
        report::end(&mut status, &pull, self.clock.now()).await?;
        outcome?.stopped.map_or(Ok(()), Err)
    }
}

impl Pull {
    fn quota(&self) -> Quota {
        Quota { limit: self.limits.resources }
    }

    async fn pull(
        &self,
        job: &JobContext,
        repository: &Repository,
        incremental: bool,
    ) -> Result<Pulled, JobError> {
        job.progress.message("execute sync job");
        let source = self.sources.open(&self.core, repository).await.map_err(JobError::OpenRepository)?;
        let observed =
            observe::observe(&*source, &job.repository, repository, incremental, &job.cancel).await?;
        let context = Context::for_repository(repository);
        let planned = match observed.mode {
            Mode::Unchanged => {
                job.progress.final_message("same commit as last time");
                let stats = Stats::of_status(repository);
                return Ok(Pulled { revision: observed.revision, stats, stopped: None });
            }
            Mode::Incremental => {
                match self.plan_incremental(job, &*source, &observed, repository, &context).await? {
                    Some(planned) => planned,
                    None => self.plan_full(job, &*source, &observed, repository, &context).await?,
                }
            }
            Mode::Full => self.plan_full(job, &*source, &observed, repository, &context).await?,
        };
        let (stats, stopped) = self.apply(job, source, planned, &context).await;
        Ok(Pulled { revision: observed.revision, stats, stopped })
    }

    /// The plan for what changed since the last pull; nothing when only a full comparison will do.
    async fn plan_incremental(
        &self,
        job: &JobContext,
        source: &dyn Source,
        observed: &Observed,
        repository: &Repository,
        context: &Context,
    ) -> Result<Option<Planned>, JobError> {
        job.progress.message("incremental sync");
        let prefix = prefix(&repository.spec);
        let last = Revision::new(&*repository.status.sync.last_ref);
        let diff = match source.diff(&last, &observed.revision, prefix, &job.cancel).await {
            Ok(diff) => diff,
            Err(error) => {
                tracing::info!(%error, "the last revision cannot be compared with, a full pull follows");
                return Ok(None);
            }
        };
        if diff.changes.is_empty() && diff.rejected.is_empty() {
            job.progress.final_message("no changes detected between commits");
            return Ok(Some(Planned::nothing(repository)));
        }
        let most = self.limits.incremental_changes;
        if most > 0 && diff.changes.len() > most {
            tracing::info!(changes = diff.changes.len(), most, "many files changed, a full pull follows");
            return Ok(None);
        }
        let tree = read_tree(source, observed, prefix, job).await?;
        let metadata =
            folders::read_metadata(source, &tree, &managed::Managed::default(), context, &job.cancel)
                .await
                .map_err(|source| JobError::Git { what: "read the folders' metadata", source })?;
        match plan::incremental(&diff, &tree, &metadata, context) {
            plan::Incremental::Plan(plan) => {
                let stats = Stats::of_status(repository);
                if self.quota().may_be_exceeded(&plan, stats.total()) {
                    tracing::info!("the limit of resources may be reached, a full pull follows");
                    return Ok(None);
                }
                Ok(Some(Planned { plan: *plan, stats, refused: Vec::new() }))
            }
            plan::Incremental::NeedsFull(why) => {
                tracing::info!(why, "a full pull follows");
                Ok(None)
            }
        }
    }

    async fn plan_full(
        &self,
        job: &JobContext,
        source: &dyn Source,
        observed: &Observed,
        repository: &Repository,
        context: &Context,
    ) -> Result<Planned, JobError> {
        job.progress.message("full sync");
        let tree = read_tree(source, observed, prefix(&repository.spec), job).await?;
        let managed = managed::list(&self.clients, job.namespace(), &context.repository)
            .await
            .map_err(JobError::List)?;
        let metadata = folders::read_metadata(source, &tree, &managed, context, &job.cancel)
            .await
            .map_err(|source| JobError::Git { what: "read the folders' metadata", source })?;
        let plan = plan::full(&tree, &managed, &metadata, context);
        if plan.is_empty() {
            job.progress.final_message("no changes to sync");
        }
        let root = plan.root.as_ref().map(|root| root.folder.id.as_str());
        let root_is_new = root.is_some_and(|root| managed.folders.iter().all(|folder| folder.name != root));
        let stats = Stats::of_managed(&managed);
        let (plan, refused) = self.quota().fit(plan, stats.total() + usize::from(root_is_new));
        Ok(Planned { plan, stats, refused })
    }

    /// Carries the plan out; answers what is managed then, and why not everything was tried.
    async fn apply(
        &self,
        job: &JobContext,
        source: Arc<dyn Source>,
        Planned { plan, stats, refused }: Planned,
        context: &Context,
    ) -> (Stats, Option<JobError>) {
        tracing::debug!(%plan, refused = refused.len(), "planned");
        job.progress.total(plan.len() + refused.len());
        for refused in &refused {
            job.progress.record(&self.quota().refusal(refused));
        }
        let stats = Arc::new(std::sync::Mutex::new(stats));
        let (progress, counted) = (job.progress.clone(), Arc::clone(&stats));
        let on_result: OnResult = Arc::new(move |item: ItemResult| {
            if let Ok(mut stats) = counted.lock() {
                stats.count(&item);
            }
            progress.record(&result(item));
        });
        let lease = job.lease.clone();
        let summary = apply::run(
            plan,
            apply::Job {
                source,
                clients: self.clients.clone(),
                context: context.clone(),
                options: apply::Options {
                    workers: self.workers,
                    timeout: self.change_timeout,
                    max_errors: MAX_ERRORS,
                    dry_run: false,
                },
                cancel: job.cancel.clone(),
                may_write: Arc::new(move || lease.valid()),
                on_result,
            },
        )
        .await;
        let stopped = match summary.stopped {
            Some(apply::Stopped::TooManyErrors(count)) => Some(JobError::TooManyErrors { count }),
            Some(apply::Stopped::Cancelled) if job.cancel.is_cancelled() => Some(JobError::Stopped),
            // The lease forbade a write, even if it has been renewed since.
            Some(apply::Stopped::Cancelled) => Some(JobError::LeaseLost),
            // The root folder's own result says what is wrong with it.
            Some(apply::Stopped::NoRootFolder) | None => None,
        };
        (stats.lock().map(|stats| stats.clone()).unwrap_or_default(), stopped)
    }
}

/// The files of the revision. A path that is not there is an error: read as an empty folder, a mistyped one would delete
/// everything that the repository manages.
async fn read_tree(
    source: &dyn Source,
    observed: &Observed,
    prefix: &str,
    job: &JobContext,
) -> Result<Tree, JobError> {
    let tree = source
        .tree(&observed.revision, prefix, &job.cancel)
        .await
        .map_err(|source| JobError::Git { what: "read the tree", source })?;
    if tree.root.is_none() && !prefix.is_empty() {
        return Err(JobError::PathMissing { path: prefix.to_owned(), revision: observed.revision.clone() });
    }
    Ok(tree)
}

/// A file's result in the words of the job's progress.
fn result(item: ItemResult) -> ResourceResult {
    let action = match item.action {
        Action::Created => ResourceAction::Created,
        Action::Updated => ResourceAction::Updated,
        Action::Deleted => ResourceAction::Deleted,
        Action::Renamed => ResourceAction::Renamed,
        Action::Ignored => ResourceAction::Ignored,
    };
    let mut result =
        ResourceResult::new(&*item.path, item.group(), item.kind_name(), action).named(&*item.name);
    result.previous_path = item.previous_path;
    match item.error {
        None => result,
        Some(failure) if failure.warning => {
            result.failed(Failure::warning(failure.reason.as_str(), failure.message))
        }
        Some(failure) => result.failed(Failure {
            reason: Some(failure.reason.as_str().to_owned()),
            ..Failure::error(failure.message)
        }),
    }
}
