//! Queueing the pull that is due, unless one is on its way.

use std::time::Duration;

use windlass_api::{JobSpec, JobState, Repository};
use windlass_lease_queue::kube::{InsertError, insert};
use windlass_runtime::{CallError, ObjectKey};

use crate::applied::WantedPull;
use crate::controller::{CALL, Controller, name, namespace};
use crate::error::ReconcileError;

/// How long until the watch has told of a change that is known already.
const WATCH_LAG: Duration = Duration::from_secs(1);

/// Queues the pull, and answers when to look again. The repository's own status tells of a job that was begun, and brings
/// the next look sooner. `current` is the repository as it was last read or written;
/// `folder_change` the change of its folder that the pull takes in.
pub(crate) async fn queue(
    controller: &Controller,
    key: &ObjectKey,
    current: &Repository,
    wanted: &WantedPull,
    folder_change: Option<u64>,
) -> Result<Duration, ReconcileError> {
    let interval = controller.timing.interval(current);
    // The watch's copy lags behind what we did: what was queued for this very status is not queued once more.
    if let Some(left) = controller.memory.queued_left(key, current, interval) {
        return Ok(left);
    }
    // A status that tells of a job while there is none is stale, and stands in nobody's way.
    if current.status.sync.state == JobState::Working && job_exists(controller, current).await? {
        return Ok(interval);
    }
    // The job may be gone because it ended well, which the copy does not tell yet: the watch is about to.
    if !is_current(controller, current).await? {
        return Ok(WATCH_LAG);
    }
    if insert_job(controller, current, wanted).await? {
        controller.memory.queued(key, current);
        if let Some(change) = folder_change {
            controller.memory.folder_seen(key, change);
        }
        return Ok(interval);
    }
    // A job of this name is there. It may be one that just ended and is about to go, for what was specified before; or
    // one that waits for its turn, for a long time.
    Ok(controller.memory.obstructed(key).min(interval))
}

/// Whether the repository is still what the API server has.
async fn is_current(controller: &Controller, repository: &Repository) -> Result<bool, ReconcileError> {
    let (api, name) = (controller.repositories(repository), name(repository));
    let found = CALL.read(format!("read repository {name}"), || api.get_metadata_opt(name)).await;
    let found = found.map_err(ReconcileError::Call)?;
    Ok(found.is_some_and(|found| found.metadata.resource_version == repository.metadata.resource_version))
}

/// Whether the job that the status names is queued or running.
async fn job_exists(controller: &Controller, repository: &Repository) -> Result<bool, ReconcileError> {
    let job = repository.status.sync.job.as_str();
    if job.is_empty() {
        return Ok(false);
    }
    let api = controller.jobs(repository);
    let found = CALL.read(format!("read job {job}"), || api.get_metadata_opt(job)).await;
    Ok(found.map_err(ReconcileError::Call)?.is_some())
}

/// Queues a job; false when there is one already that excludes it.
async fn insert_job(
    controller: &Controller,
    repository: &Repository,
    wanted: &WantedPull,
) -> Result<bool, ReconcileError> {
    let (namespace, name) = (namespace(repository), name(repository));
    let WantedPull { incremental, why } = *wanted;
    let spec = JobSpec::pull(name, incremental);
    let annotations = std::collections::BTreeMap::new();
    let queued = insert(&controller.clients.provisioning, namespace, name, spec, annotations);
    match tokio::time::timeout(CALL.deadline(), queued).await {
        Err(_elapsed) => {
            let what = format!("queue a sync of repository {name}");
            Err(ReconcileError::Call(CallError::Deadline { what, after: CALL.deadline() }))
        }
        Ok(Ok(_job)) => {
            tracing::info!(namespace, repository = name, incremental, why, "sync queued");
            Ok(true)
        }
        Ok(Err(InsertError::AlreadyExists(_))) => Ok(false),
        Ok(Err(error)) => Err(ReconcileError::QueueSync(error)),
    }
}
