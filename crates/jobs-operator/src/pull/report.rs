//! The repository's status at both ends of a pull.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::conditions::{self, messages, reasons, types};
use windlass_api::{JobState, JobStatus, SyncStatus};
use windlass_lease_queue::progress::Progress;
use windlass_telemetry::ErrorChain;

use super::quota::Quota;
use super::{Pulled, StatusOwner};
use crate::status::StatusWriter;
use crate::worker::{JobError, StopReason, StopRequest};

/// Says that the job works on it.
pub(super) async fn begin(
    status: &mut StatusWriter,
    owner: &StatusOwner<'_>,
    incremental: bool,
    now: Timestamp,
) -> Result<(), JobError> {
    status
        .write("say in the repository's status that the pull began", |status, _generation| {
            status.sync = SyncStatus {
                state: JobState::Working,
                job: owner.job.to_owned(),
                started: now.as_millisecond(),
                finished: 0,
                incremental,
                ..status.sync.clone()
            };
        })
        .await
}

/// A pull that came to its end.
pub(super) struct Ended<'a> {
    pub(super) owner: &'a StatusOwner<'a>,
    pub(super) progress: &'a Progress,
    pub(super) stop: &'a StopRequest,
    /// Of the specification that was pulled; it may have changed since.
    pub(super) generation: Option<i64>,
    pub(super) quota: Quota,
    pub(super) outcome: &'a Result<Pulled, JobError>,
}

impl Ended<'_> {
    fn error(&self) -> Option<&JobError> {
        match self.outcome {
            Ok(pulled) => pulled.stopped.as_ref(),
            Err(error) => Some(error),
        }
    }
}

/// Says what the pull came to. The revision moves on unless the pull failed, had no room for something or no folder to put
/// anything into: any other file that was left out stands in the status until it is applied.
pub(super) async fn end(
    status: &mut StatusWriter,
    ended: &Ended<'_>,
    now: Timestamp,
) -> Result<(), JobError> {
    if matches!(ended.error(), Some(JobError::LeaseLost)) {
        return Err(JobError::LeaseLost);
    }
    // Whoever runs the job next says what it came to.
    if ended.error().is_some_and(JobError::is_host_busy) {
        return Ok(());
    }
    // The same holds for one that was stopped; a repository that is being deleted has nobody to tell.
    if ended.error().is_some() && matches!(ended.stop.reason(), Some(reason) if reason != StopReason::TimeUp)
    {
        return Err(JobError::Stopped);
    }
    let failure = ended.error().map_or(Ok(()), |error| Err(ErrorChain(error).to_string()));
    let recorder = ended.progress.recorder();
    let finished = recorder.finish(failure, now.as_millisecond());
    let refused = recorder.reasons().any(|reason| reason == reasons::QUOTA_EXCEEDED);
    status
        .write("say in the repository's status what the pull came to", |status, _generation| {
            let mut sync = SyncStatus::of_job(ended.owner.job, &finished);
            sync.last_ref.clone_from(&status.sync.last_ref);
            sync.incremental = status.sync.incremental;
            sync.scheduled = status.sync.scheduled;
            sync.checked = status.sync.checked;
            sync.last_full = status.sync.last_full;
            if !sync.incremental && finished.state != JobState::Error {
                sync.last_full = finished.finished;
            }
            if let Ok(pulled) = ended.outcome {
                let moves_on = finished.state != JobState::Error && !refused;
                if let Some(revision) = pulled.revision.as_ref().filter(|_| moves_on) {
                    revision.as_str().clone_into(&mut sync.last_ref);
                }
                status.stats = pulled.stats.counts();
                status.unsynced = pulled.unsynced.status(&ended.owner.record);
                ended.quota.state(&mut status.quota, now);
                let quota = ended.quota.condition(pulled.stats.total(), refused, ended.generation, now);
                conditions::set(&mut status.conditions, quota);
            }
            status.sync = sync;
            conditions::set(&mut status.conditions, condition(&finished, refused, ended.generation, now));
        })
        .await
}

fn condition(finished: &JobStatus, refused: bool, generation: Option<i64>, now: Timestamp) -> Condition {
    let (holds, reason, message) = match finished.state {
        JobState::Success => (true, reasons::SUCCESS, messages::PULL_SUCCESS),
        JobState::Warning if refused => (false, reasons::QUOTA_EXCEEDED, messages::PULL_QUOTA_EXCEEDED),
        JobState::Warning => (false, reasons::COMPLETED_WITH_WARNINGS, messages::PULL_WARNINGS),
        _ => (false, reasons::FAILURE, messages::PULL_ERRORS),
    };
    conditions::new(types::PULL_STATUS, holds, reason, message, generation, now)
}
