//! The client under the protocol: policy, credentials and cancellation of every request. `ssh:` URLs go to `ssh.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use secrecy::ExposeSecret as _;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;
use windlass_http_client::{
    Deadline, Failure, HostRates, PerTls, RetryAfterHosts, SetUpError, Tls, judging_resolver, limit_reset,
    printable, retry_after,
};

use crate::hosts::{HostSlots, Hosts};
use crate::metrics::Figures;
use crate::policy::{self, Origin, UrlPolicy};
use crate::protocol::Service;
use crate::redact::redact;
use crate::ssh::{SshAnswer, SshClient};
use crate::upload::{Progress, Upload};
use crate::{Credentials, GitConfig, GitError, Proxy};

/// Some servers show their web pages to anything that does not begin with `git/`.
const AGENT: &str = concat!("git/2.0 (windlass ", env!("CARGO_PKG_VERSION"), ")");

/// Sends requests under the policy and the deadlines.
pub(crate) struct HttpClient {
    clients: PerTls<Clients>,
    /// What every client trusts.
    tls: Tls,
    connect: Duration,
    ssh: SshClient,
    policy: UrlPolicy,
    sent: AtomicU64,
    /// Who may have how many requests under way.
    pub(crate) hosts: Arc<Hosts>,
    /// How many requests a second each host is sent.
    rates: Arc<HostRates>,
    /// Nothing is sent while a host asks for it: with the same credentials where it is their limit, else with any.
    held: RetryAfterHosts,
}

/// One keep-alive client for public addresses, and one for origins that settings allow to be anything. Proxy
/// settings of the environment are not used: a proxy would connect to addresses that nobody judged.
pub(crate) struct Clients {
    public: reqwest::Client,
    lifted: reqwest::Client,
}

impl Clients {
    fn new(tls: &Tls, connect: Duration, proxy: Option<&Proxy>) -> reqwest::Result<Self> {
        let builder = || {
            let builder = windlass_http_client::builder(tls, connect).user_agent(AGENT).no_proxy();
            Ok::<_, reqwest::Error>(match proxy {
                Some(proxy) => builder.proxy(proxy.for_http()?),
                None => builder,
            })
        };
        let public = builder()?.dns_resolver(judging_resolver(policy::refused)).build()?;
        Ok(Self { public, lifted: builder()?.build()? })
    }
}

/// What is being done with the client, for messages.
const CLIENT: &str = "set up the HTTP client for Git";

/// What all requests of one operation share.
pub(crate) struct Call<'a> {
    /// The repository's URL.
    pub(crate) url: &'a Url,
    /// Who asks.
    pub(crate) credentials: Option<&'a Credentials>,
    /// What to send requests with.
    pub(crate) clients: &'a Clients,
    /// What lies between.
    pub(crate) proxy: Option<&'a Proxy>,
    /// What is being done, for messages: `read the refs of`.
    pub(crate) what: &'static str,
    /// How long it may take.
    pub(crate) deadline: Deadline,
    /// How slow it may be.
    pub(crate) pace: Pace,
    /// The caller's signal to stop.
    pub(crate) cancel: &'a CancellationToken,
    /// Requests sent to this remote.
    pub(crate) counter: &'a AtomicU64,
    /// Where it is told what they cost.
    pub(crate) figures: &'a Figures,
    /// How far the body of the request is that is under way, if it has a large one.
    pub(crate) upload: Option<Arc<Progress>>,
}

/// The least that has to come, or go, in a time of waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Bytes a second; 0 for none.
    pub(crate) least: u64,
    pub(crate) window: Duration,
    /// How long nothing may happen at all.
    pub(crate) silence: Duration,
}

impl Pace {
    fn is_too_slow(&self, bytes: u64, waited: Duration) -> bool {
        waited >= self.window && (bytes as f64) < self.least as f64 * waited.as_secs_f64()
    }
}

/// What a request brings along.
pub(crate) enum Payload {
    /// Nothing: a `GET`.
    Nothing,
    Bytes(Bytes),
    Upload(Upload),
}

/// A request to Git's smart HTTP.
pub(crate) struct Request {
    pub(crate) service: Service,
    pub(crate) url: Url,
    pub(crate) payload: Payload,
    /// Whether to ask for protocol v2.
    pub(crate) v2: bool,
    /// The content type that the answer must have.
    pub(crate) expect: &'static str,
    /// Bytes that the answer may have, and the limit that says so.
    pub(crate) cap: (&'static str, u64),
}

impl Request {
    /// What it is called in figures.
    fn operation(&self) -> &'static str {
        match (self.service, &self.payload) {
            (_, Payload::Nothing) => "discover",
            (Service::ReceivePack, _) => "push",
            (Service::UploadPack, _) if self.cap.0 == "refs_bytes" => "ls-refs",
            (Service::UploadPack, _) => "fetch",
        }
    }
}

/// What came back.
pub(crate) enum Reply<'a> {
    /// 200 with the right content type.
    Answer(Answer<'a>),
    /// A redirect to this URL, not followed.
    Redirect(Url),
}

impl HttpClient {
    pub(crate) fn new(config: &GitConfig) -> Result<Self, GitError> {
        let tls = config.ca_bundle.as_deref().map(Tls::of_bundle).transpose();
        let tls = tls.map_err(|error| set_up("read the CA bundle", &error))?.unwrap_or_default();
        let connect = config.deadlines.connect;
        let clients = PerTls::new(tls.clone(), move |tls| Clients::new(tls, connect, None));
        let clients = clients.map_err(|error| set_up(CLIENT, &error))?;
        let ssh = SshClient::new(&config.ssh, connect)?;
        let rates = Arc::new(HostRates::new(config.rate_per_host));
        let (policy, held) = (config.policy.clone(), RetryAfterHosts::default());
        let (sent, hosts) = (AtomicU64::new(0), Arc::new(Hosts::default()));
        if let Some(metrics) = &config.metrics {
            metrics.observe(&hosts, &rates);
        }
        Ok(Self { clients, tls, connect, ssh, policy, sent, hosts, rates, held })
    }

    /// The clients that trust and show `tls`, too; the same ones for everybody who brings the same and no proxy.
    pub(crate) fn clients(&self, tls: &Tls, proxy: Option<&Proxy>) -> Result<Arc<Clients>, GitError> {
        let Some(proxy) = proxy.cloned() else {
            return self.clients.of(tls).map_err(|error| set_up(CLIENT, &error));
        };
        let connect = self.connect;
        let clients = PerTls::new(self.tls.clone(), move |tls| Clients::new(tls, connect, Some(&proxy)));
        clients.and_then(|clients| clients.of(tls)).map_err(|error| set_up(CLIENT, &error))
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
        // Who is connected to, and judged when that happens, is the proxy where there is one.
        let peer = call.proxy.map_or_else(|| origin.clone(), |proxy| Origin::of(proxy.url()));
        let lifted = peer.is_some_and(|peer| self.policy.lifted(&peer));
        let host = origin.as_ref().map(ToString::to_string).unwrap_or_default();
        let credentials = call.credentials.filter(|_| origin == Origin::of(call.url));
        let limited =
            credentials.map_or_else(|| host.clone(), |it| format!("{host} {:x?}", it.fingerprint()));
        for held in [&host, &limited] {
            if let Some(left) = self.held.left(held) {
                return Err(GitError::RateLimited { host: call.host(), retry_after: Some(left) });
            }
        }
        let turn = call.unless_cancelled(self.rates.turn(&host, call.deadline.until())).await?;
        turn.map_err(|_wait| GitError::HostBusy { host: call.host() })?;
        let (operation, began) = (request.operation(), Instant::now());
        if request.url.scheme() == "ssh" {
            self.count(call);
            let cap = request.cap;
            // Within the deadline, but what was sent whole is not given up by whoever asked for it.
            let sent = call.deadline.by_the_end(Box::pin(self.ssh.send(call, request, lifted)));
            let sent = sent.await;
            call.figures.requested(operation, "ssh".to_owned(), began.elapsed());
            let answer = sent.map_err(|failure| call.failed(failure))??;
            return Ok(Reply::Answer(Answer::new(call, Inner::Ssh(Box::new(answer)), cap)));
        }
        let client = if lifted { &call.clients.lifted } else { &call.clients.public };
        let method = if matches!(request.payload, Payload::Nothing) { Method::GET } else { Method::POST };
        let mut builder = client.request(method, request.url).header(ACCEPT, request.expect);
        if request.v2 {
            builder = builder.header(HeaderName::from_static("git-protocol"), "version=2");
        }
        builder = match request.payload {
            Payload::Nothing => builder,
            Payload::Bytes(bytes) => builder.header(CONTENT_TYPE, request.service.request()).body(bytes),
            Payload::Upload(upload) => builder
                .header(CONTENT_TYPE, request.service.request())
                .header(CONTENT_LENGTH, upload.length())
                .body(upload.into_body(call.cancel.clone())),
        };
        if let Some(credentials) = credentials {
            builder = builder.header(AUTHORIZATION, authorization(credentials)?);
        }
        self.count(call);
        let sent = call.waiting(windlass_http_client::send(builder, &call.deadline)).await?;
        let status = sent.as_ref().map_or("none".to_owned(), |answer| answer.status().as_u16().to_string());
        call.figures.requested(operation, status, began.elapsed());
        let answer = sent.map_err(|failure| call.failed(failure))?;
        tracing::debug!(url = %call.url, status = answer.status().as_u16(), "git request");
        if answer.status().is_redirection() {
            return Ok(Reply::Redirect(call.redirect(answer.location())?));
        }
        if let Err(error) = call.judge(answer.status(), answer.headers(), credentials.is_some()) {
            match &error {
                GitError::RateLimited { retry_after: Some(wait), .. } => self.held.hold(&limited, *wait),
                GitError::Unavailable { .. } => {
                    if let Some(wait) = retry_after(answer.headers()) {
                        self.held.hold(&host, wait);
                    }
                }
                _ => {}
            }
            return Err(error);
        }
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some(request.expect) {
            let detail = format!("it answers {:?} instead of {}", call.printable(kind, 80), request.expect);
            return Err(GitError::NotGit { url: call.url.to_string(), detail });
        }
        Ok(Reply::Answer(Answer::new(call, Inner::Http(answer), request.cap)))
    }

    fn count(&self, call: &Call<'_>) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        call.counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Call<'_> {
    /// `host:port`, for messages.
    pub(crate) fn host(&self) -> String {
        Origin::of(self.url).map(|origin| origin.authority()).unwrap_or_default()
    }

    /// A protocol error of this call.
    pub(crate) fn protocol(&self, detail: impl Into<String>) -> GitError {
        GitError::Protocol { host: self.host(), detail: self.printable(&detail.into(), 200) }
    }

    /// A server's words without the secrets of this call, for a message.
    pub(crate) fn printable(&self, text: &str, max: usize) -> String {
        printable(&self.redact(text), max)
    }

    /// `text` without the secrets of this call.
    pub(crate) fn redact(&self, text: &str) -> String {
        redact(self.credentials, text)
    }

    /// One of the places for requests to the host, for as long as the answer is kept. It is not waited for longer than
    /// `limit`.
    pub(crate) async fn host_slot(
        &self,
        slots: &HostSlots,
        limit: Duration,
    ) -> Result<OwnedSemaphorePermit, GitError> {
        let turn = timeout(limit, slots.acquire());
        match self.unless_cancelled(turn).await? {
            Ok(permit) => permit.map_err(|_closed| GitError::Cancelled),
            Err(_elapsed) => Err(GitError::HostBusy { host: self.host() }),
        }
    }

    /// Waits for `future`, but no longer than the whole operation's deadline, and not when the caller gives up.
    pub(crate) async fn within<T>(&self, future: impl Future<Output = T>) -> Result<T, GitError> {
        let done = self.unless_cancelled(self.deadline.by_the_end(future)).await?;
        done.map_err(|failure| self.failed(failure))
    }

    async fn unless_cancelled<T>(&self, future: impl Future<Output = T>) -> Result<T, GitError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(GitError::Cancelled),
            value = future => Ok(value),
        }
    }

    /// Waits for the network. While a body is sent, an answer is not expected as long as that goes on; once all of it
    /// is sent the server may act on it, and the answer is waited for whether the caller gives up or not.
    pub(crate) async fn waiting<T>(&self, future: impl Future<Output = T>) -> Result<T, GitError> {
        let Some(progress) = &self.upload else {
            return self.unless_cancelled(future).await;
        };
        let mut future = std::pin::pin!(future);
        let mut before = progress.sent();
        loop {
            let step = timeout(self.pace.silence, &mut future);
            let done =
                if progress.is_complete() { Ok(step.await) } else { self.unless_cancelled(step).await };
            match done {
                Ok(Ok(value)) => return Ok(value),
                Err(error) if !progress.is_complete() => return Err(error),
                Err(_) => continue,
                Ok(Err(_elapsed)) => {}
            }
            let sent = progress.sent();
            if sent == before {
                return Err(self.failed(Failure::Timeout(self.pace.silence)));
            }
            let pace = Pace { window: self.pace.silence, ..self.pace };
            if !progress.is_complete() && pace.is_too_slow(sent - before, self.pace.silence) {
                return Err(self.too_slow());
            }
            before = sent;
        }
    }

    fn too_slow(&self) -> GitError {
        GitError::TooSlow { host: self.host(), what: self.what, least: self.pace.least }
    }

    pub(crate) fn failed(&self, failure: Failure) -> GitError {
        match failure {
            Failure::Refused(detail) => GitError::PolicyRefused { url: self.url.to_string(), detail },
            Failure::Timeout(after) => GitError::Timeout { host: self.host(), what: self.what, after },
            Failure::Broken(detail) => {
                GitError::Unreachable { host: self.host(), detail: self.redact(&detail) }
            }
            Failure::TooLarge(max) => self.protocol(format!("it has more than {max} bytes")),
        }
    }

    /// Where a redirect leads, if that is where the credentials may go.
    fn redirect(&self, target: Option<Url>) -> Result<Url, GitError> {
        let target = target.ok_or_else(|| self.protocol("a redirect without a target"))?;
        if Origin::of(&target) == Origin::of(self.url) {
            return Ok(target);
        }
        let elsewhere = Origin::of(&target).map_or_else(|| target.scheme().to_owned(), |it| it.to_string());
        Err(GitError::PolicyRefused {
            url: self.url.to_string(),
            detail: format!(
                "it redirects to another origin, {}; use that URL if you trust it",
                self.printable(&elsewhere, 200)
            ),
        })
    }

    /// The typed error of a status that is not 200.
    fn judge(&self, status: StatusCode, headers: &HeaderMap, sent: bool) -> Result<(), GitError> {
        let host = self.host();
        let exhausted = headers.get("x-ratelimit-remaining").is_some_and(|remaining| remaining == "0");
        let retry_after = retry_after(headers).or_else(|| limit_reset(headers));
        Err(match status {
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

enum Inner {
    Http(windlass_http_client::Answer),
    Ssh(Box<SshAnswer>),
}

/// The body of an answer, in pieces as they arrive.
pub(crate) struct Answer<'a> {
    pub(crate) call: &'a Call<'a>,
    inner: Inner,
    cap: (&'static str, u64),
    /// Bytes that came, and how long they were waited for, since the pace was judged last.
    received: u64,
    waited: Duration,
}

impl<'a> Answer<'a> {
    fn new(call: &'a Call<'a>, inner: Inner, cap: (&'static str, u64)) -> Self {
        Self { call, inner, cap, received: 0, waited: Duration::ZERO }
    }

    /// The next piece; nothing at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, GitError> {
        let (limit, max) = self.cap;
        let begin = Instant::now();
        let piece = match &mut self.inner {
            Inner::Ssh(inner) => {
                let piece = Box::pin(inner.chunk(self.call, self.cap));
                let piece = self.call.waiting(self.call.deadline.by_the_end(piece)).await?;
                piece.map_err(|failure| self.call.failed(failure))??
            }
            Inner::Http(inner) => {
                let piece = self.call.waiting(inner.chunk(max)).await?;
                piece.map_err(|failure| match failure {
                    Failure::TooLarge(max) => {
                        let what = format!("the answer of {}", self.call.host());
                        GitError::LimitExceeded { limit, max, what }
                    }
                    Failure::Broken(detail) => self.call.protocol(detail),
                    failure => self.call.failed(failure),
                })?
            }
        };
        self.waited += begin.elapsed();
        self.received += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        if self.call.upload.is_none() && self.call.pace.is_too_slow(self.received, self.waited) {
            return Err(self.call.too_slow());
        }
        if self.waited >= self.call.pace.window {
            (self.received, self.waited) = (0, Duration::ZERO);
        }
        Ok(piece)
    }

    /// Reads what follows the last piece that was of use, which is nothing: the connection can then be used again. A
    /// server that does not end its answer is not waited for, and over SSH none is.
    pub(crate) async fn end(mut self) {
        if matches!(self.inner, Inner::Http(_)) {
            let _ = timeout(Duration::from_millis(200), self.chunk()).await;
        }
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
        Credentials::Ssh(_) => {
            let detail = "an SSH key is of no use for an https: URL".to_owned();
            return Err(GitError::SshIdentity { detail });
        }
    };
    let mut value = HeaderValue::try_from(text)
        .map_err(|error| GitError::SetUp { action: "send the credentials", detail: error.to_string() })?;
    value.set_sensitive(true);
    Ok(value)
}

fn set_up(action: &'static str, error: &SetUpError) -> GitError {
    GitError::SetUp { action, detail: error.to_string() }
}
