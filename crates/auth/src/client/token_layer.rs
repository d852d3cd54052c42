//! Puts access tokens on requests.

use std::{sync::Arc, task::Poll};

use futures::{FutureExt as _, future::BoxFuture};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use kube::client::Body;
use secrecy::{ExposeSecret as _, SecretString};
use tower::{BoxError, Layer, Service};

use super::{exchange::TokenExchange, exchange_error::ExchangeError};

const ACCESS_TOKEN: HeaderName = HeaderName::from_static("x-access-token");

/// A request was not sent, for want of an access token.
#[derive(Debug, thiserror::Error)]
#[error("failed to exchange token: {source}")]
pub struct AccessTokenError {
    /// Why there is none. Also in the message, since kube's own error prints no sources.
    #[from]
    source: ExchangeError,
}

/// A tower layer that sends `X-Access-Token: Bearer …` with every request.
///
/// An answer of 401 is asked for once more with a fresh token, if the body can be sent again.
#[derive(Clone, Debug)]
pub struct AccessTokenLayer {
    exchange: TokenExchange,
    audiences: Arc<[String]>,
}

impl AccessTokenLayer {
    /// A layer for servers that ask for these audiences.
    pub fn new<A: Into<String>>(exchange: TokenExchange, audiences: impl IntoIterator<Item = A>) -> Self {
        Self { exchange, audiences: audiences.into_iter().map(Into::into).collect() }
    }
}

impl<S> Layer<S> for AccessTokenLayer {
    type Service = AccessTokenService<S>;

    fn layer(&self, inner: S) -> AccessTokenService<S> {
        AccessTokenService { inner, layer: self.clone() }
    }
}

/// The service that [`AccessTokenLayer`] makes.
#[derive(Clone, Debug)]
pub struct AccessTokenService<S> {
    inner: S,
    layer: AccessTokenLayer,
}

impl<S, B> Service<Request<Body>> for AccessTokenService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<B>, BoxError>>;

    fn poll_ready(&mut self, context: &mut std::task::Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that was polled ready is the one to call; its clone is not.
        let clone = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, clone.clone());
        let mut again = clone;
        let AccessTokenLayer { exchange, audiences } = self.layer.clone();
        async move {
            let token = exchange.token(&audiences).await.map_err(AccessTokenError::from)?;
            let spare = copy(&request);
            let answer = ready.call(with_token(request, &token)?).await.map_err(Into::into)?;
            if answer.status() != StatusCode::UNAUTHORIZED {
                return Ok(answer);
            }
            let Some(spare) = spare else { return Ok(answer) };
            let Some(token) = exchange.replace(&audiences, &token).await.map_err(AccessTokenError::from)?
            else {
                return Ok(answer);
            };
            tracing::debug!("access token refused, asking once more with a fresh one");
            std::future::poll_fn(|context| again.poll_ready(context)).await.map_err(Into::into)?;
            again.call(with_token(spare, &token)?).await.map_err(Into::into)
        }
        .boxed()
    }
}

fn with_token(mut request: Request<Body>, token: &SecretString) -> Result<Request<Body>, BoxError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose_secret()))?;
    value.set_sensitive(true);
    request.headers_mut().insert(ACCESS_TOKEN, value);
    Ok(request)
}

/// The request once more, if its body is not a stream.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}
