//! The repository's status at both ends of a pull.

use jiff::Timestamp;
use windlass_api::conditions::{self, messages, reasons, types};
use windlass_api::{JobState, JobStatus, SyncStatus};
use windlass_telemetry::ErrorChain;

use super::Pulled;
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

/// Says what the pull came to. The revision moves on unless the pull failed: what was left out with a warning is not
/// tried again until its file changes.
pub(super) async fn end(
    status: &mut StatusWriter,
    job: &JobContext,
    outcome: &Result<Pulled, JobError>,
    now: Timestamp,
) -> Result<(), JobError> {
    if matches!(outcome, Err(JobError::LeaseLost)) {
        return Err(JobError::LeaseLost);
    }
    let failure = outcome.as_ref().map(|_pulled| ()).map_err(|error| ErrorChain(error).to_string());
    let finished = job.progress.recorder().finish(failure, now.as_millisecond());
    status
        .write("say in the repository's status what the pull came to", |status, generation| {
            let mut sync = SyncStatus::of_job(job.name(), &finished);
            sync.last_ref.clone_from(&status.sync.last_ref);
            sync.incremental = status.sync.incremental;
            sync.scheduled = status.sync.scheduled;
            if let Ok(pulled) = outcome {
                if finished.state != JobState::Error {
                    pulled.revision.as_str().clone_into(&mut sync.last_ref);
                }
                status.stats = pulled.stats.counts();
            }
            status.sync = sync;
            conditions::set(&mut status.conditions, condition(&finished, generation, now));
        })
        .await
}

fn condition(
    finished: &JobStatus,
    generation: i64,
    now: Timestamp,
) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition {
    let (holds, reason, message) = match finished.state {
        JobState::Success => (true, reasons::SUCCESS, messages::PULL_SUCCESS),
        JobState::Warning => (false, reasons::COMPLETED_WITH_WARNINGS, messages::PULL_WARNINGS),
        _ => (false, reasons::FAILURE, messages::PULL_ERRORS),
    };
    conditions::new(types::PULL_STATUS, holds, reason, message, Some(generation), now)
}
