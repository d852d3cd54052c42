//! What can go wrong with a repository, in words that a user can act on.

use windlass_api::conditions::reasons;
use windlass_git::{GitError, ObjectId};

use crate::{LocalError, TokenError};

/// Why a repository could not be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The Git server, or the cache of what it sent.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The folder.
    #[error(transparent)]
    Local(#[from] LocalError),
}

impl ReadError {
    /// An object that is not there.
    pub fn missing(id: ObjectId) -> Self {
        Self::Git(GitError::ObjectMissing { id })
    }

    /// The condition reason that tells a reader what to do about it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Git(error) => error.reason(),
            Self::Local(error) => error.reason(),
        }
    }

    /// The HTTP status that a sub-resource or a test result reports it with.
    pub fn http_code(&self) -> u16 {
        match self {
            Self::Git(error) => error.http_code(),
            Self::Local(error) => error.http_code(),
        }
    }

    /// Whether the same call may work later with nothing changed by anyone.
    pub fn is_transient(&self) -> bool {
        matches!(self.reason(), reasons::SERVICE_UNAVAILABLE | reasons::RATE_LIMITED)
    }

    /// Whether the caller no longer wanted the answer.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Git(GitError::Cancelled) | Self::Local(LocalError::Cancelled))
    }

    /// Whether something is larger than the limits allow.
    pub fn is_too_large(&self) -> bool {
        matches!(
            self,
            Self::Git(GitError::LimitExceeded { .. }) | Self::Local(LocalError::LimitExceeded { .. })
        )
    }
}

/// Why a repository could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The specification names no URL for its type.
    #[error("the repository has no URL; set spec.<type>.url")]
    NoUrl,
    /// The token could not be had, or may not be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The URL or folder is not usable.
    #[error(transparent)]
    Refused(ReadError),
}

impl OpenError {
    /// The condition reason for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoUrl => reasons::INVALID_SPEC,
            Self::Token(error) => error.reason(),
            Self::Refused(error) => error.reason(),
        }
    }

    /// The HTTP status that a test result reports it with.
    pub fn http_code(&self) -> u16 {
        match self {
            Self::NoUrl => 400,
            Self::Token(error) => error.http_code(),
            Self::Refused(error) => error.http_code(),
        }
    }
}

/// Why changes could not be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A path that nobody may write to.
    #[error("failed to stage {path:?}: {reason}")]
    Path {
        /// The path as it was given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More than one commit may hold.
    #[error("failed to stage {path:?}: the commit would exceed {limit} = {max}; split the change")]
    TooLarge {
        /// The path that is too much.
        path: String,
        /// The limit's name.
        limit: &'static str,
        /// Its value.
        max: u64,
    },
    /// A file that was to be renamed or deleted is not there.
    #[error("failed to change {path:?} in {name}: there is no such file; look again and repeat")]
    NotFound {
        /// The path.
        path: String,
        /// The repository.
        name: String,
    },
    /// Something is where a file was to be renamed to.
    #[error("failed to rename to {path:?}: a file is there; delete it first, or choose another name")]
    Exists {
        /// The path.
        path: String,
    },
    /// Somebody else wrote first.
    #[error(
        "failed to write to {name}: it changed since revision {base} was looked at; look again and repeat"
    )]
    Conflict {
        /// The repository.
        name: String,
        /// The revision that the changes were made for.
        base: String,
    },
    /// What the changes are made to could not be read.
    #[error("failed to read what is to be changed")]
    Read(#[source] ReadError),
    /// The commit is to be signed, and the key could not be had.
    #[error("failed to write to {name}: the key that signs commits cannot be used")]
    SigningKey {
        /// The repository.
        name: String,
        /// Why.
        #[source]
        source: Box<TokenError>,
    },
    /// The server or the disk did not take it.
    #[error("failed to write to {name}")]
    Write {
        /// The repository.
        name: String,
        /// Why.
        #[source]
        source: Box<ReadError>,
    },
}

impl WriteError {
    /// The HTTP status that a sub-resource reports it with.
    pub fn http_code(&self) -> u16 {
        match self {
            Self::Path { .. } => 400,
            Self::TooLarge { .. } => 413,
            Self::NotFound { .. } => 404,
            Self::Exists { .. } | Self::Conflict { .. } => 409,
            Self::Read(source) => source.http_code(),
            // What the caller may do is not in question.
            Self::SigningKey { source, .. } if source.http_code() == 503 => 503,
            Self::SigningKey { .. } => 424,
            Self::Write { source, .. } => source.http_code(),
        }
    }

    /// Whether it is not known if the changes were taken: writing them again is safe.
    pub fn is_unanswered(&self) -> bool {
        matches!(self, Self::Write { source, .. } if matches!(**source, ReadError::Git(GitError::PushUnanswered { .. })))
    }

    /// Whether the same may work later, after another look at the repository.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Conflict { .. } => true,
            Self::Read(source) => source.is_transient(),
            Self::SigningKey { source, .. } => source.http_code() == 503,
            Self::Write { source, .. } => source.is_transient(),
            Self::Path { .. } | Self::TooLarge { .. } | Self::NotFound { .. } | Self::Exists { .. } => false,
        }
    }
}
