//! Git beside the API: who is let in, and transfers that wait until a test lets them go on.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use base64::Engine as _;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::server::{Shared, StandIn};
use crate::state::State;

/// Bytes of a request that are read.
const LARGEST: usize = 64 << 20;

/// What stands before Git.
pub(crate) struct Door {
    /// Whether only those come in whose token is good.
    guarded: bool,
    /// Whether transfers go on.
    open: watch::Sender<bool>,
    /// The tokens of transfers that wait.
    waiting: Vec<SecretString>,
}

impl Default for Door {
    fn default() -> Self {
        Self { guarded: false, open: watch::Sender::new(true), waiting: Vec::new() }
    }
}

impl StandIn {
    /// From now on Git wants a token that is good, as it does for private repositories.
    pub fn guard_git(&self) {
        self.state().door.guarded = true;
    }

    /// Has transfers wait before anything is looked at, until [`StandIn::let_transfers_go_on`].
    pub fn hold_transfers(&self) {
        self.state().door.open.send_replace(false);
    }

    /// Lets those go on that wait, and all others.
    pub fn let_transfers_go_on(&self) {
        let mut state = self.state();
        state.door.waiting.clear();
        state.door.open.send_replace(true);
    }

    /// The tokens of the transfers that wait.
    pub fn held_transfers(&self) -> Vec<SecretString> {
        self.state().door.waiting.clone()
    }

    /// Whether this token is good now.
    pub fn lets_in(&self, token: &SecretString) -> bool {
        self.state().lets_in(token.expose_secret())
    }
}

impl State {
    fn lets_in(&self, token: &str) -> bool {
        self.tokens.contains(token) || self.apps.token(token).is_some()
    }
}

/// Answers a request of Git.
pub(crate) async fn serve(shared: &Shared, git: Router, request: Request<Body>) -> Response<Body> {
    let token = token(request.headers());
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, LARGEST).await.unwrap_or_default();
    let is_transfer = body.windows(13).any(|piece| piece == b"command=fetch");
    let mut open = {
        let mut state = shared.state();
        if is_transfer && !*state.door.open.borrow() {
            state.door.waiting.push(SecretString::from(token.clone()));
        }
        state.door.open.subscribe()
    };
    if is_transfer {
        // It fails when the stand-in is gone.
        let _ = open.wait_for(|open| *open).await;
    }
    let refused = {
        let state = shared.state();
        state.door.guarded && !state.lets_in(&token)
    };
    if refused {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        let challenge = axum::http::HeaderValue::from_static("Basic realm=\"GitHub\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        return response;
    }
    git.oneshot(Request::from_parts(parts, Body::from(body))).await.unwrap_or_default()
}

/// The password of Basic authentication.
fn token(headers: &HeaderMap) -> String {
    let pair = || {
        let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
        let pair = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
        Some(String::from_utf8(pair).ok()?.split_once(':')?.1.to_owned())
    };
    pair().unwrap_or_default()
}
