//! The HTTP face of the [`Issuer`].

use std::time::Duration;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest as _, Request, State},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use secrecy::{ExposeSecret as _, SecretString};

use crate::server::{
    authenticate::bearer,
    issuer::{GrantError, Issuer, TokenRequest},
};

/// Requests are a few hundred bytes; a subject token adds a few thousand.
const MAX_BODY: usize = 64 * 1024;
/// How long they may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);

/// `POST /sign/access-token`, `GET /jwks` and `GET /.well-known/jwks.json`, as Grafana's exchange answers them.
/// `X-Realms` and `X-Org-ID` are accepted and mean nothing here: there is one realm, and tenants are namespaces.
pub fn exchange_router(issuer: Issuer) -> Router {
    Router::new()
        .route("/sign/access-token", post(sign))
        .route("/jwks", get(jwks))
        .route("/.well-known/jwks.json", get(jwks))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(issuer)
}

async fn jwks(State(issuer): State<Issuer>) -> Response {
    Json(issuer.jwks()).into_response()
}

/// Who asks is known before the body is read.
async fn sign(State(issuer): State<Issuer>, request: Request) -> Response {
    let system_token = match known(&issuer, request.headers()) {
        Ok(token) => token,
        Err(error) => return failure(&error),
    };
    let body = match tokio::time::timeout(ARRIVES_WITHIN, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => body,
        Ok(Err(rejection)) => return refused(rejection.status(), rejection.body_text()),
        Err(_) => return refused(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".to_owned()),
    };
    match grant(&issuer, &system_token, &body) {
        Ok(token) => {
            let body = serde_json::json!({"data": {"token": token.expose_secret()}, "status": "success"});
            let mut response = Json(body).into_response();
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => failure(&error),
    }
}

fn refused(status: StatusCode, why: String) -> Response {
    let mut response = failure(&GrantError::BadRequest(why));
    *response.status_mut() = status;
    response
}

/// The system token of a request, if it is one of ours.
fn known(issuer: &Issuer, headers: &HeaderMap) -> Result<SecretString, GrantError> {
    let system_token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| bearer(value).ok())
        .ok_or(GrantError::NoSystemToken)?;
    issuer.knows(system_token)?;
    Ok(system_token.into())
}

fn grant(issuer: &Issuer, system_token: &SecretString, body: &[u8]) -> Result<SecretString, GrantError> {
    let request: TokenRequest = serde_json::from_slice(body)
        .map_err(|error| GrantError::BadRequest(format!("the body is no token request: {error}")))?;
    issuer.exchange(system_token.expose_secret(), &request)
}

fn failure(error: &GrantError) -> Response {
    let code = match error {
        GrantError::NoSystemToken | GrantError::UnknownSystemToken | GrantError::DefaultTokenRefused => {
            StatusCode::UNAUTHORIZED
        }
        GrantError::BadRequest(_) => StatusCode::BAD_REQUEST,
        GrantError::AudienceRefused { .. }
        | GrantError::NamespaceRefused { .. }
        | GrantError::NothingInCommon { .. } => StatusCode::FORBIDDEN,
        GrantError::Sign => StatusCode::INTERNAL_SERVER_ERROR,
    };
    tracing::info!(code = code.as_u16(), error = %error, "token exchange refused");
    (code, Json(serde_json::json!({"status": "error", "error": error.to_string()}))).into_response()
}
