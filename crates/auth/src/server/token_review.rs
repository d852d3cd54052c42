//! Who a bearer token belongs to, asked of a Kubernetes API server: `TokenReview`.

use super::rights::Rights;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::{HeaderMap, HeaderValue, header};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use windlass_api::status;
use windlass_telemetry::ErrorChain;

use super::authenticate::{bearer, respond};
use super::caller::{Audiences, Caller, Namespaces};
use super::scope::RequestScope;
use super::ttl_cache::TtlCache;

/// How long a token that was found good is taken to be so: as long a revoked one goes on working.
const GOOD_FOR: Duration = Duration::from_secs(10);
/// How long a token that was refused is refused without asking again.
const BAD_FOR: Duration = Duration::from_secs(2);
/// Tokens whose answers are kept.
const MOST: usize = 1024;
/// How long the API server may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// A longer text is no token.
const LONGEST: usize = 64 * 1024;

/// Lets requests through whose bearer token a Kubernetes API server knows.
#[derive(Clone)]
pub struct TokenReviews {
    client: Client,
    audiences: Vec<String>,
    /// By the token's SHA-256, so that no token is kept.
    cache: Arc<TtlCache<[u8; 32], Option<Caller>>>,
}

/// Why a request has no caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// There is no token, or none that the API server knows.
    #[error("Unauthorized")]
    Unauthenticated,
    /// The API server could not be asked; the request may be tried again.
    #[error("the API server could not be asked who the token belongs to; try again")]
    Unavailable,
}

impl std::fmt::Debug for TokenReviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenReviews").field("audiences", &self.audiences).finish_non_exhaustive()
    }
}

impl TokenReviews {
    /// Asks through `client`, which needs the right to create `tokenreviews`. A token has to be for one of `audiences`;
    /// for the API server itself when there is none.
    pub fn new(client: Client, audiences: Vec<String>) -> Self {
        Self { client, audiences, cache: Arc::new(TtlCache::new(MOST)) }
    }

    /// Puts `router` behind this: requests carry their [`Caller`] as an extension, 401 and 503 are answered here.
    pub fn protect(&self, router: Router) -> Router {
        router.layer(from_fn_with_state(self.clone(), authenticate))
    }

    /// Who sent a request with these headers. What the caller may do is not in the answer: see `AccessReviews`.
    ///
    /// # Errors
    /// [`ReviewError::Unauthenticated`] for a client's error, [`ReviewError::Unavailable`] for an outage.
    pub async fn caller(&self, headers: &HeaderMap) -> Result<Caller, ReviewError> {
        let value = headers.get(header::AUTHORIZATION).ok_or(ReviewError::Unauthenticated)?;
        let token = bearer(value).map_err(|_malformed| ReviewError::Unauthenticated)?;
        if token.len() > LONGEST {
            return Err(ReviewError::Unauthenticated);
        }
        let mut key = [0; 32];
        key.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(known) = self.cache.get(&key) {
            return known.ok_or(ReviewError::Unauthenticated);
        }
        let status = self.review(token).await?;
        let caller = read(status, &self.audiences);
        self.cache.insert(key, caller.clone(), if caller.is_some() { GOOD_FOR } else { BAD_FOR });
        caller.ok_or(ReviewError::Unauthenticated)
    }

    async fn review(&self, token: &str) -> Result<TokenReviewStatus, ReviewError> {
        let review = TokenReview {
            spec: TokenReviewSpec {
                token: Some(token.to_owned()),
                audiences: (!self.audiences.is_empty()).then(|| self.audiences.clone()),
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        match tokio::time::timeout(DEADLINE, api.create(&PostParams::default(), &review)).await {
            Ok(Ok(answer)) => Ok(answer.status.unwrap_or_default()),
            Ok(Err(error)) => {
                tracing::warn!(
                    error = %ErrorChain(&error),
                    "a token could not be reviewed; the Role for it is system:auth-delegator (deploy/rbac/token-review.yaml)"
                );
                Err(ReviewError::Unavailable)
            }
            Err(_elapsed) => {
                tracing::warn!(after_seconds = DEADLINE.as_secs(), "a token review was not answered in time");
                Err(ReviewError::Unavailable)
            }
        }
    }
}

/// The caller that a review found; nothing when the token is good for nobody, or not for us.
fn read(status: TokenReviewStatus, wanted: &[String]) -> Option<Caller> {
    if status.authenticated != Some(true) {
        return None;
    }
    // A server that knows nothing of audiences answers none, and has not checked them.
    let held: BTreeSet<String> = status.audiences.unwrap_or_default().into_iter().collect();
    if !wanted.is_empty() && !wanted.iter().any(|audience| held.contains(audience)) {
        return None;
    }
    let user = status.user?;
    let name = user.username.filter(|name| !name.is_empty())?;
    Some(Caller {
        uid: user.uid.unwrap_or_default(),
        groups: user.groups.unwrap_or_default(),
        name,
        audiences: Audiences::Some(BTreeSet::new()),
        namespaces: Namespaces::One(String::new()),
        rights: Rights::default(),
    })
}

async fn authenticate(State(reviews): State<TokenReviews>, mut request: Request, next: Next) -> Response {
    if RequestScope::of(request.uri().path()) == RequestScope::Signed {
        return next.run(request).await;
    }
    match reviews.caller(request.headers()).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(error @ ReviewError::Unauthenticated) => {
            let mut answer = respond(&status::unauthorized(error.to_string()));
            answer.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            answer
        }
        Err(error @ ReviewError::Unavailable) => {
            let mut answer = respond(&status::service_unavailable(error.to_string(), 1));
            answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            answer
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    fn status(authenticated: bool, audiences: &[&str], user: &str) -> TokenReviewStatus {
        TokenReviewStatus {
            authenticated: Some(authenticated),
            audiences: Some(audiences.iter().map(|&audience| audience.to_owned()).collect()),
            user: Some(UserInfo { username: Some(user.to_owned()), ..UserInfo::default() }),
            ..TokenReviewStatus::default()
        }
    }

    #[test]
    fn a_token_for_another_audience_or_of_nobody_is_refused() {
        let ours = ["windlass".to_owned()];
        assert_eq!(read(status(true, &["windlass", "x"], "me"), &ours).unwrap().name, "me");
        assert_eq!(read(status(true, &["kubernetes"], "me"), &[]).unwrap().name, "me");
        assert!(read(status(true, &["kubernetes"], "me"), &ours).is_none());
        assert!(
            read(status(true, &[], "me"), &ours).is_none(),
            "a server that ignores audiences checked none"
        );
        assert!(read(status(false, &["windlass"], "me"), &ours).is_none());
        assert!(read(status(true, &[], ""), &[]).is_none());
    }

    #[test]
    fn a_reviewed_caller_opens_nothing_by_itself() {
        let caller = read(status(true, &[], "me"), &[]).unwrap();
        caller.may_use("provisioning.grafana.app", "default").unwrap_err();
    }
}
