//! What can go wrong, in words that a user can act on.

use std::time::Duration;

use windlass_http_client::printable;

use crate::{Limits, ObjectId};

/// Why a repository could not be read or written. Messages name the host or the object, never a secret (what a server
/// echoes of one is left out), and never contain a control character from the other side.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// No connection: name not found, refused, TLS not trusted.
    #[error(
        "failed to reach {host}: {detail}; check the URL, the network and the server's certificate, whose authority git_ca_file may name"
    )]
    Unreachable {
        /// Host and port.
        host: String,
        /// What the network said.
        detail: String,
    },
    /// Something took longer than its deadline.
    #[error(
        "failed to {what} {host} within {after:?}; the server is slow, or the deadline too short (git_timeout, git_fetch_timeout)"
    )]
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
    /// An SSH key, or the hosts that are known with it, are of no use.
    #[error("failed to use the SSH key: {detail}")]
    SshIdentity {
        /// What is wrong with it.
        detail: String,
    },
    /// The server takes another key than the one that it was shown.
    #[error(
        "failed to authenticate with {host} as {user:?}: the SSH key was refused; add its public half on the server"
    )]
    SshKeyRefused {
        /// Host and port.
        host: String,
        /// As whom.
        user: String,
    },
    /// The server is not who it should be.
    #[error("failed to verify the host key of {host}: {detail}")]
    HostKey {
        /// Host and port.
        host: String,
        /// What is wrong with it.
        detail: String,
    },
    /// 403: who asks is known and may not.
    #[error("permission denied by {host}; the token needs read access to the repository's contents")]
    Forbidden {
        /// Host and port.
        host: String,
    },
    /// 403 to a push: who asks is known and may not write.
    #[error("permission denied by {host}; the token needs write access to the repository's contents")]
    PushDenied {
        /// Host and port.
        host: String,
    },
    /// A ref is not where the caller expected it: somebody else was faster.
    #[error(
        "failed to push to {reference} of {url}: it is at {}, not at {}; build on what is there now and push again",
        at(*.actual),
        at(*.expected)
    )]
    RefMoved {
        /// The repository's URL.
        url: String,
        /// The ref's full name.
        reference: String,
        /// Where it was expected; nothing if it was expected not to exist.
        expected: Option<ObjectId>,
        /// Where it is; nothing if it does not exist.
        actual: Option<ObjectId>,
    },
    /// The server did not take a push: a hook, a protected branch, a quota.
    #[error(
        "{host} refused to update {reference}: {reason}{}{messages}",
        if .messages.is_empty() { "" } else { "; it says: " }
    )]
    PushRefused {
        /// Host and port.
        host: String,
        /// The ref's full name.
        reference: String,
        /// The server's reason, such as `pre-receive hook declined`.
        reason: String,
        /// What the server and its hooks wrote besides, the end of it, in one line.
        messages: String,
    },
    /// A push was sent, and neither its answer nor the ref tells whether it was taken. Pushing the same commit again is
    /// safe.
    #[error("failed to learn whether {host} updated {reference}: {detail}; push the same commit again")]
    PushUnanswered {
        /// Host and port.
        host: String,
        /// The ref's full name.
        reference: String,
        /// What became of the answer.
        detail: String,
    },
    /// A change that cannot be made to a tree, or a ref or a commit that cannot be.
    #[error("failed to change {path:?}: {detail}")]
    InvalidChange {
        /// The path, or the ref.
        path: String,
        /// What is wrong.
        detail: String,
    },
    /// A commit that is to be signed cannot be, with the key that there is.
    #[error("failed to sign the commit: {detail}; see secure.commitSigningKey and spec.commit.signingMethod")]
    Signing {
        /// What is wrong with the key.
        detail: String,
    },
    /// A file that is to be changed is not there.
    #[error("file not found: {path:?}")]
    FileNotFound {
        /// The path.
        path: String,
    },
    /// The answer comes, but too slowly to wait for.
    #[error(
        "failed to {what} {host}: it moves less than {least} bytes a second; the connection is slow, or \
         git_min_throughput too high"
    )]
    TooSlow {
        /// Host and port.
        host: String,
        /// What was being done.
        what: &'static str,
        /// The least bytes a second.
        least: u64,
    },
    /// All requests that may be sent to a host at a time are under way.
    #[error(
        "too many requests to {host} are under way or were sent; it is slow, or git_max_requests_per_host or git_requests_per_second too low; try again later"
    )]
    HostBusy {
        /// Host and port.
        host: String,
    },
    /// A commit or a tree names something that it must not.
    #[error("the repository's contents are damaged: {detail}; look at them with git fsck")]
    Damaged {
        /// Which object, and what is wrong with it.
        detail: String,
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
    /// The repository has no branch at all.
    #[error(
        "{url} is empty; push a first commit, as by `git commit --allow-empty --message Begin`, and try again"
    )]
    Empty {
        /// The repository's URL.
        url: String,
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
    /// More than [`Limits`] accepts.
    #[error("{what} exceeds the limit {limit} = {max}{}", Limits::raised_by(.limit))]
    LimitExceeded {
        /// The field of [`Limits`].
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
    /// `ServiceUnavailable` (try again) `RepositoryEmpty` (make a first commit) or `InvalidSpec` (change the repository's
    /// settings or contents).
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::PushDenied { .. }
            | Self::SshIdentity { .. }
            | Self::SshKeyRefused { .. } => "AuthenticationFailed",
            Self::RateLimited { .. } => "RateLimited",
            Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::TooSlow { .. }
            | Self::HostBusy { .. }
            | Self::Unavailable { .. }
            | Self::Protocol { .. }
            | Self::Remote { .. }
            | Self::PushUnanswered { .. }
            | Self::Cancelled
            | Self::Cache { .. }
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
            | Self::HostKey { .. }
            | Self::RefMoved { .. }
            | Self::PushRefused { .. }
            | Self::InvalidChange { .. }
            | Self::Signing { .. }
            | Self::FileNotFound { .. }
            | Self::Damaged { .. } => "InvalidSpec",
            Self::Empty { .. } => "RepositoryEmpty",
        }
    }

    /// The HTTP status that a sub-resource or a test result reports it with.
    pub fn http_code(&self) -> u16 {
        match self {
            Self::Unauthorized { .. } | Self::SshKeyRefused { .. } => 401,
            Self::Forbidden { .. } | Self::PushDenied { .. } | Self::PushRefused { .. } => 403,
            Self::NotFound { .. }
            | Self::RevisionMissing { .. }
            | Self::ObjectMissing { .. }
            | Self::FileNotFound { .. } => 404,
            Self::LimitExceeded { .. } => 413,
            Self::Signing { .. } | Self::SshIdentity { .. } => 424,
            Self::RateLimited { .. } => 429,
            Self::NotGit { .. }
            | Self::BranchNotFound { .. }
            | Self::Empty { .. }
            | Self::NotADirectory { .. }
            | Self::PolicyRefused { .. }
            | Self::Unsupported { .. }
            | Self::InvalidChange { .. }
            | Self::Damaged { .. } => 400,
            Self::RefMoved { .. } => 409,
            Self::Cache { .. } | Self::SetUp { .. } => 500,
            Self::Protocol { .. } | Self::Remote { .. } | Self::HostKey { .. } => 502,
            Self::Unreachable { .. } | Self::Unavailable { .. } | Self::HostBusy { .. } | Self::Cancelled => {
                503
            }
            Self::Timeout { .. } | Self::TooSlow { .. } | Self::PushUnanswered { .. } => 504,
        }
    }

    /// Whether the same call may work later with nothing changed by anyone.
    pub fn is_transient(&self) -> bool {
        matches!(self.reason(), "ServiceUnavailable" | "RateLimited")
    }

    /// What the same refusal means to a push.
    pub(crate) fn of_push(self) -> Self {
        match self {
            Self::Forbidden { host } => Self::PushDenied { host },
            other => other,
        }
    }

    /// Whether the server may have acted on a request although its answer is not known.
    pub(crate) fn is_lost_answer(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Timeout { .. }
                | Self::TooSlow { .. }
                | Self::Unavailable { .. }
                | Self::Protocol { .. }
                | Self::NotGit { .. }
                | Self::LimitExceeded { .. }
        )
    }

    pub(crate) fn cache(action: &'static str, error: impl std::fmt::Display) -> Self {
        Self::Cache { action, detail: printable(&error.to_string(), 300) }
    }
}

fn at(id: Option<ObjectId>) -> String {
    id.map_or_else(|| "no commit".to_owned(), |id| id.to_string())
}
