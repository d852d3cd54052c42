//! The HTTP client under the verbs: addresses, redirects, TLS and who is left alone.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use url::Url;
use windlass_http_client::{
    Deadline, Deadlines, Failure, PerTls, RetryAfterHosts, SetUpError, Tls, is_loopback, judging_resolver,
    printable, retry_after,
};

use crate::address;
use crate::{OciError, Repository};

/// Redirects of one request.
const MAX_REDIRECTS: usize = 5;

/// What all clients share.
pub(crate) struct Http {
    clients: PerTls<Clients>,
    permits: Arc<Semaphore>,
    sent: AtomicU64,
    /// Registries that asked to be left alone.
    held: RetryAfterHosts,
}

/// Two keep-alive clients: one for this machine, and one that uses the proxies which the environment names.
struct Clients {
    general: reqwest::Client,
    loopback: reqwest::Client,
}

/// What requests are sent with.
#[derive(Clone)]
pub(crate) struct Connections {
    /// To the registry itself.
    registry: Arc<Clients>,
    /// To whom it sends us: the same trust, and no client certificate.
    others: Arc<Clients>,
    /// Of what is trusted and shown.
    pub(crate) fingerprint: Option<[u8; 32]>,
}

/// One request.
pub(crate) struct Request<'a> {
    /// What is asked for, for messages.
    pub(crate) what: &'a str,
    pub(crate) url: Url,
    pub(crate) accept: Option<&'static str>,
    /// Sent to the URL's own origin only.
    pub(crate) authorization: Option<&'a HeaderValue>,
    /// A form to post.
    pub(crate) form: Option<String>,
    /// For whose sake; it says whether a registry may be spoken to without TLS.
    pub(crate) repository: &'a Repository,
    pub(crate) connections: &'a Connections,
    pub(crate) deadline: Deadline,
}

/// The head of an answer, whose body was not read yet.
pub(crate) struct Answer {
    inner: windlass_http_client::Answer,
    url: Url,
    what: String,
    _permit: OwnedSemaphorePermit,
}

impl Http {
    pub(crate) fn new(
        deadlines: &Deadlines,
        concurrency: usize,
        ca_bundle: Option<&Path>,
    ) -> Result<Self, OciError> {
        let tls = ca_bundle.map(Tls::of_bundle).transpose().map_err(set_up)?.unwrap_or_default();
        let connect = deadlines.connect;
        let clients = PerTls::new(tls, move |tls| {
            let resolver = judging_resolver(address::refused);
            let builder = || windlass_http_client::builder(tls, connect).dns_resolver(Arc::clone(&resolver));
            Ok(Clients { general: builder().build()?, loopback: builder().no_proxy().build()? })
        });
        Ok(Self {
            clients: clients.map_err(set_up)?,
            permits: Arc::new(Semaphore::new(concurrency.max(1))),
            sent: AtomicU64::new(0),
            held: RetryAfterHosts::default(),
        })
    }

    /// What requests are sent with that trust and show `tls`, too.
    pub(crate) fn connections(&self, tls: &Tls) -> Result<Connections, OciError> {
        let clients = |tls: &Tls| self.clients.of(tls).map_err(set_up);
        let (registry, others) = (clients(tls)?, clients(&tls.showing_nothing())?);
        Ok(Connections { registry, others, fingerprint: tls.fingerprint() })
    }

    /// Requests sent, redirects' included.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends a request and follows redirects to its answer. Of a redirect to another origin the credentials know
    /// nothing, and it never leads from TLS to none, or to this machine from elsewhere.
    pub(crate) async fn send(&self, wanted: Request<'_>) -> Result<Answer, OciError> {
        let what = wanted.what;
        let permit = wanted.deadline.by_the_end(Arc::clone(&self.permits).acquire_owned()).await;
        let closed = || Failure::Broken("this process ends".to_owned());
        let permit = permit.and_then(|permit| permit.map_err(|_| closed()));
        let permit = permit.map_err(|failure| failed(&wanted.url, what, failure))?;
        let mut url = wanted.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            judge_url(&url, &wanted)?;
            let host = authority(&url);
            if let Some(left) = self.held.left(&host) {
                return Err(OciError::RateLimited { host, retry_after: Some(left) });
            }
            let answer = self.one(&url, &wanted).await.map_err(|failure| failed(&url, what, failure))?;
            let status = answer.status();
            tracing::debug!(host, path = url.path(), status = status.as_u16(), "registry request");
            if status == StatusCode::TOO_MANY_REQUESTS
                && let Some(wait) = retry_after(answer.headers())
            {
                self.held.hold(&host, wait);
            }
            if !status.is_redirection() || wanted.form.is_some() {
                return Ok(Answer { inner: answer, url, what: what.to_owned(), _permit: permit });
            }
            let target = answer.location();
            url = target.ok_or_else(|| malformed(&host, what, "a redirect without a target"))?;
        }
        Err(malformed(&authority(&wanted.url), what, &format!("more than {MAX_REDIRECTS} redirects")))
    }

    async fn one(&self, url: &Url, wanted: &Request<'_>) -> Result<windlass_http_client::Answer, Failure> {
        let is_registry = url.origin() == wanted.repository.base().origin();
        let clients = if is_registry { &wanted.connections.registry } else { &wanted.connections.others };
        let client = if is_loopback(url) { &clients.loopback } else { &clients.general };
        let method = if wanted.form.is_some() { Method::POST } else { Method::GET };
        let mut request = client.request(method, url.clone());
        if let Some(accept) = wanted.accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(authorization) = wanted.authorization.filter(|_| url.origin() == wanted.url.origin()) {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        if let Some(form) = &wanted.form {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form.clone());
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        windlass_http_client::send(request, &wanted.deadline).await
    }
}

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.inner.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.inner.headers()
    }

    /// The whole body, if it has at most `max` bytes.
    pub(crate) async fn body(self, max: u64) -> Result<Bytes, OciError> {
        self.inner.body(max).await.map_err(|failure| failed(&self.url, &self.what, failure))
    }

    /// The answer, if it is a good one; 401 included, whose meaning is the caller's to know.
    pub(crate) fn judged(self) -> Result<Self, OciError> {
        let (host, what) = (self.host(), self.what.clone());
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

    pub(crate) fn host(&self) -> String {
        authority(&self.url)
    }

    pub(crate) fn malformed(&self, detail: impl Into<String>) -> OciError {
        malformed(&self.host(), &self.what, &detail.into())
    }
}

fn set_up(error: SetUpError) -> OciError {
    OciError::SetUp { detail: error.to_string() }
}

fn failed(url: &Url, what: &str, failure: Failure) -> OciError {
    let (host, what) = (authority(url), what.to_owned());
    match failure {
        Failure::Refused(detail) => OciError::Refused { url: shown(url), detail },
        Failure::Timeout(after) => OciError::Timeout { host, what, after },
        Failure::Broken(detail) => OciError::Unreachable { host, detail },
        Failure::TooLarge(max) => OciError::TooLarge { what, max },
    }
}

pub(crate) fn malformed(host: &str, what: &str, detail: &str) -> OciError {
    OciError::Malformed { host: host.to_owned(), what: what.to_owned(), detail: printable(detail, 200) }
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

fn judge_url(url: &Url, wanted: &Request<'_>) -> Result<(), OciError> {
    let refuse = |detail: &str| Err(OciError::Refused { url: shown(url), detail: detail.to_owned() });
    if let Some(why) = address::refused_url(url) {
        return refuse(why);
    }
    let here = url.origin() == wanted.url.origin();
    if !here && is_loopback(url) && !is_loopback(&wanted.url) {
        return refuse("another machine redirects to this one");
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if wanted.repository.is_insecure() && (here || is_loopback(url)) => Ok(()),
        "http" => refuse("it is not https; add the registry to allowed_registries to allow that"),
        _ => refuse("its scheme is not supported"),
    }
}
