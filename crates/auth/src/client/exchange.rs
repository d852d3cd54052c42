//! Access tokens, kept fresh.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axum::body::Body;
use futures::{
    FutureExt as _, TryFutureExt as _,
    future::{BoxFuture, Shared},
};
use http::{HeaderValue, Uri};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::{task::AbortHandle, time::Instant};
use tower::{ServiceExt as _, util::BoxCloneSyncService};
use windlass_telemetry::redact_url;

use super::{
    TlsOptions,
    exchange_call::{Caller, ExchangeTransport, Fresh, Serves},
    exchange_error::ExchangeError,
    transport::http_client,
};
use crate::Now;

/// After a failed renewal behind the scenes, the next one waits this long; the token at hand still serves.
const REFRESH_PAUSE: Duration = Duration::from_secs(5);
/// A token that a server refuses is replaced only if it is older than this, so that a server that refuses
/// everything does not turn each request into an exchange.
const REPLACE_AGE: Duration = Duration::from_secs(5);

/// Where and with what to exchange.
#[derive(Clone, Debug)]
pub struct TokenExchangeConfig {
    /// The exchange, for example `http://localhost:6481/sign/access-token`.
    pub url: String,
    /// The system token.
    pub token: SecretString,
    /// Trust in the exchange's server.
    pub tls: TlsOptions,
    /// The namespace that tokens are asked for; `*`, which operators need, by default.
    pub namespace: String,
    /// How long one try may take: 10 s by default.
    pub attempt_timeout: Duration,
    /// How long an exchange may take with all its tries: 30 s by default.
    pub deadline: Duration,
}

impl TokenExchangeConfig {
    /// A configuration with the defaults.
    pub fn new(url: impl Into<String>, token: SecretString) -> Self {
        Self {
            url: url.into(),
            token,
            tls: TlsOptions::default(),
            namespace: "*".to_owned(),
            attempt_timeout: Duration::from_secs(10),
            deadline: Duration::from_secs(30),
        }
    }
}

/// Exchanges a system token for access tokens and keeps them. Clones share the cache.
///
/// Tokens are cached by namespace and audiences, used until 15 s before they expire, and renewed behind the scenes
/// in the last quarter of that time, so that no request waits for an exchange but the first. Callers who want the
/// same token at the same time share one exchange. An exchange runs on when a caller stops waiting for it, at most
/// to its deadline.
#[derive(Clone)]
pub struct TokenExchange {
    inner: Arc<Inner>,
}

struct Inner {
    caller: Caller,
    entries: Mutex<HashMap<String, Entry>>,
}

#[derive(Default)]
struct Entry {
    cached: Option<Fresh>,
    flight: Option<Flight>,
    refresh_after: Option<Instant>,
}

type SharedExchange = Shared<BoxFuture<'static, Result<SecretString, ExchangeError>>>;

struct Flight {
    answer: SharedExchange,
    task: AbortHandle,
}

impl std::fmt::Debug for TokenExchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenExchange").field("url", &self.inner.caller.url).finish_non_exhaustive()
    }
}

impl TokenExchange {
    /// A client of the exchange at `config.url`, over sockets. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ExchangeError`] for an empty token, a missing or invalid URL, or unusable TLS options.
    pub fn new(config: TokenExchangeConfig) -> Result<Self, ExchangeError> {
        let tls = config.tls.client_config().map_err(|error| ExchangeError::Tls(Arc::new(error)))?;
        let client = http_client::<Body>(tls);
        let transport =
            client.map_response(|answer: http::Response<_>| answer.map(Body::new)).map_err(Into::into);
        Self::with_transport(config, BoxCloneSyncService::new(transport), Arc::new(jiff::Timestamp::now))
    }

    /// A client over any transport, such as an [`exchange_router`](crate::exchange_router) in this process.
    /// `config.tls` is not used.
    ///
    /// # Errors
    /// [`ExchangeError`] for an empty token, or a missing or invalid URL.
    pub fn with_transport(
        config: TokenExchangeConfig,
        transport: ExchangeTransport,
        now: Now,
    ) -> Result<Self, ExchangeError> {
        if config.token.expose_secret().is_empty() {
            return Err(ExchangeError::MissingToken);
        }
        if config.url.is_empty() {
            return Err(ExchangeError::MissingUrl);
        }
        let url = redact_url(&config.url);
        let uri = config
            .url
            .parse::<Uri>()
            .ok()
            .filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
            .ok_or_else(|| ExchangeError::InvalidUrl { url: url.clone() })?;
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", config.token.expose_secret()))
            .map_err(|_| ExchangeError::InvalidToken)?;
        authorization.set_sensitive(true);
        let caller = Caller {
            transport,
            uri,
            url,
            authorization,
            namespace: config.namespace,
            attempt_timeout: config.attempt_timeout,
            deadline: config.deadline,
            now,
        };
        Ok(Self { inner: Arc::new(Inner { caller, entries: Mutex::default() }) })
    }

    /// An access token for these audiences; their order does not matter.
    ///
    /// # Errors
    /// [`ExchangeError`] when there is no token at hand and none to be had.
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub async fn token<A: AsRef<str>>(&self, audiences: &[A]) -> Result<SecretString, ExchangeError> {
        let audiences = sorted(audiences)?;
        let answer = {
            let mut entries = self.inner.entries();
            let entry = entries.entry(self.inner.key(&audiences)).or_default();
            let now = Instant::now();
            match &entry.cached {
                Some(Fresh { token, serves: Some(Serves { refresh_at, until }), .. }) if now < *until => {
                    let token = token.clone();
                    if now >= *refresh_at && entry.refresh_after.is_none_or(|after| now >= after) {
                        // Nobody waits for this one; its task runs all the same.
                        drop(self.join(entry, audiences));
                    }
                    return Ok(token);
                }
                _ => self.join(entry, audiences),
            }
        };
        answer.await
    }

    /// An access token in place of `refused`, which a server did not accept. `None` if `refused` is so young that
    /// another would fare no better.
    ///
    /// # Errors
    /// As [`TokenExchange::token`].
    pub async fn replace<A: AsRef<str>>(
        &self,
        audiences: &[A],
        refused: &SecretString,
    ) -> Result<Option<SecretString>, ExchangeError> {
        let sorted = sorted(audiences)?;
        {
            let mut entries = self.inner.entries();
            let entry = entries.entry(self.inner.key(&sorted)).or_default();
            if let Some(cached) = &entry.cached
                && cached.token.expose_secret() == refused.expose_secret()
            {
                if cached.obtained.elapsed() < REPLACE_AGE {
                    return Ok(None);
                }
                entry.cached = None;
            }
        }
        self.token(audiences).await.map(Some)
    }

    /// Joins the exchange that is under way, or starts one.
    fn join(&self, entry: &mut Entry, audiences: Vec<String>) -> SharedExchange {
        if let Some(flight) = entry.flight.as_ref().filter(|flight| !flight.task.is_finished()) {
            return flight.answer.clone();
        }
        let inner = Arc::clone(&self.inner);
        // A task of its own: a caller that stops waiting neither stops it nor leaves others without an answer. It
        // ends by itself, since the exchange has a deadline.
        let task = tokio::spawn(async move {
            let fresh = inner.caller.exchange(&audiences).await;
            inner.settle(&audiences, fresh)
        });
        let abort = task.abort_handle();
        let answer = task.unwrap_or_else(|_| Err(ExchangeError::Interrupted)).boxed().shared();
        entry.flight = Some(Flight { answer: answer.clone(), task: abort });
        answer
    }
}

impl Inner {
    fn entries(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        // Nothing is left half done under the lock.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grafana: authlib's token exchange client; the last part would be a subject token.
    fn key(&self, audiences: &[String]) -> String {
        format!("{}-{}-", self.caller.namespace, audiences.join("-"))
    }

    /// Files the outcome of an exchange.
    fn settle(
        &self,
        audiences: &[String],
        fresh: Result<Fresh, ExchangeError>,
    ) -> Result<SecretString, ExchangeError> {
        let mut entries = self.entries();
        let entry = entries.entry(self.key(audiences)).or_default();
        entry.flight = None;
        match fresh {
            Ok(fresh) => {
                let token = fresh.token.clone();
                entry.refresh_after = None;
                entry.cached = fresh.serves.is_some().then_some(fresh);
                Ok(token)
            }
            Err(error) => {
                entry.refresh_after = Some(Instant::now() + REFRESH_PAUSE);
                if entry.cached.is_some() {
                    tracing::warn!(error = %error, "failed to renew an access token before it expires");
                }
                Err(error)
            }
        }
    }
}

fn sorted<A: AsRef<str>>(audiences: &[A]) -> Result<Vec<String>, ExchangeError> {
    let mut audiences: Vec<String> = audiences.iter().map(|audience| audience.as_ref().to_owned()).collect();
    audiences.sort_unstable();
    audiences.dedup();
    if audiences.is_empty() || audiences.iter().any(String::is_empty) {
        return Err(ExchangeError::NoAudience);
    }
    Ok(audiences)
}
