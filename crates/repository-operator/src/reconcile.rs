//! One pass over one repository.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use tokio_util::sync::CancellationToken;
use windlass_api::repositories::RepositoryRules;
use windlass_api::{Job, JobSpec, Repository};
use windlass_auth::ApiClients;
use windlass_lease_queue::kube::{InsertError, insert};
use windlass_resources::check::check;
use windlass_resources::repository::Sources;
use windlass_runtime::{Action, CallError, Clock, Disposition, ObjectKey, Store, deadline};
use windlass_telemetry::ErrorChain;

use crate::finalize::{self, FinalizeError, Finalized};
use crate::metrics::RepositoryMetrics;
use crate::plan::{Before, Plan, SyncDue, next_look, plan, sync_due};
use crate::status;

/// How long one call to the API may take.
pub(crate) const CALL: Duration = Duration::from_secs(15);

/// What every pass uses.
pub(crate) struct Context {
    pub(crate) clients: ApiClients,
    pub(crate) sources: Sources,
    pub(crate) rules: RepositoryRules,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Store<Repository>,
    pub(crate) metrics: RepositoryMetrics,
    /// The most time that a check may take.
    pub(crate) check_deadline: Duration,
    /// The least time between two syncs.
    pub(crate) min_sync_interval: Duration,
    /// Requests at a time while resources are removed or released.
    pub(crate) parallel: usize,
    pub(crate) cancel: CancellationToken,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// A call to the API failed.
    #[error(transparent)]
    Call(CallError),
    /// A sync could not be queued.
    #[error("failed to queue a sync")]
    QueueSync(#[source] InsertError),
    /// A finalizer failed.
    #[error("failed to clean up after the repository")]
    Finalize(#[source] FinalizeError),
}

impl ReconcileError {
    fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.disposition(),
            Self::QueueSync(InsertError::Invalid(_)) => Disposition::AwaitChange,
            Self::QueueSync(_) | Self::Finalize(_) => Disposition::Retry,
        }
    }
}

/// Brings one repository forward and says when to look at it again. Failures are logged here, once.
pub(crate) async fn reconcile(context: Arc<Context>, key: ObjectKey) -> Action {
    match pass(&context, &key).await {
        Ok(action) => action,
        Err(error) => {
            // A conflict is the ordinary way to learn that somebody else wrote: the watch brings the newer version.
            if matches!(&error, ReconcileError::Call(call) if call.is_conflict() || call.is_not_found()) {
                tracing::debug!(repository = %key, error = %ErrorChain(&error), "the repository changed meanwhile");
                return Action::After(Duration::from_secs(1));
            }
            context.metrics.failed(&error);
            tracing::warn!(repository = %key, error = %ErrorChain(&error), "reconcile failed");
            match error.disposition() {
                Disposition::AwaitChange => Action::Done,
                Disposition::Retry | Disposition::Fatal => Action::Retry,
            }
        }
    }
}

async fn pass(context: &Context, key: &ObjectKey) -> Result<Action, ReconcileError> {
    // Observe: the watch's copy. A write that is based on an old one is refused, and the next pass knows better.
    let Some(repository) = context.store.get(key) else { return Ok(Action::Done) };
    let now = context.clock.now();
    let before = Before {
        healthy: repository.status.health.healthy,
        observed_generation: repository.status.observed_generation,
    };
    // Validation of the specification is part of the check: what is invalid is a fact to report.
    let current = match plan(&repository, now) {
        Plan::LeaveAlone => return Ok(Action::Done),
        Plan::Finalize => return finalize(context, &repository).await,
        Plan::Rest => Repository::clone(&repository),
        Plan::Check { why } => {
            tracing::debug!(repository = %key, why, "checking the repository");
            let checked = check_in_time(context, &repository).await;
            context.metrics.checked(checked.results.success);
            status::write_check(context, &repository, &checked).await.map_err(ReconcileError::Call)?
        }
    };
    if let Some(due) = due(context, &current, before).await? {
        queue_sync(context, &current, due).await?;
    }
    Ok(Action::After(next_look(&current, context.min_sync_interval, context.clock.now())))
}

/// The check under its deadline: a server that never answers makes the repository unhealthy, and holds up no other.
async fn check_in_time(context: &Context, repository: &Repository) -> windlass_resources::check::Checked {
    let core = &context.clients.core;
    let cancel = context.cancel.child_token();
    let work = check(&context.sources, core, repository, &context.rules, &cancel);
    match tokio::time::timeout(context.check_deadline, work).await {
        Ok(checked) => checked,
        Err(_elapsed) => {
            cancel.cancel();
            windlass_resources::check::timed_out(repository, context.check_deadline)
        }
    }
}

/// Whether a sync is due. The job that the status names is asked for only when it decides the matter.
async fn due(
    context: &Context,
    repository: &Repository,
    before: Before,
) -> Result<Option<SyncDue>, ReconcileError> {
    let now = context.clock.now();
    let due = sync_due(repository, before, false, context.min_sync_interval, now);
    let job = &repository.status.sync.job;
    if due.is_none() || job.is_empty() || repository.status.sync.state.is_finished() {
        return Ok(due);
    }
    let namespace = repository.metadata.namespace.as_deref().unwrap_or_default();
    let jobs: Api<Job> = Api::namespaced(context.clients.provisioning.clone(), namespace);
    let found = deadline(CALL, format!("read job {job}"), jobs.get_opt(job)).await.map_err(ReconcileError::Call)?;
    Ok(due.filter(|_| found.is_none()))
}

/// Queues a sync. One that is queued already is as good.
async fn queue_sync(context: &Context, repository: &Repository, due: SyncDue) -> Result<(), ReconcileError> {
    let name = repository.metadata.name.as_deref().unwrap_or_default();
    let namespace = repository.metadata.namespace.as_deref().unwrap_or_default();
    let spec = JobSpec::pull(name, due.incremental);
    let annotations = std::collections::BTreeMap::new();
    match insert(&context.clients.provisioning, namespace, name, spec, annotations).await {
        Ok(_job) => {
            tracing::info!(namespace, repository = name, incremental = due.incremental, why = due.why, "sync queued");
            Ok(())
        }
        Err(InsertError::AlreadyExists(_)) => Ok(()),
        Err(error) => Err(ReconcileError::QueueSync(error)),
    }
}

async fn finalize(context: &Context, repository: &Repository) -> Result<Action, ReconcileError> {
    match finalize::run(context, repository).await {
        Ok(Finalized::Gone) => Ok(Action::Done),
        Ok(Finalized::Waiting(delay)) => Ok(Action::After(delay)),
        Err(error) => {
            status::write_blocked(context, repository, &error).await.map_err(ReconcileError::Call)?;
            Err(ReconcileError::Finalize(error))
        }
    }
}
