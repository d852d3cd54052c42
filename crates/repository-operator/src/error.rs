//! Why a pass over a repository fails.

use windlass_lease_queue::kube::InsertError;
use windlass_provisioner::ProvisionError;
use windlass_resources::{ItemResult, ListError};
use windlass_runtime::{CallError, Disposition};

use crate::hook::CleanUpError;

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReconcileError {
    /// A call to the API failed.
    #[error(transparent)]
    Call(CallError),
    /// What it needs could not be brought up.
    #[error("failed to bring up what the repository needs")]
    BringUp(#[source] ProvisionError),
    /// A sync could not be queued.
    #[error("failed to queue a sync")]
    QueueSync(#[source] InsertError),
    /// A finalizer failed.
    #[error("failed to clean up after the repository")]
    Finalize(#[source] FinalizeError),
    /// The process shuts down or does not lead any more: what was found out so far may be wrong by that.
    #[error("the pass was cut short; the next one begins anew")]
    Interrupted,
}

impl ReconcileError {
    pub(crate) fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.disposition(),
            Self::QueueSync(InsertError::Invalid(_)) => Disposition::AwaitChange,
            _ => Disposition::Retry,
        }
    }

    /// Somebody else wrote, or the process ends: nothing is wrong, and a new pass knows better.
    pub(crate) fn is_ordinary(&self) -> bool {
        match self {
            Self::Call(call) => call.is_conflict() || call.is_not_found() || call.is_fenced(),
            Self::Interrupted => true,
            _ => false,
        }
    }
}

/// Why a repository cannot be deleted yet.
#[derive(Debug, thiserror::Error)]
#[error("failed to run the finalizer {finalizer}")]
pub(crate) struct FinalizeError {
    /// The finalizer that is to blame.
    pub(crate) finalizer: &'static str,
    /// What stands in its way.
    #[source]
    pub(crate) obstacle: Obstacle,
}

/// What stands in the way of a finalizer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Obstacle {
    /// A call to the API failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The finalizer is done, and could not be taken off.
    #[error("it is done, and could not be taken off")]
    TakeOff(#[source] CallError),
    /// The managed resources could not be listed.
    #[error(transparent)]
    List(#[from] ListError),
    /// The provider's side could not be cleaned up.
    #[error(transparent)]
    CleanUp(#[from] CleanUpError),
    /// Single resources, with why.
    #[error("{} resource(s) are in the way; first: {}", .0.len(), first(.0))]
    Items(Vec<ItemResult>),
    /// The tree says so itself: it could not be built, or the code of a finalizer panicked.
    #[error("{0}")]
    Tree(String),
}

fn first(failures: &[ItemResult]) -> String {
    failures.first().map_or_else(String::new, |item| {
        let why = item.error.as_ref().map(ToString::to_string).unwrap_or_default();
        format!("{} {:?} ({}): {why}", item.kind_name(), item.name, item.path)
    })
}
