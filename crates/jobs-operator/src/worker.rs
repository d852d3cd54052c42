//! What every worker is given, and what it may answer.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use windlass_api::{Job, JobAction, Repository};
use windlass_git::GitError;
use windlass_lease_queue::LeaseGuard;
use windlass_lease_queue::progress::Progress;
use windlass_repository::ReadError;
use windlass_runtime::{CallOptions, Fence, Retry};

/// One job as its worker sees it.
pub(crate) struct JobContext {
    /// The job as it was claimed.
    pub(crate) job: Job,
    /// The repository that it is for, as it was when the job began. Always there for a worker that needs it
    /// ([`RepositoryNeed::Present`]), see [`JobContext::repository`].
    pub(crate) repository: Option<Repository>,
    /// Where to report.
    pub(crate) progress: Progress,
    /// The right to run it: asked before each try of each write to something else than the job.
    pub(crate) lease: LeaseGuard,
    /// Asks the worker to stop.
    pub(crate) stop: StopRequest,
}

impl JobContext {
    /// The job's name.
    pub(crate) fn name(&self) -> &str {
        self.job.metadata.name.as_deref().unwrap_or_default()
    }

    /// The repository, for workers that cannot do without.
    pub(crate) fn repository(&self) -> Result<&Repository, JobError> {
        self.repository
            .as_ref()
            .ok_or_else(|| JobError::NoRepository { name: self.job.spec.repository.clone() })
    }

    /// Cancelled when the worker shall stop; to be handed to whatever takes long.
    pub(crate) fn cancel(&self) -> &CancellationToken {
        self.stop.token()
    }
}

/// Calls under a job's lease, which is asked before each try of a write, creates included. They are made until they are
/// answered, for as long as the lease holds: an API server that is being started again costs a job time, not its life.
pub(crate) fn call_options(lease: &LeaseGuard, deadline: Duration) -> CallOptions {
    let guard = lease.clone();
    let fence = Fence::new("the lease on the job is lost", lease.lost(), move || guard.valid());
    CallOptions::new(deadline).retried(Retry::WHILE_FENCED).fenced(fence)
}

/// Why a worker is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopReason {
    /// Somebody else runs the job, or will: nothing may be written any more.
    LeaseLost,
    /// `max_job_timeout` is over: the job ends as an error.
    TimeUp,
    /// The process ends: the job is given back, and run again from the start.
    Shutdown,
    /// The repository is being deleted: the job ends as an error.
    RepositoryDeleted,
}

/// The driver's request to stop. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopRequest {
    token: CancellationToken,
    reason: Arc<OnceLock<StopReason>>,
}

impl StopRequest {
    /// Asks the worker to stop. The first reason stays.
    pub(crate) fn ask(&self, reason: StopReason) {
        // A second request adds nothing.
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Why the worker is asked to stop, if it is.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.reason.get().copied()
    }

    /// Cancelled with the request.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }
}

/// What a worker needs of its job's repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepositoryNeed {
    /// It is there and is not being deleted. Otherwise the worker is not run, and its deletion stops the worker.
    Present,
    /// Nothing: the worker is run whether it is there, on its way out, or gone.
    Any,
}

/// Runs the jobs of one action.
///
/// A worker is stopped cooperatively. When [`JobContext::cancel`] is cancelled it begins nothing new, awaits the writes
/// that are under way, and returns [`JobError::Stopped`], within the driver's grace period; a worker that is done by then
/// returns `Ok` and its job is complete. Only past the grace period is its future dropped.
///
/// Every write to something else than the job asks [`JobContext::lease`] before each try: calls with [`call_options`] do.
/// A job may be run again from the start, by another process, after a worker was stopped or its process died: every step
/// has to be idempotent.
#[async_trait]
pub(crate) trait Worker: Send + Sync {
    /// Its name in logs.
    fn name(&self) -> &'static str;

    /// Whether it runs jobs of this action.
    fn supports(&self, action: &JobAction) -> bool;

    /// What it needs of the repository.
    fn needs(&self) -> RepositoryNeed {
        RepositoryNeed::Present
    }

    /// Runs one job to its end. Failures of single files go to [`JobContext::progress`]; an error fails the job.
    async fn run(&self, context: &JobContext) -> Result<(), JobError>;
}

/// The workers of a process, asked in order.
pub(crate) type Workers = Arc<[Box<dyn Worker>]>;

impl JobError {
    /// The error of a call that was made at `what`.
    pub(crate) fn call(what: &'static str, source: windlass_runtime::CallError) -> Self {
        if source.is_fenced() { Self::LeaseLost } else { Self::Api { what, source } }
    }

    /// Whether the repository's server lets in nobody with these credentials.
    pub(crate) fn is_unauthorized(&self) -> bool {
        matches!(self.git_error(), Some(GitError::Unauthorized { .. }))
    }

    /// Whether others have the places that the repository's host has.
    pub(crate) fn is_host_busy(&self) -> bool {
        match self {
            Self::Within { source, .. } => source.is_host_busy(),
            error => matches!(error.git_error(), Some(GitError::HostBusy { .. })),
        }
    }

    fn git_error(&self) -> Option<&GitError> {
        match self {
            Self::Repository { source: ReadError::Git(error), .. } => Some(error),
            _ => None,
        }
    }

    /// The same, told as a failure of a part of the job. That the worker was stopped stays what it is.
    pub(crate) fn within(self, part: &'static str) -> Self {
        match self {
            Self::LeaseLost | Self::Stopped => self,
            error => Self::Within { part, source: Box::new(error) },
        }
    }
}

/// Why a job failed as a whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobError {
    /// The job lacks what its action needs. Admission refuses such jobs; one may have been stored before a rule.
    #[error("the job has no {field}; delete it and queue it again")]
    MissingOptions {
        /// The field.
        field: &'static str,
    },
    /// The worker cannot do without the repository.
    #[error("failed to get repository '{name}': it does not exist")]
    NoRepository {
        /// Its name.
        name: String,
    },
    /// The repository could not be opened.
    #[error("failed to open the repository")]
    OpenRepository(#[source] windlass_repository::OpenError),
    /// GitHub's API cannot be asked about the repository.
    #[error("failed to ask GitHub about the repository")]
    OpenGithub(#[source] windlass_repository::GithubOpenError),
    /// GitHub refused, or did not answer.
    #[error("failed to {what}")]
    Github {
        /// What was being done.
        what: &'static str,
        /// Why.
        #[source]
        source: windlass_github::GithubError,
    },
    /// The repository could not be read.
    #[error("failed to {what}")]
    Repository {
        /// What was being done.
        what: &'static str,
        /// Why.
        #[source]
        source: windlass_repository::ReadError,
    },
    /// Which files are ignored cannot be told.
    #[error(transparent)]
    IgnoreFile(windlass_resources::ignore_file::IgnoreError),
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
    /// The repository does not allow what the job would do.
    #[error(
        "repository {repository:?} does not allow it: the workflow {workflow:?} is not among its workflows"
    )]
    ReadOnly {
        /// Title of the repository.
        repository: String,
        /// The workflow that would allow it.
        workflow: &'static str,
    },
    /// The branch takes no pushes.
    #[error("failed to write to repository {repository:?}: {why}")]
    Protected {
        /// Title of the repository.
        repository: String,
        /// What keeps us from it, as its condition says.
        why: String,
    },
    /// Nothing can be written to the repository.
    #[error("failed to write to {name}: repositories of its type cannot be written to")]
    NoWriter {
        /// The repository.
        name: String,
    },
    /// The changes could not be written.
    #[error(transparent)]
    Write(windlass_repository::WriteError),
    /// Others write to the branch all the time.
    #[error(
        "failed to write to branch {branch:?}: it moved each of {tries} times, the last time from {base} to {actual}; nothing was written, queue the job again"
    )]
    BranchMoves {
        /// Its short name; empty for a folder.
        branch: String,
        /// How often it was tried.
        tries: usize,
        /// What the last try was made on.
        base: windlass_git::Revision,
        /// Where the branch is now.
        actual: windlass_git::Revision,
    },
    /// More objects than the repository may manage.
    #[error("export would exceed quota: {wanted}/{limit} resources")]
    ExportQuota {
        /// How many there would be.
        wanted: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A resource that was asked for cannot be exported.
    #[error("failed to export {what}: {why}")]
    NotExported {
        /// Kind and name.
        what: String,
        /// Why not.
        why: String,
    },
    /// A repository of the whole namespace is migrated as a whole.
    #[error(
        "a repository whose sync target is \"instance\" is migrated as a whole: leave spec.migrate.resources out"
    )]
    SelectiveInstance,
    /// Cleaning up after a repository that is there.
    #[error("the repository {name:?} exists and is healthy; orphan cleanup is no longer needed")]
    NotOrphaned {
        /// Its name.
        name: String,
    },
    /// A part of the job failed.
    #[error("{part}")]
    Within {
        /// Which.
        part: &'static str,
        /// Why.
        #[source]
        source: Box<JobError>,
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
    /// The worker was asked to stop.
    #[error("the job was stopped")]
    Stopped,
}
