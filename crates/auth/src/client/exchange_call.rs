//! One exchange over the wire: tries, back-off, deadline, and the reading of answers.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use backon::{ExponentialBuilder, Retryable as _};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::time::Instant;
use tower::{BoxError, ServiceExt as _, util::BoxCloneSyncService};
use windlass_http_client::printable;

use super::{
    exchange_error::ExchangeError,
    transport::{TlsFailure, tls_failure},
};
use crate::Now;

/// Carries requests to the exchange: sockets, or a router in this process.
pub type ExchangeTransport = BoxCloneSyncService<Request<Body>, Response<Body>, BoxError>;

const ATTEMPTS: u32 = 3;
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// A token is used up this long before it expires, so that none expires on its way.
const EXPIRY_MARGIN: Duration = Duration::from_secs(15);
/// A token is renewed behind the scenes when this share of its time is left: 1/4.
const REFRESH_SHARE: u32 = 4;
const MAX_ANSWER: usize = 1024 * 1024;
const MAX_MESSAGE: usize = 256;

/// What every exchange of one client has in common.
pub(super) struct Caller {
    pub(super) transport: ExchangeTransport,
    pub(super) uri: Uri,
    /// The URL for messages.
    pub(super) url: String,
    pub(super) authorization: HeaderValue,
    pub(super) namespace: String,
    pub(super) attempt_timeout: Duration,
    pub(super) deadline: Duration,
    pub(super) now: Now,
}

/// A token and how long it serves.
#[derive(Clone, Debug)]
pub(super) struct Fresh {
    pub(super) token: SecretString,
    pub(super) obtained: Instant,
    /// `None` for a token whose expiry cannot be read: it is used once.
    pub(super) serves: Option<Serves>,
}

/// On the monotonic clock, which a change of the wall clock does not move.
#[derive(Clone, Copy, Debug)]
pub(super) struct Serves {
    pub(super) refresh_at: Instant,
    pub(super) until: Instant,
}

enum Attempt {
    Final(ExchangeError),
    Retry(Failure),
}

enum Failure {
    Network(BoxError),
    Status(StatusCode, String),
    Timeout,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    data: Option<AnswerData>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Deserialize)]
struct AnswerData {
    #[serde(default)]
    token: Option<String>,
}

impl Caller {
    /// Asks until there is a token, a refusal, no try left, or the deadline passed.
    pub(super) async fn exchange(&self, audiences: &[String]) -> Result<Fresh, ExchangeError> {
        tokio::time::timeout(self.deadline, self.attempts(audiences))
            .await
            .unwrap_or_else(|_| Err(ExchangeError::TimedOut { url: self.url.clone(), after: self.deadline }))
    }

    async fn attempts(&self, audiences: &[String]) -> Result<Fresh, ExchangeError> {
        let body = serde_json::json!({"namespace": self.namespace, "audiences": audiences}).to_string();
        // With jitter, so that replicas that failed together do not come back together.
        let delays = ExponentialBuilder::new()
            .with_min_delay(BACKOFF_MIN)
            .with_max_delay(BACKOFF_MAX)
            .with_max_times(ATTEMPTS as usize - 1)
            .with_jitter();
        let attempt = || self.attempt(audiences, Bytes::from(body.clone()));
        let obtained = attempt
            .retry(delays)
            .sleep(tokio::time::sleep)
            .when(|failed| matches!(failed, Attempt::Retry(_)))
            .await;
        obtained.map_err(|failed| match failed {
            Attempt::Final(error) => error,
            Attempt::Retry(failure) => self.exhausted(failure),
        })
    }

    fn exhausted(&self, failure: Failure) -> ExchangeError {
        let url = self.url.clone();
        match failure {
            Failure::Network(error) => {
                ExchangeError::Unreachable { url, attempts: ATTEMPTS, source: Arc::new(error) }
            }
            Failure::Status(status, message) => {
                ExchangeError::Unavailable { url, status, attempts: ATTEMPTS, message }
            }
            Failure::Timeout => ExchangeError::TimedOut { url, after: self.attempt_timeout },
        }
    }

    async fn attempt(&self, audiences: &[String], body: Bytes) -> Result<Fresh, Attempt> {
        let obtained = Instant::now();
        let answer = tokio::time::timeout(self.attempt_timeout, self.send(body));
        let (status, body) = match answer.await {
            Err(_) => return Err(Attempt::Retry(Failure::Timeout)),
            Ok(Err(error)) => return Err(self.network(error)),
            Ok(Ok(answer)) => answer,
        };
        let answer = serde_json::from_slice::<Answer>(&body);
        if status == StatusCode::OK {
            return self.read(answer, obtained).map_err(Attempt::Final);
        }
        let message = answer.ok().and_then(|answer| answer.error).filter(|message| !message.is_empty());
        let message = message.map_or_else(|| status.to_string(), |message| printable(&message, MAX_MESSAGE));
        let url = self.url.clone();
        Err(match status {
            StatusCode::UNAUTHORIZED => Attempt::Final(ExchangeError::Unauthorized { url, message }),
            StatusCode::FORBIDDEN => {
                Attempt::Final(ExchangeError::Forbidden { url, audiences: audiences.join(", "), message })
            }
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                Attempt::Retry(Failure::Status(status, message))
            }
            _ => Attempt::Final(ExchangeError::Refused { url, status, message }),
        })
    }

    async fn send(&self, body: Bytes) -> Result<(StatusCode, Bytes), BoxError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header(header::AUTHORIZATION, self.authorization.clone())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json")
            .header(header::USER_AGENT, concat!("windlass/", env!("CARGO_PKG_VERSION")))
            .header("x-org-id", "0")
            .header("x-realms", r#"[{"type":"system","identifier":"system"}]"#)
            .body(Body::from(body))?;
        let answer = self.transport.clone().oneshot(request).await?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_ANSWER).collect().await?.to_bytes();
        Ok((status, body))
    }

    fn network(&self, error: BoxError) -> Attempt {
        let url = self.url.clone();
        if error.is::<http_body_util::LengthLimitError>() {
            return Attempt::Final(ExchangeError::Garbage {
                url,
                reason: format!("it is over {MAX_ANSWER} bytes"),
            });
        }
        match tls_failure(&*error) {
            Some(TlsFailure::Untrusted(reason)) => {
                Attempt::Final(ExchangeError::UntrustedServer { url, reason })
            }
            _ => Attempt::Retry(Failure::Network(error)),
        }
    }

    fn read(&self, answer: serde_json::Result<Answer>, obtained: Instant) -> Result<Fresh, ExchangeError> {
        let garbage =
            |reason: &str| ExchangeError::Garbage { url: self.url.clone(), reason: reason.to_owned() };
        let answer = answer.map_err(|_| garbage("it is not the JSON of a token exchange"))?;
        let token = answer.data.and_then(|data| data.token).map(SecretString::from);
        let token = token.ok_or_else(|| garbage("it has no data.token"))?;
        let raw = token.expose_secret();
        if raw.is_empty() || HeaderValue::from_str(raw).is_err() {
            return Err(garbage("its data.token cannot be sent in a header"));
        }
        let serves = expiry(raw).map(|expiry| {
            let left = expiry.duration_since((self.now)());
            let left = Duration::try_from(left).unwrap_or_default().saturating_sub(EXPIRY_MARGIN);
            Serves {
                refresh_at: obtained + left.saturating_sub(left / REFRESH_SHARE),
                until: obtained + left,
            }
        });
        Ok(Fresh { token, obtained, serves })
    }
}

/// The expiry that a token claims. Not verified: we only want to know when to ask again.
fn expiry(token: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Expiry {
        exp: i64,
    }
    let mut parts = token.split('.');
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    Timestamp::from_second(serde_json::from_slice::<Expiry>(&claims).ok()?.exp).ok()
}
