//! `pull`: brings what the API holds in line with the repository's branch.
//!
//! The five steps: observe (`observe.rs`: the branch's tip, and whether the difference to the last one will do), plan
//! (`planned.rs`, over the pure plans of the resources crate), apply (likewise), and the repository's status at both ends
//! (`report.rs`). [`Pull::pull`] is a function of a [`PullRequest`], so that other workers can call it.
//!
//! An incremental pull costs one Git request when nothing moved and two when something did, and reads no list from the
//! API. It tries again what an earlier one left out, where something else than the file may have changed
//! (`unsynced.rs`). A full pull compares the whole tree with everything that the repository manages, and so repairs
//! what was changed or deleted by hand. Grafana: `jobs/sync`.

mod observe;
mod planned;
mod quota;
mod report;
mod request;
mod results;
mod stats;
mod timing;
mod unsynced;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::Client;
use windlass_api::{JobAction, Repository};
use windlass_git::Revision;
use windlass_lease_queue::history_name;
use windlass_lease_queue::progress::ResourceResult;
use windlass_repository::{Opened, Opener};
use windlass_resources::{Clients, OnResult, SyncContext, TakeOver, apply};
use windlass_runtime::Clock;

use self::observe::{Mode, Observed};
use self::planned::Planned;
use self::quota::Quota;
pub(crate) use self::request::{PullRequest, StatusOwner};
use self::results::Results;
pub(crate) use self::results::result as result_of;
use self::stats::Stats;
use self::timing::Timing;
use self::unsynced::Unsynced;
use crate::status::StatusWriter;
use crate::worker::{JobContext, JobError, Worker};

/// Failed files after which the rest is not tried. Grafana: `sync/worker.go`.
const MAX_ERRORS: usize = 20;

/// Pulls, and runs `pull` jobs. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Pull {
    pub(crate) provisioning: Client,
    pub(crate) core: Client,
    pub(crate) clients: Clients,
    pub(crate) opener: Opener,
    pub(crate) clock: Arc<dyn Clock>,
    /// Changes made at a time.
    pub(crate) workers: usize,
    /// How long requests of one change may begin.
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
    /// The revision that the API holds now, but for what is not synced; nothing if it is still that of the last pull.
    revision: Option<Revision>,
    /// What the repository manages now.
    stats: Stats,
    /// What it holds that the API does not.
    unsynced: Unsynced,
    /// Why not everything was tried.
    stopped: Option<JobError>,
}

#[async_trait]
impl Worker for Pull {
    fn name(&self) -> &'static str {
        "pull"
    }

    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::Pull
    }

    async fn run(&self, job: &JobContext) -> Result<(), JobError> {
        let options = job.job.spec.pull.as_ref().ok_or(JobError::MissingOptions { field: "spec.pull" })?;
        let uid = job.job.metadata.uid.as_deref().unwrap_or_default();
        let request = PullRequest {
            repository: job.repository()?,
            incremental: options.incremental,
            take_over: TakeOver::default(),
            status: Some(StatusOwner { job: job.name(), record: history_name(job.name(), uid) }),
            progress: &job.progress,
            lease: &job.lease,
            stop: &job.stop,
        };
        Box::pin(self.pull(&request)).await
    }
}

impl Pull {
    /// Pulls. Files that fail are results, in the request's progress; an error is that of the pull as a whole.
    pub(crate) async fn pull(&self, request: &PullRequest<'_>) -> Result<(), JobError> {
        let Some(owner) = &request.status else {
            let pulled = self.sync(request, request.repository).await?;
            return pulled.stopped.map_or(Ok(()), Err);
        };
        let before = request.repository;
        let mut status = StatusWriter::new(&self.provisioning, before.clone(), request.lease);
        request.progress.message("update sync status at start");
        report::begin(&mut status, owner, request.incremental, self.clock.now()).await?;
        let repository = status.repository().clone();
        let outcome = self.sync(request, &repository).await;
        request.progress.message("update status and stats");
        let ended = report::Ended {
            owner,
            progress: request.progress,
            stop: request.stop,
            generation: repository.metadata.generation,
            quota: self.quota(),
            outcome: &outcome,
        };
        report::end(&mut status, &ended, self.clock.now()).await?;
        outcome?.stopped.map_or(Ok(()), Err)
    }

    fn quota(&self) -> Quota {
        Quota { limit: self.limits.resources }
    }

    /// Brings the API in line. `repository` is the request's with what this pull has written to its status.
    async fn sync(&self, request: &PullRequest<'_>, repository: &Repository) -> Result<Pulled, JobError> {
        match Box::pin(self.try_sync(request, repository)).await {
            // The token of a connection is replaced while it is in use, so that another one is there when it ends.
            Err(error) if error.is_unauthorized() && !repository.spec.connection_name().is_empty() => {
                tracing::info!(
                    "the repository's token is not good any more; the pull begins again with the one that is there now"
                );
                Box::pin(self.try_sync(request, repository)).await
            }
            ended => ended,
        }
    }

    async fn try_sync(&self, request: &PullRequest<'_>, repository: &Repository) -> Result<Pulled, JobError> {
        request.progress.message("execute sync job");
        let opened = self.opener.open(&self.core, repository).await.map_err(JobError::OpenRepository)?;
        let previous = Unsynced::of_status(repository);
        let observed = observe::observe(&opened, request, repository, &previous).await?;
        request.progress.revision(observed.revision.as_str());
        let context = SyncContext::for_repository(repository);
        let sync = Sync { pull: self, request, repository, context, opened, observed, previous };
        let timing = Timing::begin(&*self.clock);
        let planned = match sync.observed.mode {
            Mode::Unchanged => return Ok(sync.unchanged()),
            Mode::Incremental | Mode::Retry => match sync.plan_incremental().await? {
                Some(planned) => planned,
                None => sync.plan_full().await?,
            },
            Mode::Full => sync.plan_full().await?,
        };
        Ok(sync.apply(planned, timing).await)
    }
}

/// One pull on its way.
struct Sync<'a> {
    pull: &'a Pull,
    request: &'a PullRequest<'a>,
    repository: &'a Repository,
    context: SyncContext,
    opened: Opened,
    observed: Observed,
    /// What the last pull left out.
    previous: Unsynced,
}

impl Sync<'_> {
    /// Nothing moved, and nothing is to be tried again: what was left out still is.
    fn unchanged(self) -> Pulled {
        self.request.progress.final_message("same commit as last time");
        for file in self.previous.items() {
            self.request.progress.record(&unsynced::result(file));
        }
        Pulled {
            revision: Some(self.observed.revision),
            stats: Stats::of_status(self.repository),
            unsynced: self.previous,
            stopped: None,
        }
    }

    /// Carries the plan out; answers what is managed then, and why not everything was tried.
    async fn apply(self, planned: Planned, mut timing: Timing) -> Pulled {
        let Planned { plan, full, stats, refused, room, left } = planned;
        tracing::debug!(%plan, refused = refused.len(), "planned");
        let progress = self.request.progress;
        progress.total(plan.len() + refused.len());
        let refused = refused.iter().map(|refused| self.pull.quota().refusal(refused));
        let left: Vec<ResourceResult> = left.iter().map(unsynced::result).chain(refused).collect();
        for result in &left {
            progress.record(result);
        }
        // Whatever a full comparison finds to do at a revision that was applied before was done by somebody else.
        let repairs = full && self.observed.is_settled && self.observed.is_same;
        let known = repairs.then(|| self.previous.clone());
        let results = Arc::new(Results::new(progress.clone(), full, stats, known));
        timing.compared();
        let summary = apply::run(plan, self.job(&results, room)).await;
        timing.applied(full, &summary.phases).into_iter().for_each(|phase| progress.phase(phase));
        let stopped = match summary.stopped {
            Some(apply::Stopped::TooManyErrors(count)) => Some(JobError::TooManyErrors { count }),
            Some(apply::Stopped::Cancelled) if self.request.stop.token().is_cancelled() => {
                Some(JobError::Stopped)
            }
            // The lease forbade a write, even if it has been renewed since.
            Some(apply::Stopped::Cancelled) => Some(JobError::LeaseLost),
            // The root folder's own result says what is wrong with it.
            Some(apply::Stopped::NoRootFolder) | None => None,
        };
        let has_root = summary.stopped != Some(apply::Stopped::NoRootFolder);
        let outcomes = results.take();
        if !has_root {
            let last = Some(self.repository.status.sync.last_ref.as_str()).filter(|last| !last.is_empty());
            progress.final_message(format!(
                "nothing was synced: the repository's folder {:?} is not its own; the last synced revision is still {}",
                self.context.repository,
                last.unwrap_or("none"),
            ));
        } else if outcomes.repaired > 0 {
            let (count, what) =
                (outcomes.repaired, if outcomes.repaired == 1 { "resource" } else { "resources" });
            progress
                .final_message(format!("repaired {count} {what} that had been changed or deleted by hand"));
        }
        let items = left.iter().filter_map(ResourceResult::outcome).chain(outcomes.failed).collect();
        let mut unsynced = Unsynced::new(items, outcomes.deletion_failed);
        if summary.stopped.is_some() {
            unsynced.keep_untried(&self.previous, &outcomes.tried);
        }
        let stats = if outcomes.miscounted && stopped.is_none() {
            self.count(outcomes.stats).await
        } else {
            outcomes.stats
        };
        Pulled { revision: has_root.then_some(self.observed.revision), stats, unsynced, stopped }
    }

    /// Counts what is managed by listing it: something was not as the plan took it to be.
    async fn count(&self, estimate: Stats) -> Stats {
        match self.list().await {
            Ok(managed) => Stats::of_managed(&managed),
            Err(error) => {
                tracing::warn!(%error, "what the repository manages is counted by the next full pull");
                estimate
            }
        }
    }

    fn job(&self, results: &Arc<Results>, room: usize) -> apply::Job {
        let lease = self.request.lease.clone();
        let results = Arc::clone(results);
        let on_result: OnResult = Arc::new(move |item| results.record(item));
        apply::Job {
            reader: Arc::clone(&self.opened.reader),
            clients: self.pull.clients.clone(),
            context: self.context.clone(),
            options: apply::Options {
                workers: self.pull.workers,
                timeout: self.pull.change_timeout,
                max_errors: MAX_ERRORS,
                dry_run: false,
                room,
            },
            cancel: self.request.stop.token().clone(),
            may_write: Arc::new(move || lease.valid()),
            take_over: self.request.take_over.clone(),
            on_result,
        }
    }
}
