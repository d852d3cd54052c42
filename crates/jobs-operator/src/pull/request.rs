//! What is asked of a pull.

use windlass_api::Repository;
use windlass_lease_queue::LeaseGuard;
use windlass_lease_queue::progress::Progress;
use windlass_resources::TakeOver;

use crate::worker::StopRequest;

/// What is to be pulled, and on whose behalf.
pub(crate) struct PullRequest<'a> {
    /// The repository, alive, as it was last read.
    pub(crate) repository: &'a Repository,
    /// Whether the difference to the last pull will do. Everything is compared where it does not.
    pub(crate) incremental: bool,
    /// Objects that nobody manages and that the repository may make its own, such as those that were exported into it.
    pub(crate) take_over: TakeOver,
    /// Whom the repository's status names as its puller. Nobody: the status is left alone, the next pull of the
    /// repository's own knows nothing of this one.
    pub(crate) status: Option<StatusOwner<'a>>,
    /// Where results go.
    pub(crate) progress: &'a Progress,
    /// The right to write.
    pub(crate) lease: &'a LeaseGuard,
    /// Asks the pull to stop.
    pub(crate) stop: &'a StopRequest,
}

/// The job that a repository's status names.
pub(crate) struct StatusOwner<'a> {
    /// Name of the job.
    pub(crate) job: &'a str,
    /// Name of the record that it will have in history.
    pub(crate) record: String,
}
