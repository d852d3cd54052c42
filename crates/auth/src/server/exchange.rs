//! The HTTP face of the [`Issuer`].

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State, rejection::BytesRejection},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use secrecy::ExposeSecret as _;

use crate::server::{
    authenticate::bearer,
    issuer::{GrantError, Issuer, TokenRequest},
};

/// Requests are a few hundred bytes; a subject token adds a few thousand.
const MAX_BODY: usize = 64 * 1024;

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

async fn sign(
    State(issuer): State<Issuer>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let token = match body {
        Ok(body) => grant(&issuer, &headers, &body),
        Err(rejection) => {
            let mut response = failure(&GrantError::BadRequest(rejection.body_text()));
            *response.status_mut() = rejection.status();
            return response;
        }
    };
    match token {
        Ok(token) => {
            let body = serde_json::json!({"data": {"token": token.expose_secret()}, "status": "success"});
            let mut response = Json(body).into_response();
            response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => failure(&error),
    }
}

fn grant(issuer: &Issuer, headers: &HeaderMap, body: &[u8]) -> Result<secrecy::SecretString, GrantError> {
    let system_token = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| bearer(value).ok())
        .ok_or(GrantError::NoSystemToken)?;
    let request: TokenRequest = serde_json::from_slice(body)
        .map_err(|error| GrantError::BadRequest(format!("the body is no token request: {error}")))?;
    issuer.exchange(system_token, &request)
}

fn failure(error: &GrantError) -> Response {
    let code = match error {
        GrantError::NoSystemToken | GrantError::UnknownSystemToken | GrantError::DefaultTokenRefused => {
            StatusCode::UNAUTHORIZED
        }
        GrantError::BadRequest(_) => StatusCode::BAD_REQUEST,
        GrantError::AudienceRefused { .. } | GrantError::NamespaceRefused { .. } => StatusCode::FORBIDDEN,
        GrantError::Sign => StatusCode::INTERNAL_SERVER_ERROR,
    };
    tracing::info!(code = code.as_u16(), error = %error, "token exchange refused");
    (code, Json(serde_json::json!({"status": "error", "error": error.to_string()}))).into_response()
}
