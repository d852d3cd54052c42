//! The client under the protocol: policy, credentials and cancellation of every request. `ssh:` URLs go to `ssh.rs`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::Method;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue};
use secrecy::ExposeSecret as _;
use tokio::time::{Instant, timeout};
use url::Url;
use windlass_http_client::{Failure, HostRates, PerTls, RetryAfterHosts, SetUpError, Tls, retry_after};

use crate::call::{Call, Clients};
use crate::hosts::Hosts;
use crate::policy::{Origin, UrlPolicy};
use crate::request::{Payload, Request};
use crate::ssh::{SshAnswer, SshClient};
use crate::{Credentials, GitConfig, GitError, Proxy};

/// Sends requests under the policy and the deadlines.
pub(crate) struct HttpClient {
    clients: PerTls<Clients>,
    /// The same behind each proxy, by its fingerprint.
    proxied: Mutex<HashMap<[u8; 32], PerTls<Clients>>>,
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

/// Proxies whose clients are kept.
const MAX_PROXIES: usize = 64;

/// What is being done with the client, for messages.
const CLIENT: &str = "set up the HTTP client for Git";

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
        let proxied = Mutex::default();
        Ok(Self { clients, proxied, tls, connect, ssh, policy, sent, hosts, rates, held })
    }

    /// The clients that trust and show `tls`, too; the same ones for everybody who brings the same and the same proxy, so
    /// that they share connections.
    pub(crate) fn clients(&self, tls: &Tls, proxy: Option<&Proxy>) -> Result<Arc<Clients>, GitError> {
        let failed = |error: SetUpError| set_up(CLIENT, &error);
        let Some(proxy) = proxy.cloned() else { return self.clients.of(tls).map_err(failed) };
        let mut proxied = self.proxied.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, connect) = (proxy.fingerprint(), self.connect);
        if proxied.len() >= MAX_PROXIES && !proxied.contains_key(&key) {
            // Logins that were rotated away leave theirs behind. Who uses clients keeps them.
            proxied.clear();
        }
        let behind = match proxied.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let make = move |tls: &Tls| Clients::new(tls, connect, Some(&proxy));
                free.insert(PerTls::new(self.tls.clone(), make).map_err(failed)?)
            }
        };
        behind.of(tls).map_err(failed)
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
            self.count();
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
        self.count();
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

    fn count(&self) {
        self.sent.fetch_add(1, Ordering::Relaxed);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_ask_through_one_proxy_share_its_connections() {
        let http = HttpClient::new(&GitConfig::new(std::env::temp_dir())).unwrap();
        let through = |login: Option<(&str, &str)>| {
            let login = login.map(|(user, password)| (user.to_owned(), password.into()));
            let proxy = Proxy::new("http://proxy.example:3128", login).unwrap();
            http.clients(&Tls::default(), Some(&proxy)).unwrap()
        };
        let one = through(None);
        assert!(Arc::ptr_eq(&one, &through(None)));
        assert!(!Arc::ptr_eq(&one, &through(Some(("me", "a-password")))), "who asks is another");
        assert!(!Arc::ptr_eq(&one, &http.clients(&Tls::default(), None).unwrap()));
    }
}
