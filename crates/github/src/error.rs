//! What can go wrong when GitHub is called.

use std::fmt;
use std::time::Duration;

use windlass_http_client::SetUpError;

/// Options that no client can be made of. No message holds a secret.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The API's URL.
    #[error(
        "failed to use the URL of GitHub's API: {detail}; write https://api.github.com or https://HOST/api/v3"
    )]
    Url {
        /// What is wrong with it.
        detail: String,
    },
    /// The token.
    #[error("failed to use the token for GitHub: it has characters that no HTTP header can have")]
    Token,
    /// TLS or the system's trust.
    #[error("failed to set up the HTTP client for GitHub")]
    Client {
        /// Why.
        #[source]
        source: SetUpError,
    },
    /// There is no Tokio runtime to call from.
    #[error("failed to set up the client for GitHub: it has to be made within a Tokio runtime")]
    Runtime,
}

/// Why a call of GitHub's API failed. No message holds a secret.
#[derive(Clone, Debug, thiserror::Error)]
#[error("failed to {action} through {host}: {kind}")]
pub struct GithubError {
    /// What was being done; empty until the call that was made is known.
    action: String,
    host: String,
    kind: ErrorKind,
}

/// What kind of failure it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ErrorKind {
    /// No connection, or one that broke; and what the network said.
    #[error("not reachable: {0}")]
    Unreachable(String),
    /// It took longer than this.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The server failed.
    #[error("it answers {status}")]
    Unavailable {
        /// The status, 5xx.
        status: u16,
        /// When the server said to come back.
        retry_after: Option<Duration>,
    },
    /// The rate limit is used up (primary), or GitHub wants fewer requests (secondary).
    #[error("the rate limit is used up for another {} s", retry_after.as_secs())]
    RateLimited {
        /// When to call again.
        retry_after: Duration,
    },
    /// Credentials are missing or refused (401).
    #[error("{caller} is refused ({detail}); {}", caller.renewal())]
    Unauthorized {
        /// Who was refused.
        caller: Caller,
        /// What GitHub said.
        detail: String,
    },
    /// The credentials do not suffice (403).
    #[error("forbidden to {caller} ({detail}){}", needed(needs.as_deref()))]
    Forbidden {
        /// Who was refused.
        caller: Caller,
        /// What GitHub said.
        detail: String,
        /// The permissions that would do, where GitHub names them: `repository_hooks=write`.
        needs: Option<String>,
    },
    /// It is not there, or hidden from these credentials (404, 410, 451).
    #[error("not found{}", caller.visibility())]
    NotFound {
        /// Who called.
        caller: Caller,
    },
    /// What was to be made exists (422).
    #[error("there is one already ({0})")]
    AlreadyExists(String),
    /// GitHub cannot do that with what is there (409, 422): an unknown commit, an empty repository, a bad value.
    #[error("refused ({0})")]
    Unprocessable(String),
    /// The answer makes no sense; and why.
    #[error("the answer makes no sense: {0}")]
    Malformed(String),
    /// It has more than this many bytes.
    #[error("it is larger than {0} bytes")]
    TooLarge(u64),
    /// The claim to be the App cannot be signed.
    #[error("the App's key cannot sign: {0}")]
    Sign(String),
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Nobody.
    Anonymous,
    /// A token's owner.
    Token,
    /// An App.
    App,
    /// An App's installation.
    Installation,
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "a request without credentials",
            Self::Token => "the token",
            Self::App => "the App",
            Self::Installation => "the App's installation",
        })
    }
}

impl Caller {
    fn renewal(self) -> &'static str {
        match self {
            Self::Anonymous => "give a token or an App",
            Self::App => "check the App's ID and private key, and this machine's clock",
            Self::Token | Self::Installation => "it may have expired or been revoked",
        }
    }

    fn visibility(self) -> &'static str {
        match self {
            Self::Anonymous => "; if the repository is private, give a token or an App",
            Self::Token => "; the repository could be private: may the token read it?",
            Self::Installation => "; the repository could be private: may the App's installation read it?",
            Self::App => "; is the App installed there?",
        }
    }
}

fn needed(needs: Option<&str>) -> String {
    needs.map(|needs| format!("; it needs {needs}")).unwrap_or_default()
}

impl GithubError {
    /// A failure at `host` (`host:port`) of a call that is not known yet.
    pub(crate) fn new(host: &str, kind: ErrorKind) -> Self {
        Self { action: String::new(), host: host.to_owned(), kind }
    }

    /// It happened while `action` was being done, unless something within that failed.
    pub(crate) fn during(mut self, action: &str) -> Self {
        if self.action.is_empty() {
            action.clone_into(&mut self.action);
        }
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }

    /// Whether the next attempt may fare better, without anybody's doing.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Unreachable(_)
                | ErrorKind::Timeout(_)
                | ErrorKind::Unavailable { .. }
                | ErrorKind::RateLimited { .. }
        )
    }

    /// When the server said to call again.
    pub fn retry_after(&self) -> Option<Duration> {
        match &self.kind {
            ErrorKind::RateLimited { retry_after } => Some(*retry_after),
            ErrorKind::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
