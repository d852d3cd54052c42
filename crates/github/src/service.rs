//! The service beneath octocrab: the road of every request.
//!
//! octocrab makes a request of a typed call and reads the answer; all between is here. A read is answered from the cache
//! or shares the request of an equal one; then credentials are put on, an App's from a token that is minted and renewed
//! (`token.rs`); then the transport sends it within deadlines, retries and the rate limit, and reads at most what an
//! answer may have (`transport.rs`). What is no success is an error already here (`refusal.rs`): octocrab hands it on as
//! it is.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use jiff::Timestamp;
use octocrab::{AuthState, OctoBody, Octocrab, OctocrabBuilder};
use secrecy::SecretString;
use tower::Service;
use windlass_http_client::Deadline;

use crate::{App, Caller, ErrorKind, GithubError};

mod cache;
mod refusal;
mod single_flight;
mod token;
mod transport;

use cache::{Cache, Found, Kept};
use single_flight::SingleFlight;
pub(crate) use token::{InstallationTokens, mint};
use transport::{Answer, Bearer, Call};
pub(crate) use transport::{Transport, authorization};

/// GitHub's API as one caller, for octocrab. Clones share everything.
#[derive(Clone)]
pub(crate) struct GithubService {
    inner: Arc<Inner>,
}

struct Inner {
    transport: Arc<Transport>,
    identity: Identity,
    cache: Cache,
    reads: SingleFlight<Result<Answer, GithubError>>,
}

/// Whose credentials a request has.
pub(crate) enum Identity {
    /// Nobody's.
    Anonymous,
    /// A token's.
    Token(SecretString),
    /// An App's own: a claim that its key signs.
    App(App),
    /// An installation's.
    Installation(Box<InstallationTokens>),
}

impl GithubService {
    /// A service over `transport` as `identity`, which keeps answers of `cache` bytes.
    pub(crate) fn new(transport: Arc<Transport>, identity: Identity, cache: usize) -> Self {
        let inner = Inner { transport, identity, cache: Cache::new(cache), reads: SingleFlight::new() };
        Self { inner: Arc::new(inner) }
    }

    /// octocrab over it. Its own authentication, cache, retries and redirects are not used.
    ///
    /// # Panics
    /// Outside a Tokio runtime: octocrab's buffer starts a task.
    pub(crate) fn octocrab(&self) -> Octocrab {
        let builder = OctocrabBuilder::new_empty().with_service(self.clone()).with_auth(AuthState::None);
        let Ok(octocrab) = builder.build();
        octocrab
    }

    /// The token that is sent now, if it is one that Git takes, too.
    pub(crate) async fn token(&self) -> Result<Option<SecretString>, GithubError> {
        let deadline = self.inner.transport.begin();
        Ok(self.inner.bearer(deadline).await?.token)
    }

    /// Whether requests have credentials.
    pub(crate) fn has_credentials(&self) -> bool {
        !matches!(self.inner.identity, Identity::Anonymous)
    }
}

impl Service<Request<OctoBody>> for GithubService {
    type Response = Response<Full<Bytes>>;
    type Error = GithubError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    /// Always: an error here would end octocrab's buffer for good.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<OctoBody>) -> Self::Future {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let answer = inner.answer(request).await?;
            let mut response = Response::new(Full::new(answer.body));
            *response.status_mut() = answer.status;
            *response.headers_mut() = answer.headers;
            Ok(response)
        })
    }
}

impl Inner {
    async fn answer(&self, request: Request<OctoBody>) -> Result<Answer, GithubError> {
        let call = Call::read(request).await.map_err(|kind| self.transport.error(kind))?;
        if call.method == Method::GET {
            return self.read(&call).await;
        }
        let answer = self.authorized(&call, self.transport.begin()).await;
        // Also when it failed: it may have been done.
        self.cache.forget_repository(&call.target);
        answer
    }

    /// A read: what is kept, or what whoever reads the same right now is answered.
    async fn read(&self, call: &Call) -> Result<Answer, GithubError> {
        let key = call.key();
        // A read that began before a write has nothing to say after it.
        let writes = self.cache.writes();
        let shared = format!("{writes} {key}");
        self.reads.share(&shared, || self.revalidate(call, &key, writes)).await
    }

    /// The kept answer where it holds, asked about where it may, and a new one otherwise.
    async fn revalidate(&self, call: &Call, key: &str, writes: u64) -> Result<Answer, GithubError> {
        let kept = match self.cache.find(key) {
            Found::Fresh(answer) => return Ok(answer),
            Found::Stale(kept) => Some(kept),
            Found::Nothing => None,
        };
        let mut call = call.clone();
        if let Some(Kept { etag, modified, .. }) = kept.clone() {
            call.headers.extend(etag.map(|etag| (IF_NONE_MATCH, etag)));
            call.headers.extend(modified.map(|modified| (IF_MODIFIED_SINCE, modified)));
        }
        match (self.authorized(&call, self.transport.begin()).await, kept) {
            (Ok(answer), Some(kept)) if answer.status == StatusCode::NOT_MODIFIED => {
                self.cache.revalidated(key, &answer.headers);
                Ok(kept.answer)
            }
            (Ok(answer), _) => {
                self.cache.store(key, &answer, writes);
                Ok(answer)
            }
            (Err(error), _) => {
                if !error.is_transient() {
                    self.cache.forget(key);
                }
                Err(error)
            }
        }
    }

    /// The answer to a request with credentials; with new ones if an installation's token is refused, since it may have
    /// been revoked.
    async fn authorized(&self, call: &Call, deadline: Deadline) -> Result<Answer, GithubError> {
        let bearer = self.bearer(deadline).await?;
        let answer = self.transport.exchange(call, &bearer, deadline).await;
        let (Identity::Installation(tokens), Err(error), Some(token)) =
            (&self.identity, &answer, &bearer.token)
        else {
            return answer;
        };
        if !matches!(error.kind(), ErrorKind::Unauthorized { .. }) {
            return answer;
        }
        tokens.forget(token).await;
        let bearer = self.bearer(deadline).await?;
        self.transport.exchange(call, &bearer, deadline).await
    }

    async fn bearer(&self, deadline: Deadline) -> Result<Bearer, GithubError> {
        let (caller, token) = match &self.identity {
            Identity::Anonymous => (Caller::Anonymous, None),
            Identity::Token(token) => (Caller::Token, Some(token.clone())),
            Identity::App(app) => {
                let claim = app.claim(Timestamp::now()).map_err(|kind| self.transport.error(kind))?;
                (Caller::App, Some(claim))
            }
            Identity::Installation(tokens) => {
                let minted = deadline.by_the_end(tokens.current()).await;
                let token = minted.map_err(|failure| self.transport.failed(failure))??;
                (Caller::Installation, Some(token))
            }
        };
        Ok(Bearer { caller, token })
    }
}
