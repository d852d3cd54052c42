//! Why there is no access token.

use std::{sync::Arc, time::Duration};

use http::StatusCode;
use tower::BoxError;

/// Why a token exchange failed. Clones share the cause: everybody who waited for one exchange gets the same error.
/// No variant holds a token, and URLs are redacted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExchangeError {
    /// The exchange does not know the system token.
    #[error(
        "token exchange {url} refused the system token (401): {message}; \
         check token in [grpc_client_authentication], or --token"
    )]
    Unauthorized {
        /// The exchange.
        url: String,
        /// Its own words.
        message: String,
    },
    /// The system token may not have what was asked for.
    #[error(
        "token exchange {url} does not grant {audiences} with this system token (403): {message}; \
         allow the audience and the namespace for this token, or use another token"
    )]
    Forbidden {
        /// The exchange.
        url: String,
        /// What was asked for.
        audiences: String,
        /// Its own words.
        message: String,
    },
    /// Any other refusal; asking again would not help.
    #[error("token exchange {url} answered {status}: {message}; check token_exchange_url")]
    Refused {
        /// The exchange.
        url: String,
        /// The answer's status.
        status: StatusCode,
        /// Its own words.
        message: String,
    },
    /// The exchange is overloaded or broken, and was so at every try.
    #[error("token exchange {url} is not available: it answered {status} at {attempts} tries: {message}")]
    Unavailable {
        /// The exchange.
        url: String,
        /// The last answer's status.
        status: StatusCode,
        /// How often it was asked.
        attempts: u32,
        /// Its own words.
        message: String,
    },
    /// The exchange could not be reached at any try.
    #[error(
        "failed to reach token exchange {url} at {attempts} tries; check token_exchange_url and that it runs"
    )]
    Unreachable {
        /// The exchange.
        url: String,
        /// How often it was tried.
        attempts: u32,
        /// The last failure.
        #[source]
        source: Arc<BoxError>,
    },
    /// The exchange's certificate is not one that we trust.
    #[error(
        "token exchange {url} is not trusted ({reason}): set tls_ca_file to the CA that signed its certificate, \
         or tls_insecure = true to accept any (development only; verified is the default)"
    )]
    UntrustedServer {
        /// The exchange.
        url: String,
        /// What is wrong with its certificate.
        reason: String,
    },
    /// The exchange took too long.
    #[error("token exchange {url} did not answer within {after:?}")]
    TimedOut {
        /// The exchange.
        url: String,
        /// How long was waited.
        after: Duration,
    },
    /// The exchange answered something that holds no token.
    #[error("token exchange {url} gave an answer that cannot be read: {reason}; check token_exchange_url")]
    Garbage {
        /// The exchange.
        url: String,
        /// What is wrong with it. Never a part of the answer, which may hold a token.
        reason: String,
    },
    /// Asked for a token without saying for what.
    #[error("failed to exchange a token: no audience was named")]
    NoAudience,
    /// No system token is configured.
    #[error("missing required token: set token in [grpc_client_authentication], or --token")]
    MissingToken,
    /// No exchange is configured.
    #[error(
        "missing required token exchange url: set token_exchange_url in [grpc_client_authentication], \
         or --token-exchange-url"
    )]
    MissingUrl,
    /// The exchange's URL is not one.
    #[error("failed to use token exchange URL {url}: it is no http or https URL")]
    InvalidUrl {
        /// The URL, redacted.
        url: String,
    },
    /// The system token cannot be sent in a header.
    #[error("failed to use the system token: it has characters that no header can carry")]
    InvalidToken,
    /// The TLS options cannot be used.
    #[error("failed to set up TLS for the token exchange")]
    Tls(#[source] Arc<super::TlsError>),
    /// The process is ending.
    #[error("the token exchange was interrupted")]
    Interrupted,
}

impl ExchangeError {
    /// Whether the same request may succeed later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. } | Self::Unreachable { .. } | Self::TimedOut { .. } | Self::Interrupted
        )
    }
}
