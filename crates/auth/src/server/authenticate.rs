//! The middleware in front of every API request.

use axum::{
    Router,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use windlass_api::status;

use crate::{
    listen::PeerIdentity,
    server::{
        caller::Caller,
        scope::RequestScope,
        verify::{TokenError, Verifier},
    },
};

/// Carries an access token, before `Authorization` and before a client certificate.
const ACCESS_TOKEN: &str = "x-access-token";

/// Lets authenticated requests through with their [`Caller`] as an extension, which their answers have too; answers 401
/// and 403 itself.
///
/// `X-Access-Token` wins over `Authorization`, which wins over the connection's [`PeerIdentity`]. A token that is
/// presented must be valid, whatever else is presented. Health and version are open to anybody.
#[derive(Clone, Debug)]
pub struct Authenticator {
    verifier: Verifier,
}

impl Authenticator {
    /// An authenticator for the tokens that `verifier` accepts.
    pub fn new(verifier: Verifier) -> Self {
        Self { verifier }
    }

    /// Puts `router` behind this authenticator.
    ///
    /// Beside authentication it holds each caller to the group and namespace of the path
    /// ([`RequestScope`], [`Caller::may_use`]), so that no handler can forget to.
    pub fn protect(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), authenticate))
    }

    /// Who sent a request with these headers over a connection of this peer.
    ///
    /// # Errors
    /// [`TokenError`], fit for the 401 answer.
    pub fn caller(&self, headers: &HeaderMap, peer: Option<&PeerIdentity>) -> Result<Caller, TokenError> {
        for name in [ACCESS_TOKEN, header::AUTHORIZATION.as_str()] {
            if let Some(value) = headers.get(name) {
                return self.verifier.verify(bearer(value)?);
            }
        }
        peer.map(|peer| Caller::from_certificate(&peer.name, &peer.groups)).ok_or(TokenError::Missing)
    }
}

async fn authenticate(
    State(authenticator): State<Authenticator>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Err(refused) = refuse_impersonation(request.headers()) {
        return respond(&refused);
    }
    let scope = RequestScope::of(request.uri().path());
    let peer = request.extensions().get::<PeerIdentity>();
    let caller = match (authenticator.caller(request.headers(), peer), &scope) {
        (Ok(caller), _) => caller,
        (Err(_), RequestScope::Anonymous | RequestScope::Signed) => Caller::anonymous(),
        (Err(error), _) => {
            tracing::debug!(path = request.uri().path(), error = %error, "request refused");
            let mut answer = respond(&status::unauthorized(error.to_string()));
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return answer;
        }
    };
    if let RequestScope::Resource { group, namespace } = &scope
        && let Err(denied) = caller.may_use(group, namespace)
    {
        tracing::debug!(path = request.uri().path(), error = %denied, "request refused");
        let mut answer = respond(&status::error(403, "Forbidden", denied.to_string()));
        answer.extensions_mut().insert(caller);
        return answer;
    }
    request.extensions_mut().insert(caller.clone());
    let mut answer = next.run(request).await;
    answer.extensions_mut().insert(caller);
    answer
}

/// Refuses a request that asks to be answered as if somebody else had sent it, as `kubectl --as` does: answered with the
/// sender's own rights it would do more than was asked for.
///
/// # Errors
/// The 403 answer.
pub fn refuse_impersonation(headers: &HeaderMap) -> Result<(), Box<Status>> {
    match headers.keys().find(|name| name.as_str().starts_with("impersonate-")) {
        None => Ok(()),
        Some(name) => {
            let message =
                format!("impersonation is not supported: send the request without the header {name}");
            Err(Box::new(status::error(403, "Forbidden", message)))
        }
    }
}

pub(crate) fn respond(status: &Status) -> Response {
    let code = StatusCode::from_u16(status::code(status)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (code, axum::Json(status)).into_response()
}

/// The token of a `Bearer` header; the scheme's case does not matter (RFC 9110, 11.1).
pub(crate) fn bearer(value: &HeaderValue) -> Result<&str, TokenError> {
    let value = value.to_str().map_err(|_| TokenError::Malformed("the header is not plain text"))?;
    let (scheme, token) =
        value.split_once(' ').ok_or(TokenError::Malformed("the header does not read \"Bearer <token>\""))?;
    let token = token.trim();
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(TokenError::Malformed("the header does not read \"Bearer <token>\""));
    }
    if token.is_empty() {
        return Err(TokenError::Malformed("the header has no token after \"Bearer\""));
    }
    Ok(token)
}
