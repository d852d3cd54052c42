//! What can go wrong when GitHub is asked.

use std::time::Duration;

/// Why GitHub could not be asked, or did not answer what was asked. No message holds a secret.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GithubError {
    /// The client could not be made.
    #[error("failed to {action}: {detail}")]
    SetUp {
        /// What was being done.
        action: &'static str,
        /// What is wrong.
        detail: String,
    },
    /// No connection, or one that broke.
    #[error("failed to {what}: {host} is not reachable: {detail}")]
    Unreachable {
        /// `host:port`.
        host: String,
        /// What was being done.
        what: String,
        /// What the network said.
        detail: String,
    },
    /// It took too long.
    #[error("failed to {what}: no answer of {host} within {after:?}")]
    Timeout {
        /// `host:port`.
        host: String,
        /// What was being done.
        what: String,
        /// The deadline.
        after: Duration,
    },
    /// The server failed.
    #[error("failed to {what}: {host} answers {status}")]
    Unavailable {
        /// `host:port`.
        host: String,
        /// What was being done.
        what: String,
        /// The status, 5xx.
        status: u16,
        /// When the server said to come back.
        retry_after: Option<Duration>,
    },
    /// The rate limit is used up, or GitHub asks for patience (a secondary limit).
    #[error("failed to {what}: the rate limit of {host} is used up for another {} s", retry_after.as_secs())]
    RateLimited {
        /// `host:port`.
        host: String,
        /// What was being done.
        what: String,
        /// When to ask again.
        retry_after: Duration,
    },
    /// Credentials are missing or refused (401).
    #[error("failed to {what}: {host} refuses {who} ({detail}); {}", renew(who))]
    Unauthorized {
        /// `host:port`.
        host: String,
        /// What was being done.
        what: String,
        /// Who was refused: `the token`, `the App`, …
        who: &'static str,
        /// What GitHub said.
        detail: String,
    },
    /// The credentials do not suffice (403).
    #[error(
        "failed to {what}: {host} forbids it to {who} ({detail}); it needs to read the repository's contents"
    )]
    Forbidden {
        /// `host:port`.
        host: String,
        /// What was being done.
        what: String,
        /// Who was refused.
        who: &'static str,
        /// What GitHub said.
        detail: String,
    },
    /// It is not there, or hidden from these credentials (404, 410, 451).
    #[error("failed to {what}: not found on {host}{}", hint(who))]
    NotFound {
        /// `host:port`.
        host: String,
        /// What was being done.
        what: String,
        /// Who asked.
        who: &'static str,
    },
    /// The repository is there, the commit is not (409, 422).
    #[error("failed to {what}: {host} knows no such commit ({detail})")]
    NoSuchCommit {
        /// `host:port`.
        host: String,
        /// What was being done.
        what: String,
        /// What GitHub said.
        detail: String,
    },
    /// The answer makes no sense.
    #[error("failed to {what}: the answer of {host} makes no sense: {detail}")]
    Malformed {
        /// `host:port`.
        host: String,
        /// What was being done.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The answer is larger than it may be.
    #[error("failed to {what}: it is larger than {limit} bytes")]
    TooLarge {
        /// What was being done.
        what: String,
        /// The limit, bytes.
        limit: u64,
    },
}

fn renew(who: &str) -> &'static str {
    match who {
        "nobody" => "give a token or an App",
        "the App" => "check the App's ID and private key, and this machine's clock",
        _ => "it may have expired or been revoked",
    }
}

fn hint(who: &str) -> String {
    match who {
        "nobody" => "; if the repository is private, give a token or an App".to_owned(),
        who => format!("; the repository could be private: may {who} read it?"),
    }
}

impl GithubError {
    /// Whether the next attempt may fare better, without anybody's doing.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Timeout { .. }
                | Self::Unavailable { .. }
                | Self::RateLimited { .. }
        )
    }

    /// When the server said to ask again.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } => Some(*retry_after),
            Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
