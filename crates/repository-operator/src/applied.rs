//! What a pass comes to.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use windlass_api::{Repository, RepositoryStatus};
use windlass_provisioner::{Outcome, Reason};

use crate::error::ReconcileError;
use crate::timing::LEAST_WAIT;

/// What the steps came to.
pub(crate) struct Applied {
    /// The repository as it was last read or written.
    pub(crate) current: Arc<Repository>,
    /// The repository whose status `wanted` was made from.
    pub(crate) before: Arc<Repository>,
    /// What its status is to say.
    pub(crate) wanted: RepositoryStatus,
    /// Whether a delivery of the webhook did not reach us.
    pub(crate) missed: bool,
    /// What the specification leaves out, as the server says; written with the webhook's Secret, where one is wanted.
    pub(crate) left_out: Option<Value>,
    /// The change of a Secret that the repository was checked with.
    pub(crate) checked_with: Option<u64>,
    /// The pull that is due.
    pub(crate) pull: Option<WantedPull>,
    /// How long until what stands in the way is looked at again.
    pub(crate) wait: Option<Duration>,
    /// How long until what was brought up is looked at again.
    pub(crate) again: Option<Duration>,
    /// What ended the pass. Why a repository cannot be deleted is told of in the status.
    pub(crate) failure: Option<ReconcileError>,
}

/// A pull to queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WantedPull {
    pub(crate) incremental: bool,
    pub(crate) why: &'static str,
}

impl Applied {
    /// Nothing yet.
    pub(crate) fn new(stored: &Arc<Repository>) -> Self {
        Self {
            current: Arc::clone(stored),
            before: Arc::clone(stored),
            wanted: stored.status.clone(),
            missed: false,
            left_out: None,
            checked_with: None,
            pull: None,
            wait: None,
            again: None,
            failure: None,
        }
    }

    /// The repository is looked at again after this time at the latest.
    pub(crate) fn look_again(&mut self, after: Duration) {
        self.again = self.again.into_iter().chain([after]).min();
    }

    /// The repository is another one now: the pass ends, and the next begins at once.
    pub(crate) fn begin_anew(&mut self, repository: Repository) -> Outcome {
        self.current = Arc::new(repository);
        self.look_again(LEAST_WAIT);
        Outcome::wait(Reason::NotReady, "it is another repository now").after(LEAST_WAIT)
    }
}
