//! The server: authentication, the rate limit, entity tags, faults, and the check of all it says.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State as Extract;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use bytes::Bytes;
use futures::StreamExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::answers;
use crate::apps::InstalledApp;
use crate::description::Description;
use crate::faults::{Fault, Planned};
use crate::objects;
use crate::operations::{self, LIMITS, TOKENS};
use crate::repository::Repository;
use crate::request::{Incoming, Reply};
use crate::state::State;

/// GitHub's API on a free port of 127.0.0.1, until it is dropped.
///
/// # Panics
///
/// When it is dropped, if a request or an answer was not as GitHub describes it.
pub struct StandIn {
    shared: Arc<Shared>,
    address: SocketAddr,
    _stop: DropGuard,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    description: Description,
    api: String,
    git: Option<Router>,
}

impl StandIn {
    /// Starts it, without repositories, tokens or Apps.
    pub async fn start() -> io::Result<Self> {
        Self::start_over(None).await
    }

    /// Starts it as a GitHub Enterprise Server: requests of Git go to `git`, and `/api/v3` may stand before the
    /// others.
    pub async fn start_beside(git: Router) -> io::Result<Self> {
        Self::start_over(Some(git)).await
    }

    async fn start_over(git: Option<Router>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let api = format!("http://{address}");
        let shared =
            Arc::new(Shared { state: Mutex::new(State::new()), description: Description::new(), api, git });
        let router = Router::new().fallback(serve).with_state(shared.clone());
        let stop = CancellationToken::new();
        let stopped = stop.clone().cancelled_owned();
        tokio::spawn(async move {
            tokio::select! {
                _ = async { axum::serve(listener, router).await } => {}
                () = stopped => {}
            }
        });
        Ok(Self { shared, address, _stop: stop.drop_guard() })
    }

    /// The API's URL.
    pub fn api(&self) -> &str {
        &self.shared.api
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The repository `owner/name`, made empty and public if it is not there.
    pub fn repository(&self, name: &str) -> Repository {
        let mut state = self.state();
        let new = || Repository::new(name);
        state.repositories.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// The URL that a source would name a repository by.
    pub fn url_of(&self, repository: &Repository) -> String {
        format!("{}/{}.git", self.shared.api, repository.name())
    }

    /// Lets this token in.
    pub fn allow_token(&self, token: &SecretString) {
        self.state().tokens.insert(token.expose_secret().to_owned());
    }

    /// Whether people may push to repositories, and administer them, from now on: at first they push.
    pub fn let_people(&self, push: bool, administer: bool) {
        let mut state = self.state();
        (state.push, state.administer) = (push, administer);
    }

    /// Installs an App, and answers what its owner has of it.
    pub fn install_app(&self, id: &str, installation: u64) -> InstalledApp {
        self.state().apps.install(id, installation)
    }

    /// Grants an installation these permissions, and no others.
    pub fn grant(&self, installation: u64, permissions: &[(&str, &str)]) {
        let grants = permissions.iter().map(|(name, extent)| ((*name).to_owned(), (*extent).to_owned()));
        if let Some(installed) = self.state().apps.installation(installation) {
            installed.grants = grants.collect();
        }
    }

    /// Says who installed it: the organisation `grafana` unless told otherwise.
    pub fn installed_by(&self, installation: u64, owner: &str, is_organisation: bool) {
        if let Some(installed) = self.state().apps.installation(installation) {
            (installed.owner, installed.by_organisation) = (owner.to_owned(), is_organisation);
        }
    }

    /// Suspends an installation, as its owner may.
    pub fn suspend(&self, installation: u64) {
        if let Some(installed) = self.state().apps.installation(installation) {
            installed.suspended = true;
        }
    }

    /// Removes an installation and ends its tokens, as its owner may.
    pub fn uninstall(&self, installation: u64) {
        self.state().apps.uninstall(installation);
    }

    /// Deletes an App, with its installations and their tokens.
    pub fn delete_app(&self, id: &str) {
        self.state().apps.delete(id);
    }

    /// How long the tokens of Apps live from now on.
    pub fn let_tokens_live(&self, lifetime: Duration) {
        self.state().apps.lifetime = Some(lifetime);
    }

    /// Ends all tokens of Apps.
    pub fn revoke_app_tokens(&self) {
        self.state().apps.revoke();
    }

    /// How many tokens Apps were given.
    pub fn minted(&self) -> usize {
        self.state().apps.minted
    }

    /// How long answers may be used again without asking, from now on. Nothing, at first; GitHub says a minute.
    pub fn let_answers_live(&self, max_age: Duration) {
        self.state().max_age = max_age;
    }

    /// Lets the next `times` requests whose path (with its query) contains `path` fail.
    pub fn fail(&self, path: &str, times: usize, fault: Fault) {
        self.state().faults.push(Planned { path: path.to_owned(), times, fault });
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// What was asked so far, as `GET /repos/o/r/commits?sha=… 200`.
    pub fn requests(&self) -> Vec<String> {
        self.state().requests.clone()
    }

    /// Requests that counted against the rate limit.
    pub fn spent(&self) -> u64 {
        self.state().used
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let violations = std::mem::take(&mut self.state().violations);
        if !std::thread::panicking() {
            assert!(violations.is_empty(), "not as GitHub describes it: {violations:#?}");
        }
    }
}

async fn serve(Extract(shared): Extract<Arc<Shared>>, mut request: Request<Body>) -> Response<Body> {
    let is_git = |path: &str| {
        ["/info/refs", "/git-upload-pack", "/git-receive-pack"].iter().any(|it| path.ends_with(it))
    };
    if let Some(git) = shared.git.clone().filter(|_| is_git(request.uri().path())) {
        return crate::git::serve(&shared, git, request).await;
    }
    let below = request.uri().path_and_query().and_then(|it| it.as_str().strip_prefix("/api/v3"));
    if let Some(Ok(below)) = below.map(str::parse) {
        *request.uri_mut() = below;
    }
    let incoming = Incoming::read(request).await;
    let fault = shared.state().fault(&incoming.target);
    if let Some(Fault::Silent) = fault {
        shared.state().requests.push(format!("{} {} -", incoming.method, incoming.target));
        std::future::pending::<()>().await;
    }
    let (status, response) = shared.answer(&incoming, fault);
    shared.state().requests.push(format!("{} {} {status}", incoming.method, incoming.target));
    response
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, incoming: &Incoming, fault: Option<Fault>) -> (u16, Response<Body>) {
        let mut state = self.state();
        if let Some(Fault::LimitUsedUp(reset)) = fault {
            state.use_up(reset);
        }
        let refused = fault.as_ref().and_then(Fault::refusal);
        let answered = match refused {
            // What fails was not done.
            Some(reply) => {
                operations::identify(&self.description, incoming).map(|operation| (operation, reply))
            }
            None => operations::respond(&mut state, &self.description, &self.api, incoming),
        };
        let (operation, mut reply) = match answered {
            Ok(found) => found,
            Err(violation) => return violated(&mut state, violation),
        };
        match &fault {
            Some(Fault::StatusAfterwards(status)) => reply = Reply::refuse(*status, "on demand"),
            Some(Fault::WrongBase64) => set_content(&mut reply, "bm8g*YmFzZTY0\n"),
            Some(Fault::OtherContent) => set_content(&mut reply, &answers::encoded(b"something else")),
            Some(Fault::Redirect(target)) => return redirect(StatusCode::MOVED_PERMANENTLY, target),
            Some(Fault::RedirectVerbatim(target)) => return redirect(StatusCode::TEMPORARY_REDIRECT, target),
            Some(Fault::NoJson) => return raw(StatusCode::OK, "<html>no JSON</html>".to_owned()),
            Some(Fault::Huge(bytes)) => return huge(*bytes),
            _ => {}
        }
        self.finish(&mut state, operation, incoming, reply, matches!(fault, Some(Fault::Truncated)))
    }

    /// Headers, the entity tag, the count, and the check against the description.
    fn finish(
        &self,
        state: &mut State,
        operation: &str,
        incoming: &Incoming,
        reply: Reply,
        truncated: bool,
    ) -> (u16, Response<Body>) {
        let mut body = reply.body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let mut headers = HeaderMap::new();
        let mut status = reply.status;
        let mut put = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        if !body.is_empty() {
            put("content-type", "application/json; charset=utf-8".to_owned());
        }
        if status == StatusCode::OK && incoming.method == "GET" {
            let tag = format!("W/\"{}\"", objects::blob(&body));
            let sent = incoming.headers.get(header::IF_NONE_MATCH);
            let same = sent.is_some_and(|sent| sent.as_bytes() == tag.as_bytes());
            put("etag", tag);
            put("cache-control", format!("private, max-age={0}, s-maxage={0}", state.max_age.as_secs()));
            put("vary", "Accept, Authorization, Cookie, X-GitHub-OTP".to_owned());
            if same {
                status = StatusCode::NOT_MODIFIED;
                body.clear();
            }
        }
        if let Some(page) = reply.next_page {
            put("link", format!("<{}/next?page={page}>; rel=\"next\"", self.api));
        }
        if let Some(wait) = reply.retry_after {
            put("retry-after", wait.as_secs().to_string());
        }
        if let Some(needs) = reply.needs {
            put("x-accepted-github-permissions", needs);
        }
        if status != StatusCode::NOT_MODIFIED && !matches!(operation, LIMITS | TOKENS) {
            state.used += 1;
        }
        let limit = state.limit();
        put("x-ratelimit-limit", limit.most.to_string());
        put("x-ratelimit-used", limit.used.to_string());
        put("x-ratelimit-remaining", limit.remaining().to_string());
        put("x-ratelimit-reset", limit.reset.to_string());
        put("x-ratelimit-resource", "core".to_owned());
        let accept = incoming.headers.get(header::ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if let Err(violation) = self.description.answer(operation, accept, status, &headers, &body) {
            return violated(state, violation);
        }
        let body = if truncated {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
            body.truncate(body.len() / 2);
            let pieces = [Ok(Bytes::from(body)), Err(io::Error::other("cut off on demand"))];
            Body::from_stream(futures::stream::iter(pieces))
        } else {
            Body::from(body)
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        (status.as_u16(), response)
    }
}

fn violated(state: &mut State, violation: String) -> (u16, Response<Body>) {
    let body = answers::error(500, &violation).to_string();
    state.violations.push(violation);
    raw(StatusCode::INTERNAL_SERVER_ERROR, body)
}

fn set_content(reply: &mut Reply, content: &str) {
    if let Some(body) = &mut reply.body {
        body["content"] = json!(content);
    }
}

fn redirect(status: StatusCode, target: &str) -> (u16, Response<Body>) {
    let mut response = raw(status, String::new());
    if let Ok(target) = HeaderValue::from_str(target) {
        response.1.headers_mut().insert(header::LOCATION, target);
    }
    response
}

fn raw(status: StatusCode, body: String) -> (u16, Response<Body>) {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    (status.as_u16(), response)
}

/// A JSON string that never seems to end.
fn huge(bytes: usize) -> (u16, Response<Body>) {
    const PIECE: usize = 64 << 10;
    let pieces = (0..bytes.div_ceil(PIECE)).map(|at| {
        let mut piece = vec![b'x'; PIECE];
        if at == 0 {
            piece[0] = b'"';
        }
        Ok::<_, io::Error>(Bytes::from(piece))
    });
    (200, Response::new(Body::from_stream(futures::stream::iter(pieces).boxed())))
}
