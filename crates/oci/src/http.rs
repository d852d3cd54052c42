//! The HTTP client under the verbs: addresses, redirects, deadlines and caps of every request.

use std::collections::HashMap;
use std::error::Error as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use reqwest::redirect;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use url::Url;

use crate::address::{self, AddressRefused, JudgingResolver};
use crate::error::printable;
use crate::repository::is_loopback;
use crate::{Deadlines, OciError};

const AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));
/// Redirects of one request.
const MAX_REDIRECTS: usize = 5;
/// The longest that a registry can have itself left alone with one answer.
const MAX_HELD: Duration = Duration::from_hours(1);
/// Registries that are left alone at a time, beyond which the word of the oldest is forgotten.
const MAX_HOSTS: usize = 1_024;

/// Two keep-alive clients: one for this machine, and one that uses the proxies which the environment names.
pub(crate) struct Http {
    general: reqwest::Client,
    loopback: reqwest::Client,
    deadlines: Deadlines,
    permits: Arc<Semaphore>,
    sent: AtomicU64,
    /// Until when a registry asked to be left alone.
    held: Mutex<HashMap<String, Instant>>,
}

/// One request.
pub(crate) struct Ask<'a> {
    /// What is asked for, for messages.
    pub(crate) what: &'a str,
    pub(crate) url: Url,
    pub(crate) accept: Option<&'static str>,
    /// Sent to the URL's own origin only.
    pub(crate) authorization: Option<&'a HeaderValue>,
    /// A form to post.
    pub(crate) form: Option<String>,
    /// Whether the registry may be spoken to without TLS.
    pub(crate) plain: bool,
    /// When there must be an answer.
    pub(crate) until: Instant,
}

/// The head of an answer, whose body was not read yet.
pub(crate) struct Answer {
    response: reqwest::Response,
    host: String,
    what: String,
    until: Instant,
    deadlines: Deadlines,
    _permit: OwnedSemaphorePermit,
}

impl Http {
    pub(crate) fn new(
        deadlines: Deadlines,
        concurrency: usize,
        ca_bundle: Option<&Path>,
    ) -> Result<Self, OciError> {
        let roots = ca_bundle.map(certificates).transpose()?.unwrap_or_default();
        let builder = || {
            reqwest::Client::builder()
                .redirect(redirect::Policy::none())
                .referer(false)
                .connect_timeout(deadlines.connect)
                .pool_idle_timeout(Duration::from_mins(1))
                .dns_resolver(Arc::new(JudgingResolver))
                .tls_certs_merge(roots.clone())
        };
        let set_up = |error: reqwest::Error| OciError::SetUp { detail: chain(&error) };
        Ok(Self {
            general: builder().build().map_err(set_up)?,
            loopback: builder().no_proxy().build().map_err(set_up)?,
            deadlines,
            permits: Arc::new(Semaphore::new(concurrency.max(1))),
            sent: AtomicU64::new(0),
            held: Mutex::default(),
        })
    }

    /// Requests sent, redirects' included.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends a request and follows redirects to its answer. Of a redirect to another origin the credentials know
    /// nothing, and it never leads from TLS to none, or to this machine from elsewhere.
    pub(crate) async fn send(&self, ask: Ask<'_>) -> Result<Answer, OciError> {
        let timeout = || self.timeout(&ask.url, ask.what);
        let permit = tokio::time::timeout_at(ask.until, Arc::clone(&self.permits).acquire_owned());
        let permit = permit.await.map_err(|_| timeout())?.map_err(|_| timeout())?;
        let mut url = ask.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            judge_url(&url, &ask)?;
            self.check_held(&url)?;
            let response = self.one(&url, &ask).await?;
            tracing::debug!(
                host = url.host_str(),
                path = url.path(),
                status = response.status().as_u16(),
                "registry request"
            );
            if response.status() == StatusCode::TOO_MANY_REQUESTS {
                self.hold(&url, retry_after(response.headers()));
            }
            if !response.status().is_redirection() || ask.form.is_some() {
                let (host, what) = (authority(&url), ask.what.to_owned());
                let deadlines = self.deadlines.clone();
                return Ok(Answer { response, host, what, until: ask.until, deadlines, _permit: permit });
            }
            let target = response.headers().get(LOCATION).and_then(|target| target.to_str().ok());
            url = target.and_then(|target| url.join(target).ok()).ok_or_else(|| OciError::Malformed {
                host: authority(&url),
                what: ask.what.to_owned(),
                detail: "a redirect without a target".into(),
            })?;
        }
        let detail = format!("more than {MAX_REDIRECTS} redirects");
        Err(OciError::Malformed { host: authority(&ask.url), what: ask.what.to_owned(), detail })
    }

    async fn one(&self, url: &Url, ask: &Ask<'_>) -> Result<reqwest::Response, OciError> {
        let client = if is_loopback(url) { &self.loopback } else { &self.general };
        let method = if ask.form.is_some() { Method::POST } else { Method::GET };
        let mut request = client.request(method, url.clone()).header(USER_AGENT, AGENT);
        if let Some(accept) = ask.accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(authorization) = ask.authorization.filter(|_| url.origin() == ask.url.origin()) {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some(form) = &ask.form {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.clone());
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        let head = Instant::now() + self.deadlines.connect + self.deadlines.read;
        let response = tokio::time::timeout_at(head.min(ask.until), request.send()).await;
        response.map_err(|_| self.timeout(url, ask.what))?.map_err(|error| self.transport(url, ask, &error))
    }

    fn timeout(&self, url: &Url, what: &str) -> OciError {
        OciError::Timeout { host: authority(url), what: what.to_owned(), after: self.deadlines.total }
    }

    fn transport(&self, url: &Url, ask: &Ask<'_>, error: &reqwest::Error) -> OciError {
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(refused) = cause.downcast_ref::<AddressRefused>() {
                return OciError::Refused { url: shown(url), detail: refused.to_string() };
            }
            source = cause.source();
        }
        if error.is_timeout() {
            return self.timeout(url, ask.what);
        }
        OciError::Unreachable { host: authority(url), detail: chain(error) }
    }

    /// Sends nothing to who asked to be left alone.
    fn check_held(&self, url: &Url) -> Result<(), OciError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let host = authority(url);
        let Some(until) = held.get(&host).copied() else { return Ok(()) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            held.remove(&host);
            return Ok(());
        }
        Err(OciError::RateLimited { host, retry_after: Some(left) })
    }

    fn hold(&self, url: &Url, after: Option<Duration>) {
        let Some(after) = after else { return };
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        if held.len() >= MAX_HOSTS {
            held.retain(|_, until| *until > now);
        }
        if held.len() < MAX_HOSTS {
            held.insert(authority(url), now + after.min(MAX_HELD));
        }
    }
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The whole body, if it has at most `max` bytes. Of a larger one nothing is read when the registry says how large
    /// it is, and no more than `max` when it does not.
    pub(crate) async fn body(mut self, max: u64) -> Result<Bytes, OciError> {
        let too_large = |what: &str| OciError::TooLarge { what: what.to_owned(), max };
        let announced = self.response.content_length();
        if announced.is_some_and(|length| length > max) {
            return Err(too_large(&self.what));
        }
        let mut body = Vec::with_capacity(usize::try_from(announced.unwrap_or(0)).unwrap_or(0));
        loop {
            let until = (Instant::now() + self.deadlines.read).min(self.until);
            let piece = tokio::time::timeout_at(until, self.response.chunk()).await;
            let piece = piece.map_err(|_| OciError::Timeout {
                host: self.host.clone(),
                what: self.what.clone(),
                after: self.deadlines.total,
            })?;
            let piece = piece.map_err(|error| OciError::Unreachable {
                host: self.host.clone(),
                detail: format!("the answer ended early after {} bytes: {}", body.len(), chain(&error)),
            })?;
            let Some(piece) = piece else { return Ok(body.into()) };
            if (body.len() + piece.len()) as u64 > max {
                return Err(too_large(&self.what));
            }
            body.extend_from_slice(&piece);
        }
    }

    /// The answer, if it is a good one; 401 included, whose meaning is the caller's to know.
    pub(crate) fn judged(self) -> Result<Self, OciError> {
        let (host, what) = (self.host.clone(), self.what.clone());
        let retry_after = retry_after(self.headers());
        Err(match self.status() {
            StatusCode::OK | StatusCode::UNAUTHORIZED => return Ok(self),
            StatusCode::FORBIDDEN => OciError::Forbidden { host, what },
            StatusCode::NOT_FOUND => OciError::NotFound { host, what },
            StatusCode::TOO_MANY_REQUESTS => OciError::RateLimited { host, retry_after },
            status if status.is_server_error() || matches!(status.as_u16(), 408 | 499) => {
                OciError::Unavailable { host, what, status: status.as_u16(), retry_after }
            }
            status => OciError::Malformed { host, what, detail: format!("it answers HTTP {status}") },
        })
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn malformed(&self, detail: impl Into<String>) -> OciError {
        malformed(&self.host, &self.what, &detail.into())
    }
}

pub(crate) fn malformed(host: &str, what: &str, detail: &str) -> OciError {
    OciError::Malformed { host: host.to_owned(), what: what.to_owned(), detail: printable(detail, 200) }
}

/// Seconds, or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(value).ok()?.timestamp();
    Some(Duration::try_from(date.duration_since(Timestamp::now())).unwrap_or_default())
}

/// `host:port`, for messages and as what is left alone.
pub(crate) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Without what may be secret: a redirect's query is signed.
fn shown(url: &Url) -> String {
    printable(&format!("{}://{}{}", url.scheme(), authority(url), url.path()), 300)
}

fn judge_url(url: &Url, ask: &Ask<'_>) -> Result<(), OciError> {
    let refuse = |detail: &str| Err(OciError::Refused { url: shown(url), detail: detail.to_owned() });
    if let Some(why) = address::refused_url(url) {
        return refuse(why);
    }
    let here = url.origin() == ask.url.origin();
    if !here && is_loopback(url) && !is_loopback(&ask.url) {
        return refuse("another machine redirects to this one");
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if ask.plain && (here || is_loopback(url)) => Ok(()),
        "http" => refuse("it is not https"),
        _ => refuse("its scheme is not supported"),
    }
}

fn certificates(bundle: &Path) -> Result<Vec<reqwest::Certificate>, OciError> {
    let set_up = |detail: String| OciError::SetUp { detail: format!("{}: {detail}", bundle.display()) };
    let pem = std::fs::read(bundle).map_err(|error| set_up(error.to_string()))?;
    let found = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| set_up(chain(&error)))?;
    if found.is_empty() {
        return Err(set_up("it holds no certificate in PEM form".into()));
    }
    Ok(found)
}

/// An error and its causes in one line, without the URL and without repetitions.
fn chain(error: &reqwest::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        source = cause.source();
    }
    if parts.is_empty() {
        // Its own words name the URL, and that of a redirect is signed.
        parts.push("the request failed".into());
    }
    printable(&parts.join(": "), 300)
}
