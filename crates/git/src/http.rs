//! The HTTP client under the protocol: policy, credentials, deadlines, caps and cancellation of every request.

use std::collections::HashMap;
use std::error::Error as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use http::{Method, StatusCode};
use reqwest::redirect;
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::error::printable;
use crate::policy::{self, AddressRefused, Origin, UrlPolicy};
use crate::{Credentials, Deadlines, GitError};

/// Some servers show their web pages to anything that does not begin with `git/`.
const AGENT: &str = concat!("git/2.0 (windlass ", env!("CARGO_PKG_VERSION"), ")");

/// Sends requests under the policy and the deadlines.
pub(crate) struct HttpClient {
    /// Those of remotes that bring no authorities of their own.
    usual: Arc<Clients>,
    /// Those of remotes that do, by a hash of these.
    own: Mutex<HashMap<[u8; 32], Weak<Clients>>>,
    roots: Vec<reqwest::Certificate>,
    policy: UrlPolicy,
    deadlines: Deadlines,
    sent: AtomicU64,
}

/// One keep-alive client for public addresses, and one for origins that settings allow to be anything. Proxy
/// settings of the environment are not used: a proxy would connect to addresses that nobody judged.
pub(crate) struct Clients {
    public: reqwest::Client,
    lifted: reqwest::Client,
}

impl Clients {
    fn new(deadlines: &Deadlines, roots: &[reqwest::Certificate]) -> Result<Self, GitError> {
        let builder = || {
            reqwest::Client::builder()
                .no_proxy()
                .redirect(redirect::Policy::none())
                .referer(false)
                .connect_timeout(deadlines.connect)
                .pool_idle_timeout(Duration::from_mins(1))
                .tls_certs_merge(roots.to_vec())
        };
        let set_up = |error: reqwest::Error| GitError::SetUp {
            action: "set up the HTTP client for Git",
            detail: chain(&error),
        };
        let public = builder().dns_resolver(policy::public_resolver()).build().map_err(set_up)?;
        Ok(Self { public, lifted: builder().build().map_err(set_up)? })
    }
}

/// What is being done with certificates, for messages.
const BUNDLE: &str = "read the CA bundle";

/// What all requests of one operation share.
pub(crate) struct Call<'a> {
    /// The repository's URL.
    pub(crate) url: &'a Url,
    /// Who asks.
    pub(crate) credentials: Option<&'a Credentials>,
    /// What to send requests with.
    pub(crate) clients: &'a Clients,
    /// What is being done, for messages: `read the refs of`.
    pub(crate) what: &'static str,
    /// How long it may take as a whole.
    pub(crate) limit: Duration,
    /// When that is over.
    pub(crate) until: Instant,
    /// The caller's wish to stop.
    pub(crate) cancel: &'a CancellationToken,
    /// Requests sent to this remote.
    pub(crate) counter: &'a AtomicU64,
}

/// A request to Git's smart HTTP.
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) body: Bytes,
    /// Whether to ask for protocol v2.
    pub(crate) v2: bool,
    /// The content type that the answer must have.
    pub(crate) expect: &'static str,
    /// Bytes that the answer may have, and the limit that says so.
    pub(crate) cap: (&'static str, u64),
}

/// What came back.
pub(crate) enum Reply<'a> {
    /// 200 with the right content type.
    Answer(Answer<'a>),
    /// A redirect to this URL, not followed.
    Redirect(Url),
}

impl HttpClient {
    pub(crate) fn new(
        policy: UrlPolicy,
        deadlines: Deadlines,
        ca_bundle: Option<&Path>,
    ) -> Result<Self, GitError> {
        let roots = ca_bundle.map(read_certificates).transpose()?.unwrap_or_default();
        let usual = Arc::new(Clients::new(&deadlines, &roots)?);
        Ok(Self { usual, own: Mutex::default(), roots, policy, deadlines, sent: AtomicU64::new(0) })
    }

    /// The clients that trust `authorities` (PEM) too; the same ones for everybody who brings the same.
    pub(crate) fn clients(&self, authorities: Option<&[u8]>) -> Result<Arc<Clients>, GitError> {
        let Some(authorities) = authorities else {
            return Ok(Arc::clone(&self.usual));
        };
        let key: [u8; 32] = Sha256::digest(authorities).into();
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clients) = own.get(&key).and_then(Weak::upgrade) {
            return Ok(clients);
        }
        let mut roots = certificates(authorities, "the repository's own")?;
        roots.extend(self.roots.iter().cloned());
        let clients = Arc::new(Clients::new(&self.deadlines, &roots)?);
        own.retain(|_, clients| clients.strong_count() > 0);
        own.insert(key, Arc::downgrade(&clients));
        Ok(clients)
    }

    /// Requests sent, to every remote.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Sends one request and reads its head. Credentials go along only to the origin of the repository's URL.
    pub(crate) async fn send<'a>(
        &'a self,
        call: &'a Call<'a>,
        request: Request,
    ) -> Result<Reply<'a>, GitError> {
        self.policy.check_request(&request.url)?;
        let origin = Origin::of(&request.url);
        let lifted = origin.as_ref().is_some_and(|origin| self.policy.lifted(origin));
        let client = if lifted { &call.clients.lifted } else { &call.clients.public };
        let mut builder = client
            .request(request.method.clone(), request.url.clone())
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, request.expect);
        if request.v2 {
            builder = builder.header(HeaderName::from_static("git-protocol"), "version=2");
        }
        if request.method == Method::POST {
            builder = builder
                .header(CONTENT_TYPE, "application/x-git-upload-pack-request")
                .body(request.body.clone());
        }
        let credentials = call.credentials.filter(|_| origin == Origin::of(call.url));
        if let Some(credentials) = credentials {
            builder = builder.header(AUTHORIZATION, authorization(credentials)?);
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        call.counter.fetch_add(1, Ordering::Relaxed);
        let head = self.deadlines.connect + self.deadlines.read;
        let response = call
            .within(head, builder.send())
            .await?
            .map_err(|error| call.transport(&error, self.deadlines.connect))?;
        tracing::debug!(url = %request.url, status = response.status().as_u16(), "git request");
        if response.status().is_redirection() {
            return Ok(Reply::Redirect(call.redirect(&request.url, &response)?));
        }
        call.judge(&response, credentials.is_some())?;
        let kind =
            response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some(request.expect) {
            let detail = format!("it answers {:?} instead of {}", printable(kind, 80), request.expect);
            return Err(GitError::NotGit { url: call.url.to_string(), detail });
        }
        Ok(Reply::Answer(Answer { call, response, read: self.deadlines.read, received: 0, cap: request.cap }))
    }
}

impl Call<'_> {
    /// `host:port`, for messages.
    pub(crate) fn host(&self) -> String {
        Origin::of(self.url).map(|origin| origin.authority()).unwrap_or_default()
    }

    /// A protocol error of this call.
    pub(crate) fn protocol(&self, detail: impl Into<String>) -> GitError {
        GitError::Protocol { host: self.host(), detail: printable(&detail.into(), 200) }
    }

    /// Waits for `future`, but no longer than `step`, the whole operation's deadline, or the caller's patience.
    pub(crate) async fn within<T>(
        &self,
        step: Duration,
        future: impl Future<Output = T>,
    ) -> Result<T, GitError> {
        let end = Instant::now() + step;
        let (until, after) = if end < self.until { (end, step) } else { (self.until, self.limit) };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(GitError::Cancelled),
            value = tokio::time::timeout_at(until, future) => {
                value.map_err(|_| GitError::Timeout { host: self.host(), what: self.what, after })
            }
        }
    }

    fn transport(&self, error: &reqwest::Error, connect: Duration) -> GitError {
        let mut source = error.source();
        while let Some(cause) = source {
            if let Some(refused) = cause.downcast_ref::<AddressRefused>() {
                return GitError::PolicyRefused { url: self.url.to_string(), detail: refused.to_string() };
            }
            source = cause.source();
        }
        if error.is_timeout() {
            return GitError::Timeout { host: self.host(), what: "connect to", after: connect };
        }
        GitError::Unreachable { host: self.host(), detail: chain(error) }
    }

    fn redirect(&self, from: &Url, response: &reqwest::Response) -> Result<Url, GitError> {
        let target = response
            .headers()
            .get(LOCATION)
            .and_then(|location| location.to_str().ok())
            .and_then(|location| from.join(location).ok())
            .ok_or_else(|| self.protocol("a redirect without a target"))?;
        if Origin::of(&target) == Origin::of(self.url) {
            return Ok(target);
        }
        let elsewhere = Origin::of(&target).map_or_else(|| target.scheme().to_owned(), |it| it.to_string());
        Err(GitError::PolicyRefused {
            url: self.url.to_string(),
            detail: format!("it redirects to another origin, {elsewhere}; use that URL if you trust it"),
        })
    }

    /// The typed error of a status that is not 200.
    fn judge(&self, response: &reqwest::Response, sent: bool) -> Result<(), GitError> {
        let host = self.host();
        let header = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after =
            header(RETRY_AFTER).and_then(|after| after.trim().parse().ok()).map(Duration::from_secs);
        let exhausted = header(HeaderName::from_static("x-ratelimit-remaining")) == Some("0");
        Err(match response.status() {
            StatusCode::OK => return Ok(()),
            StatusCode::UNAUTHORIZED => GitError::Unauthorized { host, sent },
            StatusCode::FORBIDDEN if exhausted || retry_after.is_some() => {
                GitError::RateLimited { host, retry_after }
            }
            StatusCode::FORBIDDEN => GitError::Forbidden { host },
            StatusCode::NOT_FOUND => GitError::NotFound { url: self.url.to_string() },
            StatusCode::TOO_MANY_REQUESTS => GitError::RateLimited { host, retry_after },
            status if status.is_server_error() => GitError::Unavailable { host, status: status.as_u16() },
            status => {
                GitError::NotGit { url: self.url.to_string(), detail: format!("it answers HTTP {status}") }
            }
        })
    }
}

/// The body of an answer, in pieces as they arrive.
pub(crate) struct Answer<'a> {
    pub(crate) call: &'a Call<'a>,
    response: reqwest::Response,
    read: Duration,
    received: u64,
    cap: (&'static str, u64),
}

impl Answer<'_> {
    /// The next piece; nothing at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, GitError> {
        let piece = self.call.within(self.read, self.response.chunk()).await?.map_err(|error| {
            self.call.protocol(format!(
                "the answer ended early after {} bytes: {}",
                self.received,
                chain(&error)
            ))
        })?;
        if let Some(piece) = &piece {
            self.received += piece.len() as u64;
            let (limit, max) = self.cap;
            if self.received > max {
                let what = format!("the answer of {}", self.call.host());
                return Err(GitError::LimitExceeded { limit, max, what });
            }
        }
        Ok(piece)
    }
}

fn authorization(credentials: &Credentials) -> Result<HeaderValue, GitError> {
    let text = match credentials {
        Credentials::Basic { user, token } => {
            let user = if user.is_empty() { "git" } else { user };
            let pair = format!("{user}:{}", token.expose_secret());
            format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
        }
        Credentials::Bearer(token) => format!("Bearer {}", token.expose_secret()),
    };
    let mut value = HeaderValue::try_from(text)
        .map_err(|error| GitError::SetUp { action: "send the credentials", detail: error.to_string() })?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_certificates(bundle: &Path) -> Result<Vec<reqwest::Certificate>, GitError> {
    let name = bundle.display().to_string();
    let pem = std::fs::read(bundle)
        .map_err(|error| GitError::SetUp { action: BUNDLE, detail: format!("{name}: {error}") })?;
    certificates(&pem, &name)
}

fn certificates(pem: &[u8], name: &str) -> Result<Vec<reqwest::Certificate>, GitError> {
    let set_up = |detail: String| GitError::SetUp { action: BUNDLE, detail };
    let found = reqwest::Certificate::from_pem_bundle(pem)
        .map_err(|error| set_up(format!("{name}: {}", chain(&error))))?;
    if found.is_empty() {
        return Err(set_up(format!("{name} holds no certificate in PEM form")));
    }
    Ok(found)
}

/// An error and its causes in one line, without the URL that reqwest repeats and without repetitions.
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
        parts.push(error.to_string());
    }
    printable(&parts.join(": "), 300)
}
