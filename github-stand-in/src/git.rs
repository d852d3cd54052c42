//! Git beside the API: who is let in, and transfers that wait until a test lets them go on.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode, header};
use base64::Engine as _;
use secrecy::SecretString;
use tower::ServiceExt as _;

use crate::shared::Shared;

/// Bytes of a request that are read.
const LARGEST: usize = 64 << 20;

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
