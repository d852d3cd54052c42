//! The HTTP client under the protocol: policy, credentials and cancellation of every request.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, StatusCode};
use secrecy::ExposeSecret as _;
use tokio_util::sync::CancellationToken;
use url::Url;
use windlass_http_client::{
    Deadline, Failure, PerTls, SetUpError, Tls, judging_resolver, printable, retry_after,
};

use crate::policy::{self, Origin, UrlPolicy};
use crate::{Credentials, Deadlines, GitError};

/// Some servers show their web pages to anything that does not begin with `git/`.
const AGENT: &str = concat!("git/2.0 (windlass ", env!("CARGO_PKG_VERSION"), ")");

/// Sends requests under the policy and the deadlines.
pub(crate) struct HttpClient {
    clients: PerTls<Clients>,
    policy: UrlPolicy,
    sent: AtomicU64,
}

/// One keep-alive client for public addresses, and one for origins that settings allow to be anything. Proxy
/// settings of the environment are not used: a proxy would connect to addresses that nobody judged.
pub(crate) struct Clients {
    public: reqwest::Client,
    lifted: reqwest::Client,
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
    /// What is being done, for messages: `read the refs of`.
    pub(crate) what: &'static str,
    /// How long it may take.
    pub(crate) deadline: Deadline,
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
        deadlines: &Deadlines,
        ca_bundle: Option<&Path>,
    ) -> Result<Self, GitError> {
        let tls = ca_bundle.map(Tls::of_bundle).transpose();
        let tls = tls.map_err(|error| set_up("read the CA bundle", &error))?.unwrap_or_default();
        let connect = deadlines.connect;
        let clients = PerTls::new(tls, move |tls| {
            let builder = || windlass_http_client::builder(tls, connect).user_agent(AGENT).no_proxy();
            let public = builder().dns_resolver(judging_resolver(policy::refused));
            Ok(Clients { public: public.build()?, lifted: builder().build()? })
        });
        let clients = clients.map_err(|error| set_up(CLIENT, &error))?;
        Ok(Self { clients, policy, sent: AtomicU64::new(0) })
    }

    /// The clients that trust and show `tls`, too; the same ones for everybody who brings the same.
    pub(crate) fn clients(&self, tls: &Tls) -> Result<Arc<Clients>, GitError> {
        self.clients.of(tls).map_err(|error| set_up(CLIENT, &error))
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
        let mut builder =
            client.request(request.method.clone(), request.url.clone()).header(ACCEPT, request.expect);
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
        let sent = call.unless_cancelled(windlass_http_client::send(builder, &call.deadline)).await?;
        let answer = sent.map_err(|failure| call.failed(failure))?;
        tracing::debug!(url = %request.url, status = answer.status().as_u16(), "git request");
        if answer.status().is_redirection() {
            return Ok(Reply::Redirect(call.redirect(answer.location())?));
        }
        call.judge(answer.status(), answer.headers(), credentials.is_some())?;
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.split(';').next().map(str::trim) != Some(request.expect) {
            let detail = format!("it answers {:?} instead of {}", printable(kind, 80), request.expect);
            return Err(GitError::NotGit { url: call.url.to_string(), detail });
        }
        Ok(Reply::Answer(Answer { call, inner: answer, cap: request.cap }))
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

    /// Waits for `future`, but no longer than the whole operation's deadline, or the caller's patience.
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

    fn failed(&self, failure: Failure) -> GitError {
        match failure {
            Failure::Refused(detail) => GitError::PolicyRefused { url: self.url.to_string(), detail },
            Failure::Timeout(after) => GitError::Timeout { host: self.host(), what: self.what, after },
            Failure::Broken(detail) => GitError::Unreachable { host: self.host(), detail },
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
            detail: format!("it redirects to another origin, {elsewhere}; use that URL if you trust it"),
        })
    }

    /// The typed error of a status that is not 200.
    fn judge(&self, status: StatusCode, headers: &HeaderMap, sent: bool) -> Result<(), GitError> {
        let host = self.host();
        let retry_after = retry_after(headers);
        let exhausted = headers.get("x-ratelimit-remaining").is_some_and(|remaining| remaining == "0");
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

/// The body of an answer, in pieces as they arrive.
pub(crate) struct Answer<'a> {
    pub(crate) call: &'a Call<'a>,
    inner: windlass_http_client::Answer,
    cap: (&'static str, u64),
}

impl Answer<'_> {
    /// The next piece; nothing at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, GitError> {
        let (limit, max) = self.cap;
        let piece = self.call.unless_cancelled(self.inner.chunk(max)).await?;
        piece.map_err(|failure| match failure {
            Failure::TooLarge(max) => {
                GitError::LimitExceeded { limit, max, what: format!("the answer of {}", self.call.host()) }
            }
            Failure::Broken(detail) => self.call.protocol(detail),
            failure => self.call.failed(failure),
        })
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

fn set_up(action: &'static str, error: &SetUpError) -> GitError {
    GitError::SetUp { action, detail: error.to_string() }
}
