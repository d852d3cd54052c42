//! What can go wrong, in words that a user can act on.

use std::sync::Arc;
use std::time::Duration;

use windlass_http_client::printable;

use crate::ObjectId;

/// Why a repository could not be read. Messages name the host or the object, never a secret, and never contain
/// a control character from the other side.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// No connection: name not found, refused, TLS not trusted.
    #[error("failed to reach {host}: {detail}; check the URL, the network and the server's certificate")]
    Unreachable {
        /// Host and port.
        host: String,
        /// What the network said.
        detail: String,
    },
    /// Something took longer than its deadline.
    #[error("failed to {what} {host} within {after:?}; the server is slow, or the deadline too short")]
    Timeout {
        /// Host and port.
        host: String,
        /// What was being done, such as `read the refs of`.
        what: &'static str,
        /// The deadline.
        after: Duration,
    },
    /// 401: who asks is not known.
    #[error("failed to authenticate with {host}: {}; check the token and its user name", if *.sent { "the token was refused" } else { "it asks for a token and none is set" })]
    Unauthorized {
        /// Host and port.
        host: String,
        /// Whether credentials were sent at all.
        sent: bool,
    },
    /// 403: who asks is known and may not.
    #[error("permission denied by {host}; the token needs read access to the repository's contents")]
    Forbidden {
        /// Host and port.
        host: String,
    },
    /// 404: no such repository, or it is hidden from this token.
    #[error("repository not found at {url}; check the URL, and whether the token may read it")]
    NotFound {
        /// The repository's URL.
        url: String,
    },
    /// 429: too many requests.
    #[error("{host} asks to slow down{}", .retry_after.map(|after| format!("; retry after {after:?}")).unwrap_or_default())]
    RateLimited {
        /// Host and port.
        host: String,
        /// What `Retry-After` said.
        retry_after: Option<Duration>,
    },
    /// 5xx: the server is in trouble.
    #[error("{host} answered HTTP {status}; the Git server is unavailable, try again later")]
    Unavailable {
        /// Host and port.
        host: String,
        /// The status code.
        status: u16,
    },
    /// Something answers, but not as a Git server.
    #[error("{url} is not a Git repository: {detail}")]
    NotGit {
        /// The repository's URL.
        url: String,
        /// What was seen instead.
        detail: String,
    },
    /// The repository has no such branch.
    #[error("branch {branch:?} not found in {url}")]
    BranchNotFound {
        /// The repository's URL.
        url: String,
        /// The branch as asked for.
        branch: String,
    },
    /// A revision that neither the cache nor the server has. Callers of `diff` compare in full.
    #[error("revision {revision} is not available from {url}")]
    RevisionMissing {
        /// The repository's URL.
        url: String,
        /// The revision as asked for.
        revision: String,
    },
    /// A path that was asked for as a directory is something else.
    #[error("{path:?} is not a directory at revision {revision}")]
    NotADirectory {
        /// The path as asked for.
        path: String,
        /// The revision.
        revision: String,
    },
    /// An object that should be there is not.
    #[error("object {id} not found")]
    ObjectMissing {
        /// Its id.
        id: ObjectId,
    },
    /// A URL, an address or a folder that settings do not allow.
    #[error("refused to use {url}: {detail}")]
    PolicyRefused {
        /// The URL or path, without secrets.
        url: String,
        /// Why, and which setting would allow it.
        detail: String,
    },
    /// More than [`Limits`](crate::Limits) accepts.
    #[error("{what} exceeds the limit {limit} = {max}")]
    LimitExceeded {
        /// The field of [`Limits`](crate::Limits).
        limit: &'static str,
        /// Its value.
        max: u64,
        /// What was too large.
        what: String,
    },
    /// An answer that is not what the protocol says.
    #[error(
        "failed to understand {host}: {detail}; the Git server's answer is damaged or not Git's protocol"
    )]
    Protocol {
        /// Host and port.
        host: String,
        /// What was wrong.
        detail: String,
    },
    /// The server reported an error in Git's own way.
    #[error("{host} reports: {message}")]
    Remote {
        /// Host and port.
        host: String,
        /// Its words, shortened and stripped of control characters.
        message: String,
    },
    /// The repository uses something that is not supported.
    #[error("{url} cannot be read: {detail}")]
    Unsupported {
        /// The repository's URL.
        url: String,
        /// What it is.
        detail: String,
    },
    /// The caller no longer wants the answer.
    #[error("cancelled")]
    Cancelled,
    /// The cache on disk failed.
    #[error("failed to {action} in the Git cache: {detail}")]
    Cache {
        /// What was being done.
        action: &'static str,
        /// What the disk or libgit2 said.
        detail: String,
    },
    /// A local folder could not be read.
    #[error("failed to read {path}")]
    ReadLocal {
        /// The file or folder.
        path: String,
        /// What the file system said.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// A local folder is not there.
    #[error("directory not found: {path}")]
    DirectoryNotFound {
        /// The folder.
        path: String,
    },
    /// A local file changed between listing and reading.
    #[error("local file {path} changed while it was read; run the sync again")]
    ChangedMeanwhile {
        /// The file.
        path: String,
    },
    /// Setting up libgit2 or the HTTP client failed.
    #[error("failed to {action}: {detail}")]
    SetUp {
        /// What was being done.
        action: &'static str,
        /// What went wrong.
        detail: String,
    },
}

impl GitError {
    /// The condition reason that tells a reader what to do about it: `AuthenticationFailed`, `RateLimited`,
    /// `ServiceUnavailable` (try again) or `InvalidSpec` (change the repository's settings or contents).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unauthorized { .. } | Self::Forbidden { .. } => "AuthenticationFailed",
            Self::RateLimited { .. } => "RateLimited",
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Unavailable { .. }
            | Self::Protocol { .. }
            | Self::Remote { .. }
            | Self::Cancelled
            | Self::Cache { .. }
            | Self::ReadLocal { .. }
            | Self::ChangedMeanwhile { .. }
            | Self::ObjectMissing { .. }
            | Self::SetUp { .. } => "ServiceUnavailable",
            Self::NotFound { .. }
            | Self::NotGit { .. }
            | Self::BranchNotFound { .. }
            | Self::RevisionMissing { .. }
            | Self::NotADirectory { .. }
            | Self::PolicyRefused { .. }
            | Self::LimitExceeded { .. }
            | Self::Unsupported { .. }
            | Self::DirectoryNotFound { .. } => "InvalidSpec",
        }
    }

    /// The HTTP status that a sub-resource or a test result reports it with.
    pub fn http_code(&self) -> u16 {
        match self {
            Self::Unauthorized { .. } => 401,
            Self::Forbidden { .. } => 403,
            Self::NotFound { .. } | Self::RevisionMissing { .. } | Self::ObjectMissing { .. } => 404,
            Self::LimitExceeded { .. } => 413,
            Self::RateLimited { .. } => 429,
            Self::NotGit { .. }
            | Self::BranchNotFound { .. }
            | Self::NotADirectory { .. }
            | Self::PolicyRefused { .. }
            | Self::Unsupported { .. }
            | Self::DirectoryNotFound { .. } => 400,
            Self::ChangedMeanwhile { .. } => 409,
            Self::Cache { .. } | Self::ReadLocal { .. } | Self::SetUp { .. } => 500,
            Self::Protocol { .. } | Self::Remote { .. } => 502,
            Self::Unreachable { .. } | Self::Unavailable { .. } | Self::Cancelled => 503,
            Self::Timeout { .. } => 504,
        }
    }

    /// Whether the same call may work later with nothing changed by anyone.
    pub fn is_transient(&self) -> bool {
        matches!(self.reason(), "ServiceUnavailable" | "RateLimited")
    }

    pub(crate) fn cache(action: &'static str, error: impl std::fmt::Display) -> Self {
        Self::Cache { action, detail: printable(&error.to_string(), 300) }
    }
}
