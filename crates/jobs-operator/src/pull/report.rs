//! The repository's status at both ends of a pull.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::conditions::{self, messages, reasons, types};
use windlass_api::{JobState, JobStatus, SyncStatus};
use windlass_telemetry::ErrorChain;

use super::Pulled;
use super::quota::Quota;
use crate::status::StatusWriter;
use crate::worker::{JobContext, JobError};

/// Says that the job works on it.
pub(super) async fn begin(
    status: &mut StatusWriter,
    job: &JobContext,
    incremental: bool,
    now: Timestamp,
) -> Result<(), JobError> {
    status
        .write("say in the repository's status that the pull began", |status, _generation| {
            status.sync = SyncStatus {
                state: JobState::Working,
                job: job.name().to_owned(),
                started: now.as_millisecond(),
                finished: 0,
                incremental,
                ..status.sync.clone()
            };
        })
        .await
}

/// A pull that came to its end.
pub(super) struct Pull<'a> {
    pub(super) job: &'a JobContext,
    /// Of the specification that was pulled; it may have changed since.
    pub(super) generation: Option<i64>,
    pub(super) quota: Quota,
    pub(super) outcome: &'a Result<Pulled, JobError>,
}

impl Pull<'_> {
    fn error(&self) -> Option<&JobError> {
        match self.outcome {
            Ok(pulled) => pulled.stopped.as_ref(),
            Err(error) => Some(error),
        }
    }
}

/// Says what the pull came to. The revision moves on unless the pull failed or had no room for something: what was left
/// out with any other warning is not tried again until its file changes.
pub(super) async fn end(status: &mut StatusWriter, pull: &Pull<'_>, now: Timestamp) -> Result<(), JobError> {
    if matches!(pull.error(), Some(JobError::LeaseLost)) {
        return Err(JobError::LeaseLost);
    }
    let failure = pull.error().map_or(Ok(()), |error| Err(ErrorChain(error).to_string()));
    let recorder = pull.job.progress.recorder();
    let finished = recorder.finish(failure, now.as_millisecond());
    let refused = recorder.reasons().any(|reason| reason == reasons::QUOTA_EXCEEDED);
    status
        .write("say in the repository's status what the pull came to", |status, _generation| {
            let mut sync = SyncStatus::of_job(pull.job.name(), &finished);
            sync.last_ref.clone_from(&status.sync.last_ref);
            sync.incremental = status.sync.incremental;
            sync.scheduled = status.sync.scheduled;
            if let Ok(pulled) = pull.outcome {
                if finished.state != JobState::Error && !refused {
                    pulled.revision.as_str().clone_into(&mut sync.last_ref);
                }
                status.stats = pulled.stats.counts();
                let quota = pull.quota.condition(pulled.stats.total(), refused, pull.generation, now);
                conditions::set(&mut status.conditions, quota);
            }
            status.sync = sync;
            conditions::set(&mut status.conditions, condition(&finished, refused, pull.generation, now));
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
