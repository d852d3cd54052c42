//! Whether a sync may still write.

use tokio_util::sync::CancellationToken;

use crate::MayWrite;

/// Asked before each try of each write: a sync that was cancelled, or whose lease is lost, writes nothing more.
#[derive(Clone)]
pub(crate) struct Fence {
    pub(crate) cancel: CancellationToken,
    pub(crate) may_write: MayWrite,
}

impl Fence {
    /// A fence that only the token closes.
    pub(crate) fn of(cancel: CancellationToken) -> Self {
        Self { cancel, may_write: std::sync::Arc::new(|| true) }
    }

    pub(crate) fn allows(&self) -> bool {
        !self.cancel.is_cancelled() && (self.may_write)()
    }
}
