//! What can go wrong with a folder.

use std::io;
use std::sync::Arc;

use windlass_api::conditions::reasons;
use windlass_git::Limits;

/// Why a folder could not be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LocalError {
    /// Settings do not allow the folder.
    #[error("refused to use {path}: {detail}")]
    Refused {
        /// The folder, as the specification has it.
        path: String,
        /// Why, and which setting would allow it.
        detail: &'static str,
    },
    /// The folder is not there.
    #[error("directory not found: {path}; create it, or correct spec.local.path")]
    NotFound {
        /// The folder.
        path: String,
    },
    /// A file or folder could not be read or written.
    #[error("failed to {action} {path}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The file or folder.
        path: String,
        /// What the file system said.
        #[source]
        source: Arc<io::Error>,
    },
    /// Something changed between listing and reading, or is a link where none was.
    #[error("{path} changed while it was read; run the sync again")]
    Changed {
        /// The file or folder.
        path: String,
    },
    /// More than the limits accept.
    #[error("{what} exceeds the limit {limit} = {max}{}", Limits::raised_by(.limit))]
    LimitExceeded {
        /// The field of [`Limits`].
        limit: &'static str,
        /// Its value.
        max: u64,
        /// What was too large.
        what: String,
    },
    /// The caller no longer wants the answer.
    #[error("cancelled")]
    Cancelled,
    /// The thread that did the work ended early.
    #[error("failed to work on a folder: {detail}")]
    Worker {
        /// How it ended.
        detail: String,
    },
}

impl LocalError {
    pub(super) fn io(action: &'static str, path: &str, source: impl Into<io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: Arc::new(source.into()) }
    }

    /// The condition reason that tells a reader what to do about it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Refused { .. } | Self::NotFound { .. } | Self::LimitExceeded { .. } => {
                reasons::INVALID_SPEC
            }
            Self::Io { .. } | Self::Changed { .. } | Self::Cancelled | Self::Worker { .. } => {
                reasons::SERVICE_UNAVAILABLE
            }
        }
    }

    /// The HTTP status that a sub-resource or a test result reports it with.
    pub fn http_code(&self) -> u16 {
        match self {
            Self::Refused { .. } | Self::NotFound { .. } => 400,
            Self::Changed { .. } => 409,
            Self::LimitExceeded { .. } => 413,
            Self::Io { .. } | Self::Worker { .. } => 500,
            Self::Cancelled => 503,
        }
    }
}
