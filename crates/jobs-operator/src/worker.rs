//! What every worker is given, and what it may answer.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use windlass_api::{Job, JobAction, Repository};
use windlass_lease_queue::LeaseGuard;
use windlass_lease_queue::progress::Progress;

/// One job as its worker sees it.
pub(crate) struct JobContext {
    /// The job as it was claimed.
    pub(crate) job: Job,
    /// The repository that it is for, alive when the job began.
    pub(crate) repository: Repository,
    /// Where to report.
    pub(crate) progress: Progress,
    /// The right to run it: asked before each write to something else than the job.
    pub(crate) lease: LeaseGuard,
    /// Cancelled when the job shall stop: the lease is lost, time is up, or the process ends.
    pub(crate) cancel: CancellationToken,
}

impl JobContext {
    /// The job's name.
    pub(crate) fn name(&self) -> &str {
        self.job.metadata.name.as_deref().unwrap_or_default()
    }

    /// The namespace of the job, its repository and everything that it touches.
    pub(crate) fn namespace(&self) -> &str {
        self.job.metadata.namespace.as_deref().unwrap_or_default()
    }
}

/// Runs the jobs of one action.
///
/// A worker is dropped when its job shall stop, and may be dropped at every `await`: it keeps nothing that must be
/// undone. What it has done so far is repeated by whoever runs the job next, so that every step has to be idempotent.
#[async_trait]
pub(crate) trait Worker: Send + Sync {
    /// Whether it runs jobs of this action.
    fn supports(&self, action: &JobAction) -> bool;

    /// Runs one job to its end. Failures of single files go to [`JobContext::progress`]; an error fails the job.
    async fn run(&self, context: &JobContext) -> Result<(), JobError>;
}

/// The workers of a process, asked in order.
pub(crate) type Workers = Arc<[Box<dyn Worker>]>;

/// Why a job failed as a whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// The job lacks what its action needs. Admission refuses such jobs; one may have been stored before a rule.
    #[error("the job has no {field}; delete it and queue it again")]
    MissingOptions {
        /// The field.
        field: &'static str,
    },
    /// A file source could not be opened.
    #[error("failed to open the repository")]
    OpenRepository(#[source] windlass_resources::repository::OpenError),
    /// Git failed.
    #[error("failed to {what}")]
    Git {
        /// What was being done.
        what: &'static str,
        /// What Git said.
        #[source]
        source: windlass_git::GitError,
    },
    /// The folder that is to be pulled is not in the repository.
    #[error(
        "the path {path:?} does not exist at revision {revision}; nothing was changed: correct the repository's path"
    )]
    PathMissing {
        /// The path as the specification has it.
        path: String,
        /// The revision that was looked at.
        revision: windlass_git::Revision,
    },
    /// The API failed.
    #[error("failed to {what}")]
    Api {
        /// What was being done.
        what: &'static str,
        /// What the API said.
        #[source]
        source: windlass_runtime::CallError,
    },
    /// The managed objects could not be listed.
    #[error(transparent)]
    List(windlass_resources::ListError),
    /// Too many files failed, so that the rest was not tried.
    #[error("too many errors: {count}")]
    TooManyErrors {
        /// How many failed.
        count: usize,
    },
    /// The lease is lost: nothing may be written any more.
    #[error("job aborted due to lease expiry")]
    LeaseLost,
    /// The worker was told to stop.
    #[error("the job was stopped")]
    Stopped,
}
