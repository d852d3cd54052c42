//! One pass over one repository.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_api::repositories::RepositoryRules;
use windlass_api::{Job, JobSpec, QuotaStatus, Repository};
use windlass_auth::ApiClients;
use windlass_lease_queue::kube::{InsertError, insert};
use windlass_resources::Clients;
use windlass_resources::check::check;
use windlass_resources::repository::Sources;
use windlass_runtime::{
    Action, CallError, Clock, Disposition, ObjectKey, Part, Store, deadline, merge_patch,
};
use windlass_telemetry::ErrorChain;

use crate::finalize::{self, FinalizeError, Finalized};
use crate::metrics::RepositoryMetrics;
use crate::plan::{self, Plan, Sync, SyncDue};
use crate::queued::Queued;
use crate::status;

/// How long one call to the API may take.
pub(crate) const CALL: Duration = Duration::from_secs(15);
/// The least time until a repository is looked at again without anything having changed.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// How long until a job that stands in the way of a sync is taken to have gone.
const ENDING_JOB: Duration = Duration::from_secs(2);
/// How long until a repository is looked at again that a call was refused for, and would be again.
const REFUSED: Duration = Duration::from_mins(5);

/// What every pass uses.
#[derive(Clone)]
pub(crate) struct Context {
    /// They write while this process leads only.
    pub(crate) clients: ApiClients,
    pub(crate) resources: Clients,
    pub(crate) sources: Sources,
    pub(crate) rules: RepositoryRules,
    /// How many there may be; when that was looked up is not filled in.
    pub(crate) limits: QuotaStatus,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Store<Repository>,
    pub(crate) metrics: RepositoryMetrics,
    /// The most time that a check may take.
    pub(crate) check_deadline: Duration,
    /// Syncs that were queued and that the watch has not told of yet.
    pub(crate) queued: Arc<Queued>,
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
                // A change brings it sooner; without one it is not given up either.
                Disposition::AwaitChange => Action::After(REFUSED),
                Disposition::Retry | Disposition::Fatal => Action::Retry,
            }
        }
    }
}

async fn pass(context: &Context, key: &ObjectKey) -> Result<Action, ReconcileError> {
    // Observe: the watch's copy. A write that is based on an old one is refused, and the next pass knows better.
    let Some(repository) = context.store.get(key) else { return Ok(Action::Done) };
    let repository = filled_in(context, &repository).await?;
    let now = context.clock.now();
    // Validation of the specification is part of the check: what is invalid is a fact to report.
    let current = match plan::plan(&repository, now) {
        Plan::LeaveAlone => return Ok(Action::Done),
        Plan::Finalize => return finalize(context, &repository).await,
        Plan::Rest => repository,
        Plan::Check { why } => {
            tracing::debug!(repository = %key, why, "checking the repository");
            let checked = check_in_time(context, &repository).await;
            context.metrics.checked(checked.results.success);
            status::write_check(context, &repository, &checked).await.map_err(ReconcileError::Call)?
        }
    };
    let next_sync = sync(context, key, &current).await?;
    let next_check = plan::next_check(&current, context.clock.now());
    let next = next_sync.map_or(next_check, |next| next.min(next_check));
    Ok(Action::After(next.max(LEAST_WAIT)))
}

/// The repository with what admission fills in, for servers that have none of ours: finalizers are written, so that
/// nothing is left behind when it is deleted; the specification stays as its author wrote it, and is only read so.
async fn filled_in(context: &Context, repository: &Repository) -> Result<Repository, ReconcileError> {
    let mut wanted = repository.clone();
    let Some(finalizers) = plan::fill_in(&mut wanted, &context.rules) else { return Ok(wanted) };
    let name = repository.metadata.name.as_deref().unwrap_or_default();
    let namespace = repository.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Repository> = Api::namespaced(context.clients.provisioning.clone(), namespace);
    let patch = json!({"metadata": {"finalizers": finalizers}});
    let written =
        merge_patch(&api, repository, Part::Object, patch, CALL).await.map_err(ReconcileError::Call)?;
    tracing::info!(namespace, repository = name, ?finalizers, "finalizers added");
    wanted.metadata = written.metadata;
    Ok(wanted)
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

/// Queues the sync that is due, unless one is on its way, and answers when to look again. The repository's own status
/// tells of a job that was begun, and brings the next look sooner.
async fn sync(
    context: &Context,
    key: &ObjectKey,
    repository: &Repository,
) -> Result<Option<Duration>, ReconcileError> {
    let now = context.clock.now();
    let due = match plan::sync(repository, context.min_sync_interval, now) {
        Sync::Off => return Ok(None),
        Sync::In(left) => return Ok(Some(left)),
        Sync::Due(due) => due,
    };
    let interval = plan::interval(repository, context.min_sync_interval);
    // The watch's copy lags behind what we did: what was queued for this very status is not queued once more.
    if let Some(left) = context.queued.left(key, repository, interval, now) {
        return Ok(Some(left));
    }
    // A status that tells of a job while there is none is stale, and stands in nobody's way.
    if !repository.status.sync.state.is_finished() && job_exists(context, repository).await? {
        return Ok(Some(interval));
    }
    // The job may be gone because it ended well, which the copy does not tell yet: the watch is about to.
    if !is_current(context, repository).await? {
        return Ok(Some(LEAST_WAIT));
    }
    if queue_sync(context, repository, due).await? {
        context.queued.insert(key, repository, now);
        return Ok(Some(interval));
    }
    // A job of this name is there. It may be one that just ended and is about to go, for what was specified before.
    Ok(Some(ENDING_JOB))
}

/// Whether the repository is still what the API server has.
async fn is_current(context: &Context, repository: &Repository) -> Result<bool, ReconcileError> {
    let name = repository.metadata.name.as_deref().unwrap_or_default();
    let namespace = repository.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Repository> = Api::namespaced(context.clients.provisioning.clone(), namespace);
    let found = deadline(CALL, format!("read repository {name}"), api.get_metadata_opt(name)).await;
    let found = found.map_err(ReconcileError::Call)?;
    Ok(found.is_some_and(|found| found.metadata.resource_version == repository.metadata.resource_version))
}

/// Whether the job that the status names is queued or running.
async fn job_exists(context: &Context, repository: &Repository) -> Result<bool, ReconcileError> {
    let name = &repository.status.sync.job;
    if name.is_empty() {
        return Ok(false);
    }
    let namespace = repository.metadata.namespace.as_deref().unwrap_or_default();
    let jobs: Api<Job> = Api::namespaced(context.clients.provisioning.clone(), namespace);
    let found = deadline(CALL, format!("read job {name}"), jobs.get_opt(name)).await;
    Ok(found.map_err(ReconcileError::Call)?.is_some())
}

/// Queues a sync; false when there is a job already that excludes it.
async fn queue_sync(
    context: &Context,
    repository: &Repository,
    due: SyncDue,
) -> Result<bool, ReconcileError> {
    let name = repository.metadata.name.as_deref().unwrap_or_default();
    let namespace = repository.metadata.namespace.as_deref().unwrap_or_default();
    let spec = JobSpec::pull(name, due.incremental);
    let annotations = std::collections::BTreeMap::new();
    let queued = insert(&context.clients.provisioning, namespace, name, spec, annotations);
    match tokio::time::timeout(CALL, queued).await {
        Err(_elapsed) => {
            Err(ReconcileError::Call(CallError::Deadline { what: "queue a sync".to_owned(), after: CALL }))
        }
        Ok(Ok(_job)) => {
            tracing::info!(
                namespace,
                repository = name,
                incremental = due.incremental,
                why = due.why,
                "sync queued"
            );
            Ok(true)
        }
        Ok(Err(InsertError::AlreadyExists(_))) => Ok(false),
        Ok(Err(error)) => Err(ReconcileError::QueueSync(error)),
    }
}

async fn finalize(context: &Context, repository: &Repository) -> Result<Action, ReconcileError> {
    let mut current = repository.clone();
    match finalize::run(context, &mut current).await {
        Ok(Finalized::Gone) => Ok(Action::Done),
        Ok(Finalized::Waiting(delay)) => Ok(Action::After(delay)),
        // Somebody else wrote, or we are told to stop: nothing is in the way.
        Err(FinalizeError::Call { source, .. }) if source.is_conflict() || source.is_not_found() => {
            Err(ReconcileError::Call(source))
        }
        Err(FinalizeError::Interrupted { .. }) => Ok(Action::Retry),
        Err(error) => {
            status::write_blocked(context, &current, &error).await.map_err(ReconcileError::Call)?;
            Err(ReconcileError::Finalize(error))
        }
    }
}
