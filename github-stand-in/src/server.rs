//! The server: routing, authentication, the rate limit, entity tags, faults, and the check of all it says.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State as Extract;
use axum::http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use bytes::Bytes;
use futures::StreamExt as _;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::answers::{self, Place};
use crate::apps::{InstalledApp, NoToken};
use crate::description::Description;
use crate::faults::{Fault, Planned};
use crate::objects;
use crate::repository::Repository;
use crate::state::{Limit, State};

/// Bytes of a request's body that are read.
const MAX_REQUEST: usize = 64 << 10;

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

struct Shared {
    state: Mutex<State>,
    description: Description,
    api: String,
}

impl StandIn {
    /// Starts it, without repositories, tokens or Apps.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let api = format!("http://{address}");
        let shared =
            Arc::new(Shared { state: Mutex::new(State::new()), description: Description::new(), api });
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

    /// Installs an App, and answers what its owner has of it.
    pub fn install_app(&self, id: &str, installation: u64) -> InstalledApp {
        self.state().apps.install(id, installation)
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

    fn state(&self) -> MutexGuard<'_, State> {
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

/// A request, taken apart.
struct Ask {
    method: Method,
    /// With its query.
    target: String,
    path: Vec<String>,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
}

/// An answer, before headers of all answers are put on it.
struct Say {
    operation: &'static str,
    status: StatusCode,
    body: Value,
    link: Option<String>,
    retry_after: Option<Duration>,
}

impl Say {
    fn ok(operation: &'static str, body: Value) -> Self {
        Self { operation, status: StatusCode::OK, body, link: None, retry_after: None }
    }

    fn refuse(operation: &'static str, status: u16, message: &str) -> Self {
        let body = answers::error(status, message);
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        Self { operation, status, body, link: None, retry_after: None }
    }
}

const LIMITS: &str = "GET /rate_limit";
const COMMITS: &str = "GET /repos/{owner}/{repo}/commits";
const CONTENTS: &str = "GET /repos/{owner}/{repo}/contents/{path}";
const BLOB: &str = "GET /repos/{owner}/{repo}/git/blobs/{file_sha}";
const TOKENS: &str = "POST /app/installations/{installation_id}/access_tokens";

async fn serve(Extract(shared): Extract<Arc<Shared>>, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let decode = |text: &str| {
        let encoded = format!("x={}", text.replace('+', "%2B"));
        let mut pairs = serde_pairs(&encoded);
        pairs.pop().map(|(_, value)| value).unwrap_or_default()
    };
    let ask = Ask {
        target: parts.uri.to_string(),
        path: parts.uri.path().split('/').skip(1).map(decode).collect(),
        query: serde_pairs(parts.uri.query().unwrap_or_default()),
        method: parts.method,
        headers: parts.headers,
        body: to_bytes(body, MAX_REQUEST).await.unwrap_or_default(),
    };
    let fault = shared.state().fault(&ask.target);
    if let Some(Fault::Silent) = fault {
        shared.state().requests.push(format!("{} {} -", ask.method, ask.target));
        std::future::pending::<()>().await;
    }
    let (status, response) = shared.answer(&ask, fault);
    shared.state().requests.push(format!("{} {} {status}", ask.method, ask.target));
    response
}

fn serde_pairs(query: &str) -> Vec<(String, String)> {
    axum::extract::Query::try_from_uri(
        &http::Uri::builder().path_and_query(format!("/?{query}")).build().unwrap_or_default(),
    )
    .map(|axum::extract::Query(pairs)| pairs)
    .unwrap_or_default()
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, ask: &Ask, fault: Option<Fault>) -> (u16, Response<Body>) {
        let mut state = self.state();
        if let Some(Fault::LimitUsedUp(reset)) = &fault {
            state.use_up(*reset);
        }
        let mut say = match self.judge(&mut state, ask) {
            Ok(say) => say,
            Err(violation) => {
                state.violations.push(violation.clone());
                return raw(StatusCode::INTERNAL_SERVER_ERROR, answers::error(500, &violation).to_string());
            }
        };
        match &fault {
            Some(Fault::Status(status)) => say = Say::refuse(say.operation, *status, "on demand"),
            Some(Fault::StatusRetryAfter(status, wait)) => {
                say = Say { retry_after: Some(*wait), ..Say::refuse(say.operation, *status, "on demand") };
            }
            Some(Fault::SecondaryLimit(wait)) => {
                let message = "You have exceeded a secondary rate limit. Please wait a few minutes.";
                say = Say { retry_after: *wait, ..Say::refuse(say.operation, 403, message) };
            }
            Some(Fault::WrongBase64) => say.body["content"] = json!("bm8g*YmFzZTY0\n"),
            Some(Fault::OtherContent) => say.body["content"] = json!(answers::encoded(b"something else")),
            Some(Fault::Redirect(target)) => {
                let mut response = raw(StatusCode::MOVED_PERMANENTLY, String::new());
                if let Ok(target) = HeaderValue::from_str(target) {
                    response.1.headers_mut().insert(header::LOCATION, target);
                }
                return response;
            }
            Some(Fault::NoJson) => return raw(StatusCode::OK, "<html>no JSON</html>".to_owned()),
            Some(Fault::Huge(bytes)) => return huge(*bytes),
            _ => {}
        }
        self.finish(&mut state, ask, say, matches!(fault, Some(Fault::Truncated)))
    }

    /// Who asks, whether they may, and what they are told.
    fn judge(&self, state: &mut State, ask: &Ask) -> Result<Say, String> {
        let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
        let token = ask
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer ").or_else(|| value.strip_prefix("token ")));
        if !ask.headers.contains_key(header::USER_AGENT) {
            return Err("a request without User-Agent: GitHub refuses it".to_owned());
        }
        if let ("POST", ["app", "installations", id, "access_tokens"]) = (ask.method.as_str(), &path[..]) {
            return self.mint(state, ask, token, id);
        }
        let operation = operation(&path).filter(|_| ask.method == Method::GET);
        let Some((operation, parameters)) = operation else {
            return Err(format!("{} {} is not one of the operations", ask.method, ask.target));
        };
        self.description.request(operation, &parameters, &ask.query, None)?;
        let known = match token {
            None => false,
            Some(token) => {
                if !state.tokens.contains(token) && !state.apps.knows(token) {
                    return Ok(Say::refuse(operation, 401, "Bad credentials"));
                }
                true
            }
        };
        if operation == LIMITS {
            return Ok(Say::ok(operation, answers::limits(state.limit())));
        }
        if state.is_used_up() {
            return Ok(Say::refuse(operation, 403, "API rate limit exceeded for user ID 1."));
        }
        let name = format!("{}/{}", path[1], path[2]);
        let repository = state.repositories.get(&name).filter(|it| known || !it.is_private()).cloned();
        Ok(match repository {
            None => Say::refuse(operation, 404, "Not Found"),
            Some(repository) => {
                let place = Place { api: self.api.clone(), repository: name };
                read(operation, &place, &repository, &path[3..], ask)
            }
        })
    }

    fn mint(&self, state: &mut State, ask: &Ask, claim: Option<&str>, id: &str) -> Result<Say, String> {
        let body: Option<Value> = match ask.body.len() {
            0 => None,
            _ => Some(serde_json::from_slice(&ask.body).map_err(|error| format!("a body: {error}"))?),
        };
        self.description.request(TOKENS, &[("installation_id", id)], &ask.query, body.as_ref())?;
        if !state.apps.any() {
            return Ok(Say::refuse(TOKENS, 401, "Integration not found"));
        }
        Ok(match state.apps.mint(claim, id.parse().unwrap_or_default()) {
            Ok((token, until)) => {
                let until = until.round(jiff::Unit::Second).unwrap_or(until);
                let body = json!({ "token": token, "expires_at": until.to_string(),
                    "permissions": body.map_or(json!({}), |body| body["permissions"].clone()),
                    "repository_selection": "selected" });
                Say { status: StatusCode::CREATED, ..Say::ok(TOKENS, body) }
            }
            Err(NoToken::Claim(message)) => Say::refuse(TOKENS, 401, message),
            Err(NoToken::Installation) => Say::refuse(TOKENS, 404, "Not Found"),
        })
    }

    /// Headers, the entity tag, the count, and the check against the description.
    fn finish(&self, state: &mut State, ask: &Ask, say: Say, truncated: bool) -> (u16, Response<Body>) {
        let mut body = say.body.to_string().into_bytes();
        let mut headers = HeaderMap::new();
        let mut status = say.status;
        let mut put = |name: &'static str, value: String| {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        };
        put("content-type", "application/json; charset=utf-8".to_owned());
        if status == StatusCode::OK {
            let tag = format!("W/\"{}\"", objects::blob(&body));
            let same =
                ask.headers.get(header::IF_NONE_MATCH).is_some_and(|sent| sent.as_bytes() == tag.as_bytes());
            put("etag", tag);
            put("cache-control", format!("private, max-age={0}, s-maxage={0}", state.max_age.as_secs()));
            put("vary", "Accept, Authorization, Cookie, X-GitHub-OTP".to_owned());
            if same {
                status = StatusCode::NOT_MODIFIED;
                body.clear();
            }
        }
        if let Some(link) = say.link {
            put("link", link);
        }
        if let Some(wait) = say.retry_after {
            put("retry-after", wait.as_secs().to_string());
        }
        if status != StatusCode::NOT_MODIFIED && !matches!(say.operation, LIMITS | TOKENS) {
            state.used += 1;
        }
        let limit: Limit = state.limit();
        put("x-ratelimit-limit", limit.most.to_string());
        put("x-ratelimit-used", limit.used.to_string());
        put("x-ratelimit-remaining", limit.remaining().to_string());
        put("x-ratelimit-reset", limit.reset.to_string());
        put("x-ratelimit-resource", "core".to_owned());
        let accept = ask.headers.get(header::ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
        if let Err(violation) = self.description.answer(say.operation, accept, status, &headers, &body) {
            state.violations.push(violation.clone());
            return raw(StatusCode::INTERNAL_SERVER_ERROR, answers::error(500, &violation).to_string());
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

/// The operation of a path, and its parameters.
fn operation<'a>(path: &[&'a str]) -> Option<(&'static str, Vec<(&'static str, &'a str)>)> {
    let (owner, name, below) = match path {
        ["rate_limit"] => return Some((LIMITS, Vec::new())),
        ["repos", owner, name, below @ ..] => (*owner, *name, below),
        _ => return None,
    };
    let mut parameters = vec![("owner", owner), ("repo", name)];
    let operation = match below {
        ["commits"] => COMMITS,
        ["git", "blobs", sha] => {
            parameters.push(("file_sha", sha));
            BLOB
        }
        ["contents", first, ..] => {
            parameters.push(("path", first));
            CONTENTS
        }
        _ => return None,
    };
    Some((operation, parameters))
}

/// The answer about a repository; `below` is the path after its name.
fn read(operation: &'static str, place: &Place, repository: &Repository, below: &[&str], ask: &Ask) -> Say {
    let query = |name: &str| ask.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if repository.is_empty() {
        return Say::refuse(operation, 409, "Git Repository is empty.");
    }
    match (operation, below) {
        (COMMITS, _) => {
            let number =
                |name: &str, default: usize| query(name).and_then(|it| it.parse().ok()).unwrap_or(default);
            let Some(head) = repository.commit(query("sha").unwrap_or("main")) else {
                return Say::refuse(operation, 404, "Not Found");
            };
            let listed = repository.history(&head, query("path"));
            let (size, page) = (number("per_page", 30).clamp(1, 100), number("page", 1).max(1));
            let from = (size * (page - 1)).min(listed.len());
            let to = (from + size).min(listed.len());
            let body = listed[from..to].iter().map(|commit| answers::listed_commit(place, commit)).collect();
            let next = format!("<{}/next?page={}>; rel=\"next\"", place.api, page + 1);
            Say { link: (to < listed.len()).then_some(next), ..Say::ok(operation, body) }
        }
        (BLOB, [.., sha]) => match repository.blob(sha) {
            Some(bytes) => Say::ok(operation, answers::blob(place, sha, &bytes)),
            None => Say::refuse(operation, 404, "Not Found"),
        },
        (CONTENTS, [_, path @ ..]) => {
            let reference = query("ref").unwrap_or("main");
            let path = path.join("/");
            let Some(commit) = repository.commit(reference) else {
                return Say::refuse(operation, 404, &format!("No commit found for the ref {reference}"));
            };
            if let Some(bytes) = commit.files.get(&path).and_then(|sha| repository.blob(sha)) {
                return Say::ok(operation, answers::file(place, &path, reference, &bytes));
            }
            let folder = format!("{path}/");
            let files: Vec<_> = commit
                .files
                .iter()
                .filter_map(|(file, sha)| Some((file.strip_prefix(&folder)?.to_owned(), sha.clone())))
                .filter(|(name, _)| !name.contains('/'))
                .map(|(name, sha)| (name, sha.clone(), repository.blob(&sha).map_or(0, |bytes| bytes.len())))
                .collect();
            if files.is_empty() {
                return Say::refuse(operation, 404, "Not Found");
            }
            Say::ok(operation, answers::folder(place, &path, reference, &files))
        }
        _ => Say::refuse(operation, 404, "Not Found"),
    }
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
