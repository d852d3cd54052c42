//! The road of every request: shared, kept, retried, authorised, bounded, judged.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{
    ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LINK,
};
use http::{Method, StatusCode};
use jiff::Timestamp;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;
use windlass_http_client::{
    Answer as Head, Deadline, Failure, Held, SetUpError, Tls, is_loopback, printable, server_time,
};

use crate::app::{InstallationToken, Minted};
use crate::cache::{Answer, Cache, Found, Validator};
use crate::flights::Flights;
use crate::{Credentials, Deadlines, GithubError, Options, RepositoryName, Retries};

mod judge;

const JSON: HeaderValue = HeaderValue::from_static("application/vnd.github+json");
const VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-github-api-version"), HeaderValue::from_static("2022-11-28"));
/// Redirects that are followed, on the same origin: a repository that was renamed has one.
const REDIRECTS: usize = 3;
/// Bytes that an error's body, or a token's answer, may have.
const SMALL: u64 = 256 << 10;

/// GitHub's API, as one user or App. Clones share everything.
#[derive(Clone)]
pub struct Github {
    inner: Arc<Inner>,
}

struct Inner {
    client: reqwest::Client,
    base: Url,
    host: String,
    identity: Identity,
    deadlines: Deadlines,
    retries: Retries,
    max_file: u64,
    cache: Cache,
    flights: Flights<Result<Answer, GithubError>>,
    /// Nothing is sent while GitHub asks for it.
    held: Held,
    sent: AtomicU64,
}

enum Identity {
    Nobody,
    Token(SecretString),
    App(InstallationToken),
}

/// One question.
#[derive(Clone)]
pub(crate) struct Get {
    /// Its URL.
    pub(crate) url: Url,
    /// What is being done, for messages: `read commit 1a2b of owner/name`.
    pub(crate) what: String,
    /// The answer's media type.
    pub(crate) accept: HeaderValue,
    /// Bytes that the answer may have.
    pub(crate) cap: u64,
}

/// What one request came to.
enum Reply {
    Answer(Answer),
    Redirect(Url),
}

impl Github {
    /// A client of the API that `options` name. It asks nothing yet.
    ///
    /// Authorities are the system's; `SSL_CERT_FILE` adds to them, for a server with one of its own. Proxies are those
    /// of the environment, except for loopback addresses.
    pub fn new(options: Options) -> Result<Self, GithubError> {
        let refuse = |detail: &str| GithubError::SetUp {
            action: "use the URL of GitHub's API",
            detail: format!("{detail}; write https://api.github.com or https://HOST/api/v3"),
        };
        let mut base = Url::parse(options.api.trim()).map_err(|error| refuse(&error.to_string()))?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err(refuse("it carries credentials"));
        }
        if base.query().is_some() || base.fragment().is_some() {
            return Err(refuse("it has a query or a fragment"));
        }
        let loopback = is_loopback(&base);
        match base.scheme() {
            "https" => {}
            "http" if loopback => {}
            _ => return Err(refuse("only https: is allowed")),
        }
        let path = base.path().trim_end_matches('/').to_owned();
        base.set_path(&path);
        let host = match (base.host_str(), base.port_or_known_default()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            _ => return Err(refuse("it has no host")),
        };
        let mut builder = windlass_http_client::builder(&Tls::default(), options.deadlines.connect);
        if loopback {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| GithubError::SetUp {
            action: "set up the HTTP client for GitHub",
            detail: SetUpError::from(error).to_string(),
        })?;
        Ok(Self {
            inner: Arc::new(Inner {
                client,
                base,
                host,
                identity: match options.credentials {
                    Credentials::Anonymous => Identity::Nobody,
                    Credentials::Token(token) => {
                        Identity::Token(token.expose_secret().trim().to_owned().into())
                    }
                    Credentials::App(app) => Identity::App(InstallationToken::new(app)),
                },
                deadlines: options.deadlines,
                retries: options.retries,
                max_file: options.max_file,
                cache: Cache::new(options.cache),
                flights: Flights::new(),
                held: Held::default(),
                sent: AtomicU64::new(0),
            }),
        })
    }

    /// Requests sent so far, retries and tokens' included.
    pub fn sent(&self) -> u64 {
        self.inner.sent.load(Ordering::Relaxed)
    }

    /// The repository that `url` names, if it is one of this API's: github.com's for `api.github.com`.
    pub fn repository_at(&self, url: &str) -> Option<RepositoryName> {
        RepositoryName::of_url(url, self.web_host())
    }

    /// Where the repositories of this API are read with Git: `github.com` for `api.github.com`.
    pub fn web_host(&self) -> &str {
        let host = self.inner.base.host_str().unwrap_or_default();
        host.strip_prefix("api.").unwrap_or(host)
    }

    /// Whether anybody asks.
    pub fn has_credentials(&self) -> bool {
        !matches!(self.inner.identity, Identity::Nobody)
    }

    /// A token to read repositories with over Git, as the password of `x-access-token`; none without credentials. An
    /// App's is minted and renewed as its questions need it.
    pub async fn git_token(&self) -> Result<Option<SecretString>, GithubError> {
        self.inner.token(self.inner.deadlines.begin()).await
    }

    /// Bytes that a file may have.
    pub(crate) fn max_file(&self) -> u64 {
        self.inner.max_file
    }

    /// A question about `repository`: `path` below its own, segment by segment.
    pub(crate) fn question(&self, repository: &RepositoryName, path: &[&str], what: String) -> Get {
        let mut url = self.inner.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["repos", repository.owner(), repository.name()]).extend(path);
        }
        Get { url, what, accept: JSON, cap: 8 << 20 }
    }

    /// The answer of `get`, kept, shared with whoever asks the same, or asked for.
    pub(crate) async fn get(&self, get: &Get) -> Result<Answer, GithubError> {
        let key = format!("{} {}", get.accept.to_str().unwrap_or_default(), get.url);
        self.inner.flights.share(&key, || self.inner.ask(get, &key)).await
    }

    /// The answer of `get` as JSON.
    pub(crate) async fn json<T: serde::de::DeserializeOwned>(
        &self,
        get: &Get,
    ) -> Result<(T, Answer), GithubError> {
        let answer = self.get(get).await?;
        match serde_json::from_slice(&answer.body) {
            Ok(value) => Ok((value, answer)),
            Err(error) => Err(self.malformed(&get.what, error)),
        }
    }

    /// An answer that makes no sense.
    pub(crate) fn malformed(&self, what: &str, detail: impl ToString) -> GithubError {
        let detail = printable(&detail.to_string(), 200);
        GithubError::Malformed { host: self.inner.host.clone(), what: what.to_owned(), detail }
    }
}

impl Inner {
    async fn ask(&self, get: &Get, key: &str) -> Result<Answer, GithubError> {
        let deadline = self.deadlines.begin();
        let again = |error: &GithubError| match error {
            // Its own time is known: the caller waits, and may do other things meanwhile.
            GithubError::RateLimited { .. } => None,
            error => error.is_transient().then(|| error.retry_after().unwrap_or_default()),
        };
        self.retries.run(&deadline, again, || self.attempt(get, key, deadline)).await
    }

    async fn attempt(&self, get: &Get, key: &str, deadline: Deadline) -> Result<Answer, GithubError> {
        let validator = match self.cache.find(key) {
            Found::Fresh(answer) => return Ok(answer),
            Found::Stale(validator) => Some(validator),
            Found::Nothing => None,
        };
        let mut url = get.url.clone();
        for _ in 0..=REDIRECTS {
            match self.authorised(get, &url, key, validator.as_ref(), deadline).await? {
                Reply::Answer(answer) => return Ok(answer),
                Reply::Redirect(target) => url = target,
            }
        }
        let detail = format!("more than {REDIRECTS} redirects");
        Err(GithubError::Malformed { host: self.host.clone(), what: get.what.clone(), detail })
    }

    /// One request with credentials; with new ones if an App's token is refused, since it may have been revoked.
    async fn authorised(
        &self,
        get: &Get,
        url: &Url,
        key: &str,
        validator: Option<&Validator>,
        deadline: Deadline,
    ) -> Result<Reply, GithubError> {
        let token = self.token(deadline).await?;
        let reply = self.send(get, url, key, validator, token.as_ref(), deadline).await;
        match (&self.identity, reply, token) {
            (Identity::App(app), Err(GithubError::Unauthorized { .. }), Some(token)) => {
                app.forget(&token).await;
                let token = self.token(deadline).await?;
                self.send(get, url, key, validator, token.as_ref(), deadline).await
            }
            (_, reply, _) => reply,
        }
    }

    async fn token(&self, deadline: Deadline) -> Result<Option<SecretString>, GithubError> {
        match &self.identity {
            Identity::Nobody => Ok(None),
            Identity::Token(token) => Ok(Some(token.clone())),
            Identity::App(app) => app.current(|| self.mint(app, deadline)).await.map(Some),
        }
    }

    async fn send(
        &self,
        get: &Get,
        url: &Url,
        key: &str,
        validator: Option<&Validator>,
        token: Option<&SecretString>,
        deadline: Deadline,
    ) -> Result<Reply, GithubError> {
        let mut request = self.request(Method::GET, url, get.accept.clone(), token)?;
        request = match validator {
            Some(Validator::Tag(tag)) => request.header(IF_NONE_MATCH, tag),
            Some(Validator::Modified(at)) => request.header(IF_MODIFIED_SINCE, at),
            None => request,
        };
        let head = self.exchange(&get.what, request, deadline).await?;
        let (status, headers) = (head.status(), head.headers().clone());
        if status == StatusCode::OK {
            let body = head.body(get.cap).await.map_err(|failure| self.failed(&get.what, failure))?;
            let answer = Answer { body, more: has_next(&headers) };
            self.cache.store(key, &headers, &answer);
            return Ok(Reply::Answer(answer));
        }
        if status == StatusCode::NOT_MODIFIED {
            let kept = self.cache.revalidated(key, &headers);
            // Pushed out meanwhile: the next try asks without a tag.
            return kept.map(Reply::Answer).ok_or_else(|| GithubError::Unreachable {
                host: self.host.clone(),
                what: get.what.clone(),
                detail: "it answers 304 to what is not kept any more".to_owned(),
            });
        }
        if status.is_redirection() {
            return self.redirect(get, head.location()).map(Reply::Redirect);
        }
        self.cache.forget(key);
        let who = self.who();
        Err(self.judge(&get.what, who, token, head).await)
    }

    /// A token of the App's installation.
    async fn mint(
        &self,
        app: &InstallationToken,
        deadline: Deadline,
    ) -> Result<(Minted, Option<Timestamp>), GithubError> {
        let installation = app.app.installation();
        let what = format!("get a token of the App's installation {installation}");
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            let number = installation.to_string();
            segments.pop_if_empty().extend(["app", "installations", &number, "access_tokens"]);
        }
        let claim = app.app.claim(Timestamp::now())?;
        // Reading is all that this client does: whoever finds the token can do no more.
        let request = self
            .request(Method::POST, &url, JSON, Some(&claim))?
            .json(&serde_json::json!({ "permissions": { "contents": "read" } }));
        let head = self.exchange(&what, request, deadline).await?;
        if head.status() != StatusCode::CREATED {
            return Err(self.judge(&what, "the App", Some(&claim), head).await);
        }
        let now = server_time(head.headers());
        let body = head.body(SMALL).await.map_err(|failure| self.failed(&what, failure))?;
        // Not `serde_json`'s own message: it could quote the token.
        let minted = serde_json::from_slice(&body).map_err(|_| GithubError::Malformed {
            host: self.host.clone(),
            what,
            detail: "it holds no token".to_owned(),
        })?;
        tracing::debug!(installation, "got a token of the App's installation");
        Ok((minted, now))
    }

    fn request(
        &self,
        method: Method,
        url: &Url,
        accept: HeaderValue,
        token: Option<&SecretString>,
    ) -> Result<reqwest::RequestBuilder, GithubError> {
        let (version, value) = VERSION;
        let mut request =
            self.client.request(method, url.clone()).header(ACCEPT, accept).header(version, value);
        if let Some(token) = token {
            let bearer = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()));
            let mut bearer = bearer.map_err(|_| GithubError::SetUp {
                action: "send the token to GitHub",
                detail: "it has characters that no header can have".to_owned(),
            })?;
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        Ok(request)
    }

    /// Sends a request, unless GitHub asked for patience, and reads the head of the answer.
    async fn exchange(
        &self,
        what: &str,
        request: reqwest::RequestBuilder,
        deadline: Deadline,
    ) -> Result<Head, GithubError> {
        if let Some(retry_after) = self.held.left(&self.host) {
            return Err(GithubError::RateLimited {
                host: self.host.clone(),
                what: what.to_owned(),
                retry_after,
            });
        }
        self.sent.fetch_add(1, Ordering::Relaxed);
        let sent = windlass_http_client::send(request, &deadline).await;
        let head = sent.map_err(|failure| self.failed(what, failure))?;
        tracing::debug!(what, status = head.status().as_u16(), "GitHub request");
        Ok(head)
    }

    fn failed(&self, what: &str, failure: Failure) -> GithubError {
        let (host, what) = (self.host.clone(), what.to_owned());
        match failure {
            Failure::Refused(detail) | Failure::Broken(detail) => {
                GithubError::Unreachable { host, what, detail }
            }
            Failure::Timeout(after) => GithubError::Timeout { host, what, after },
            Failure::TooLarge(limit) => GithubError::TooLarge { what, limit },
        }
    }

    /// Where a redirect leads, if that is the same origin: credentials go nowhere else.
    fn redirect(&self, get: &Get, target: Option<Url>) -> Result<Url, GithubError> {
        let malformed = |detail: String| GithubError::Malformed {
            host: self.host.clone(),
            what: get.what.clone(),
            detail,
        };
        let target = target.ok_or_else(|| malformed("a redirect without a target".to_owned()))?;
        if target.origin() == self.base.origin() {
            return Ok(target);
        }
        let elsewhere = target.origin().ascii_serialization();
        Err(malformed(format!("it redirects to another origin, {elsewhere}")))
    }

    fn who(&self) -> &'static str {
        match self.identity {
            Identity::Nobody => "nobody",
            Identity::Token(_) => "the token",
            Identity::App(_) => "the App's installation",
        }
    }
}

/// Whether `Link` names a next page (RFC 8288).
fn has_next(headers: &HeaderMap) -> bool {
    let links = headers.get(LINK).and_then(|links| links.to_str().ok()).unwrap_or_default();
    links.split(',').any(|link| link.split(';').skip(1).any(|param| param.trim() == "rel=\"next\""))
}
