//! What can go wrong with a registry, in words that a user can act on.

use std::time::Duration;

/// Why a registry could not be read. Messages name the host and the object, never a secret, and contain no control
/// character from the other side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OciError {
    /// No connection: name not found, refused, TLS not trusted.
    #[error("failed to reach {host}: {detail}; check the URL, the network and the registry's certificate")]
    Unreachable {
        /// Host and port.
        host: String,
        /// What the network said.
        detail: String,
    },
    /// Something took longer than its deadline.
    #[error(
        "failed to read {what} from {host} within {after:?}; the registry is slow, or the deadline too short"
    )]
    Timeout {
        /// Host and port.
        host: String,
        /// What was being read.
        what: String,
        /// The deadline.
        after: Duration,
    },
    /// 401: who asks is not known.
    #[error("failed to authenticate with {host} for {what}: {}", if *.sent { "the credentials were refused" } else { "it asks for credentials and there are none; add them to Docker's config.json, or name a Secret in the source's secretRef" })]
    Unauthorized {
        /// Host and port.
        host: String,
        /// What was asked for.
        what: String,
        /// Whether credentials were sent.
        sent: bool,
    },
    /// 403: who asks is known and may not.
    #[error("{host} refuses {what}; the credentials need the right to pull")]
    Forbidden {
        /// Host and port.
        host: String,
        /// What was asked for.
        what: String,
    },
    /// 404: not there, or hidden from who asks.
    #[error("{what} not found at {host}; it was deleted, or who asks may not see it")]
    NotFound {
        /// Host and port.
        host: String,
        /// What was asked for.
        what: String,
    },
    /// 429: too many requests.
    #[error("{host} asks to slow down{}", .retry_after.map(|after| format!("; retry after {after:?}")).unwrap_or_default())]
    RateLimited {
        /// Host and port.
        host: String,
        /// What `Retry-After` said.
        retry_after: Option<Duration>,
    },
    /// 5xx, 408: the registry is in trouble.
    #[error("{host} answered HTTP {status} for {what}; the registry is unavailable, try again later")]
    Unavailable {
        /// Host and port.
        host: String,
        /// What was asked for.
        what: String,
        /// The status code.
        status: u16,
        /// What `Retry-After` said.
        retry_after: Option<Duration>,
    },
    /// More than the limit; nothing beyond it was read.
    #[error("{what} is larger than {max} bytes")]
    TooLarge {
        /// What it is.
        what: String,
        /// The limit.
        max: u64,
    },
    /// What came is not what the digest names.
    #[error("{host} answered something else for {what}: its digest is {found}")]
    WrongDigest {
        /// Host and port.
        host: String,
        /// What was asked for.
        what: String,
        /// The digest of what came.
        found: String,
    },
    /// An answer that is not what the protocol says.
    #[error("failed to understand {what} of {host}: {detail}")]
    Malformed {
        /// Host and port.
        host: String,
        /// What was being read.
        what: String,
        /// What was wrong.
        detail: String,
    },
    /// A URL or an address that settings do not allow.
    #[error("refused to connect to {url}: {detail}")]
    Refused {
        /// The URL, without secrets.
        url: String,
        /// Why, and what would allow it.
        detail: String,
    },
    /// A string is no repository, digest or tag.
    #[error("{text:?} is no {what}: {detail}")]
    Invalid {
        /// The string, shortened.
        text: String,
        /// What it should be.
        what: &'static str,
        /// What is wrong with it.
        detail: String,
    },
    /// Docker's configuration, a pull secret or a credential helper is of no use.
    #[error("failed to read credentials from {place}: {detail}")]
    ReadCredentials {
        /// The file, Secret or helper.
        place: String,
        /// What is wrong; no part of a secret.
        detail: String,
    },
    /// The HTTP client could not be set up.
    #[error("failed to set up the registry client: {detail}")]
    SetUp {
        /// What went wrong.
        detail: String,
    },
}

impl OciError {
    /// Whether the same call may work later with nothing changed by anyone.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. }
                | Self::Timeout { .. }
                | Self::RateLimited { .. }
                | Self::Unavailable { .. }
        )
    }

    /// How long the registry wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Unavailable { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
