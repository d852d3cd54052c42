//! Sends one request within deadlines, retries and the rate limit, to the API's own origin only.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use octocrab::OctoBody;
use secrecy::{ExposeSecret as _, SecretString};
use url::{Host, Url};
use windlass_http_client::{
    Answer as Head, Deadline, Deadlines, Failure, HostRates, RateLeft, Retries, RetryAfterHosts, SetUpError,
    is_loopback, judging_resolver, printable, rate_left, redact_secret,
};

use crate::{Caller, ErrorKind, GithubError, Options, OptionsError};

const JSON: HeaderValue = HeaderValue::from_static("application/vnd.github+json");
/// Redirects that are followed, on the same origin: a repository that was renamed has one.
const REDIRECTS: usize = 3;
/// Bytes that an error's body may have.
pub(super) const MAX_ERROR: u64 = 256 << 10;
/// Bytes that an answer may have beside a file.
const MAX_ANSWER: u64 = 8 << 20;
/// Secrets that are known to have been sent: those of more requests than one client has under way.
const SECRETS: usize = 16;

/// A request, as octocrab made it.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path below the API's URL, and query.
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    body: Bytes,
}

impl Call {
    pub(crate) async fn read(request: Request<OctoBody>) -> Result<Self, ErrorKind> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|error| ErrorKind::Malformed(error.to_string()))?.to_bytes();
        let target = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
        let mut headers = parts.headers;
        // octocrab says 0 where there is no body; the HTTP client counts for itself.
        headers.remove(CONTENT_LENGTH);
        headers.entry(ACCEPT).or_insert(JSON);
        Ok(Self { method: parts.method, target, headers, body })
    }

    /// What tells its answer from others'.
    pub(crate) fn key(&self) -> String {
        let accept = self.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
        format!("{accept} {}", self.target)
    }

    /// Whether it may be sent again when nobody knows what became of it: whoever writes asks first whether it still may.
    /// A second token is of no harm.
    fn is_repeatable(&self) -> bool {
        self.method == Method::GET || self.target.ends_with("/access_tokens")
    }
}

/// With what a request says who calls.
pub(crate) struct Bearer {
    pub(crate) caller: Caller,
    pub(crate) token: Option<SecretString>,
}

/// A successful answer, or that what is kept still holds (304).
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

enum Reply {
    Answer(Answer),
    Redirect(Url),
}

/// The way to one API.
pub(crate) struct Transport {
    client: reqwest::Client,
    base: Url,
    host: String,
    deadlines: Deadlines,
    retries: Retries,
    max_body: u64,
    /// Nothing is sent while GitHub asks for it.
    held: RetryAfterHosts,
    rates: Option<Arc<HostRates>>,
    /// What the last answer said that is left.
    left: Mutex<Option<RateLeft>>,
    /// The secrets that were sent last.
    secrets: Mutex<VecDeque<SecretString>>,
    sent: AtomicU64,
}

impl Transport {
    /// The way to the API that `options` name.
    pub(crate) fn new(options: &Options) -> Result<Self, OptionsError> {
        let base = base(options)?;
        let host = match (base.host_str(), base.port_or_known_default()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            _ => return Err(OptionsError::Url { detail: "it has no host".to_owned() }),
        };
        let client = match &options.http {
            Some(shared) => shared.clone(),
            None => client(options, &base)
                .map_err(|error| OptionsError::Client { source: SetUpError::from(error) })?,
        };
        Ok(Self {
            client,
            base,
            host,
            deadlines: options.deadlines,
            retries: options.retries,
            max_body: encoded_size(options.max_file).saturating_add(MAX_ANSWER),
            held: RetryAfterHosts::default(),
            rates: options.rates.clone(),
            left: Mutex::default(),
            secrets: Mutex::default(),
            sent: AtomicU64::new(0),
        })
    }

    /// What sends requests.
    pub(crate) fn http(&self) -> reqwest::Client {
        self.client.clone()
    }

    /// The API's URL, without a slash at its end.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// `host:port`.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Requests sent so far, retries included.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// What the last answer said that is left of the rate limit.
    pub(crate) fn rate_left(&self) -> Option<RateLeft> {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The deadlines of a call that begins now.
    pub(crate) fn begin(&self) -> Deadline {
        self.deadlines.begin()
    }

    pub(crate) fn error(&self, kind: ErrorKind) -> GithubError {
        GithubError::new(&self.host, kind)
    }

    pub(crate) fn failed(&self, failure: Failure) -> GithubError {
        self.error(match failure {
            Failure::Refused(detail) | Failure::Broken(detail) => {
                ErrorKind::Unreachable(self.printable(&detail, 300))
            }
            Failure::Timeout(after) => ErrorKind::Timeout(after),
            Failure::TooLarge(limit) => ErrorKind::TooLarge(limit),
        })
    }

    /// The server is sent `secret`: no message repeats it.
    pub(crate) fn conceal(&self, secret: &SecretString) {
        let mut sent = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        sent.retain(|known| known.expose_secret() != secret.expose_secret());
        sent.push_back(secret.clone());
        if sent.len() > SECRETS {
            sent.pop_front();
        }
    }

    /// The server's words without the secrets that it was sent, for a message.
    pub(crate) fn printable(&self, text: &str, max: usize) -> String {
        let sent = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let redact = |text: String, secret: &SecretString| redact_secret(&text, "", secret.expose_secret());
        printable(&sent.iter().fold(text.to_owned(), redact), max)
    }

    /// What a call of octocrab's came to: our service's error, or one about an answer of ours.
    pub(crate) fn of_octocrab(&self, error: octocrab::Error) -> GithubError {
        // The deserializer quotes the answer.
        let malformed = |detail: String| self.error(ErrorKind::Malformed(self.printable(&detail, 200)));
        match error {
            octocrab::Error::Service { source, .. } => match source.downcast::<GithubError>() {
                Ok(error) => *error,
                // The buffer before our service: its worker went with the runtime that it was made in.
                Err(error) => self.error(ErrorKind::Unreachable(self.printable(&error.to_string(), 200))),
            },
            octocrab::Error::Json { source, .. } => {
                malformed(format!("{}: {}", source.path(), source.inner()))
            }
            octocrab::Error::Serde { source, .. } => malformed(source.to_string()),
            error => malformed(error.to_string()),
        }
    }

    /// Nothing more is sent for that long.
    pub(super) fn hold(&self, retry_after: Duration) {
        self.held.hold(&self.host, retry_after);
    }

    /// Sends a request, again where it failed for a time, and answers what succeeded.
    pub(crate) async fn exchange(
        &self,
        call: &Call,
        bearer: &Bearer,
        deadline: Deadline,
    ) -> Result<Answer, GithubError> {
        let retry = |error: &GithubError| match error.kind() {
            // Its own time is known: the caller waits, and may do other things meanwhile.
            ErrorKind::RateLimited { .. } => None,
            _ if !call.is_repeatable() || !error.is_transient() => None,
            _ => Some(error.retry_after().unwrap_or_default()),
        };
        self.retries.run(&deadline, retry, || self.follow(call, bearer, deadline)).await
    }

    async fn follow(&self, call: &Call, bearer: &Bearer, deadline: Deadline) -> Result<Answer, GithubError> {
        let malformed = |detail: String| self.error(ErrorKind::Malformed(self.printable(&detail, 200)));
        let base = self.base.as_str().trim_end_matches('/');
        let mut url =
            Url::parse(&format!("{base}{}", call.target)).map_err(|error| malformed(error.to_string()))?;
        for _ in 0..=REDIRECTS {
            match self.send(call, &url, bearer, deadline).await? {
                Reply::Answer(answer) => return Ok(answer),
                Reply::Redirect(target) => url = target,
            }
        }
        Err(malformed(format!("more than {REDIRECTS} redirects")))
    }

    async fn send(
        &self,
        call: &Call,
        url: &Url,
        bearer: &Bearer,
        deadline: Deadline,
    ) -> Result<Reply, GithubError> {
        if let Some(retry_after) = self.held.left(&self.host) {
            return Err(self.error(ErrorKind::RateLimited { retry_after }));
        }
        if let Some(rates) = &self.rates
            && let Err(retry_after) = rates.turn(&self.host, deadline.until()).await
        {
            return Err(self.error(ErrorKind::RateLimited { retry_after }));
        }
        let mut request = self.client.request(call.method.clone(), url.clone()).headers(call.headers.clone());
        if let Some(token) = &bearer.token {
            let value = authorization(token).map_err(|()| {
                let detail = "it gave a token that no header can have".to_owned();
                self.error(ErrorKind::Malformed(detail))
            })?;
            request = request.header(AUTHORIZATION, value);
            self.conceal(token);
        }
        if !call.body.is_empty() {
            request = request.body(call.body.clone());
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        let head = windlass_http_client::send(request, &deadline).await;
        let head = head.map_err(|failure| self.failed(failure))?;
        let status = head.status();
        if let Some(left) = rate_left(head.headers()) {
            *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(left);
        }
        tracing::debug!(method = %call.method, path = url.path(), status = status.as_u16(), "GitHub request");
        if status == StatusCode::NOT_MODIFIED {
            let headers = head.headers().clone();
            return Ok(Reply::Answer(Answer { status, headers, body: Bytes::new() }));
        }
        if status.is_success() {
            let headers = head.headers().clone();
            let body = head.body(self.max_body).await.map_err(|failure| self.failed(failure))?;
            return Ok(Reply::Answer(Answer { status, headers, body }));
        }
        if status.is_redirection() {
            return self.redirect(call, &head).map(Reply::Redirect);
        }
        Err(self.refusal(bearer.caller, head).await)
    }

    /// Where a redirect leads, if that is the same origin: credentials go nowhere else. A write goes on only where the
    /// server says that it may be repeated as it is (307, 308).
    fn redirect(&self, call: &Call, head: &Head) -> Result<Url, GithubError> {
        let malformed = |detail: String| Err(self.error(ErrorKind::Malformed(self.printable(&detail, 200))));
        let verbatim =
            matches!(head.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
        if call.method != Method::GET && !verbatim {
            return malformed(format!("it answers {} to a write", head.status().as_u16()));
        }
        match head.location() {
            None => malformed("a redirect without a target".to_owned()),
            Some(target) if target.origin() == self.base.origin() => Ok(target),
            Some(target) => {
                let elsewhere = target.origin().ascii_serialization();
                malformed(format!("it redirects to another origin, {elsewhere}"))
            }
        }
    }
}

/// Bytes that a file of `size` bytes takes in an answer: base64 with line ends.
fn encoded_size(size: u64) -> u64 {
    (size / 3).saturating_mul(4).saturating_add(size / 30)
}

/// The header that shows `token`; octocrab's `personal_token` would panic where there can be none.
pub(crate) fn authorization(token: &SecretString) -> Result<HeaderValue, ()> {
    let mut value = HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).map_err(|_| ())?;
    value.set_sensitive(true);
    Ok(value)
}

/// The API's URL, checked.
fn client(options: &Options, base: &Url) -> reqwest::Result<reqwest::Client> {
    let builder = windlass_http_client::builder(&options.tls, options.deadlines.connect);
    let builder = match (&options.proxy, options.addresses) {
        (Some(proxy), _) => builder.no_proxy().proxy(proxy.clone()),
        (None, Some(policy)) => builder.no_proxy().dns_resolver(judging_resolver(policy)),
        (None, None) if is_loopback(base) => builder.no_proxy(),
        (None, None) => builder,
    };
    builder.build()
}

fn base(options: &Options) -> Result<Url, OptionsError> {
    let refuse = |detail: &str| Err(OptionsError::Url { detail: detail.to_owned() });
    let mut base = match Url::parse(options.api.trim()) {
        Ok(base) => base,
        Err(error) => return refuse(&error.to_string()),
    };
    if !base.username().is_empty() || base.password().is_some() {
        return refuse("it carries credentials");
    }
    if base.query().is_some() || base.fragment().is_some() {
        return refuse("it has a query or a fragment");
    }
    match base.scheme() {
        "https" => {}
        "http" if is_loopback(&base) => {}
        _ => return refuse("only https: is allowed"),
    }
    let address = match base.host() {
        Some(Host::Ipv4(address)) => Some(address.into()),
        Some(Host::Ipv6(address)) => Some(address.into()),
        _ => None,
    };
    // No resolver is asked for an address.
    if let (Some(policy), Some(address)) = (options.addresses, address)
        && let Some(why) = policy(address)
    {
        return refuse(&format!("{address} is not connected to: {why}"));
    }
    let path = base.path().trim_end_matches('/').to_owned();
    base.set_path(&path);
    Ok(base)
}
