//! Answers of an API server that is still starting, or not there.
//!
//! A kube-apiserver answers before it has read the cluster's roles, and until then forbids everything to everybody. Such
//! a refusal says nothing about rights, so it becomes a 503, which every caller tries again. A server that cannot be
//! connected to is named.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower::{BoxError, Service};

use super::ApiTransportError;

/// How long the question whether the server is ready may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that forbids even that question is believed after this time: then it is not starting, but strict.
const STARTUP_LIMIT: Duration = Duration::from_mins(1);
/// The longest refusal that is read.
const MAX_REFUSAL: usize = 1 << 20;

/// A client that tells a refusal from an API server that is not ready.
#[derive(Clone)]
pub(super) struct ReadinessGate {
    client: Client,
    url: Arc<str>,
    /// Since when the server has not said that it is ready, although it was asked.
    unready_since: Arc<Mutex<Option<Instant>>>,
}

/// Wraps a client of the Kubernetes API server at `url`.
pub(super) fn wait_until_ready(client: Client, url: &str) -> Client {
    let (namespace, valid_until) = (client.default_namespace().to_owned(), *client.valid_until());
    let service = ReadinessGate { client, url: url.into(), unready_since: Arc::default() };
    Client::new(service, namespace).with_valid_until(valid_until)
}

impl Service<Request<Body>> for ReadinessGate {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, kube::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), kube::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().answer(request))
    }
}

impl ReadinessGate {
    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let (parts, body) = request.into_parts();
        let again = body.try_clone().map(|body| Request::from_parts(parts.clone(), body));
        let answer = self.client.send(Request::from_parts(parts, body)).await;
        let answer = answer.map_err(|error| self.explain(error))?;
        let (StatusCode::FORBIDDEN, Some(again)) = (answer.status(), again) else { return Ok(answer) };
        if self.is_ready().await {
            // It may have become so between the two questions.
            return self.client.send(again).await;
        }
        Ok(unavailable(answer).await)
    }

    /// Says which server it is that could not be connected to.
    fn explain(&self, error: kube::Error) -> kube::Error {
        match error {
            kube::Error::Service(source) if is_connect(&source) => {
                let url = self.url.to_string();
                kube::Error::Service(ApiTransportError::Connect { url, source }.into())
            }
            other => other,
        }
    }

    async fn is_ready(&self) -> bool {
        let mut question = Request::new(Body::empty());
        *question.uri_mut() = http::Uri::from_static("/readyz");
        let answered = timeout(PROBE_TIMEOUT, self.client.send(question)).await;
        let ready = matches!(answered, Ok(Ok(answer)) if answer.status().is_success());
        let mut unready_since = self.unready_since.lock().unwrap_or_else(PoisonError::into_inner);
        if ready {
            *unready_since = None;
        }
        ready || unready_since.get_or_insert_with(Instant::now).elapsed() >= STARTUP_LIMIT
    }
}

/// Whether there was no connection, for a reason of TCP or TLS.
fn is_connect(error: &BoxError) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
    while let Some(error) = next {
        if error.is::<ApiTransportError>() {
            // It says so itself.
            return false;
        }
        if let Some(found) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            return found.is_connect();
        }
        next = error.source();
    }
    false
}

/// The refusal as an answer that is not final. What it said stays part of it.
async fn unavailable(refusal: Response<Body>) -> Response<Body> {
    let body = Limited::new(refusal.into_body(), MAX_REFUSAL).collect().await;
    let status: Value =
        body.ok().and_then(|body| serde_json::from_slice(&body.to_bytes()).ok()).unwrap_or_default();
    let said = status["message"].as_str().unwrap_or("it forbids the request");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": "ServiceUnavailable", "code": 503,
        "message": format!("the API server is not ready; so far it says: {said}"),
    });
    let mut answer = Response::new(Body::from(status.to_string().into_bytes()));
    *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    answer.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use tower::service_fn;

    use super::*;

    /// A server that answers these codes in turn to the question whether it is ready, and to everything else; the last
    /// one of each for ever.
    fn server(ready: &'static [u16], other: &'static [u16]) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let service = service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let codes = if path == "/readyz" { ready } else { other };
            let mut log = log.lock().unwrap();
            let earlier = log.iter().filter(|seen| **seen == path).count();
            log.push(path);
            let code = codes.get(earlier).or(codes.last()).copied().unwrap();
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
                "reason": "Forbidden", "message": "configmaps is forbidden: you cannot get them"});
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
            let body = if code == 200 { object } else { status };
            let mut answer = Response::new(Body::from(body.to_string().into_bytes()));
            *answer.status_mut() = StatusCode::from_u16(code).unwrap();
            async { Ok::<_, BoxError>(answer) }
        });
        (wait_until_ready(Client::new(service, "default"), "https://test"), asked)
    }

    async fn code(client: &Client) -> u16 {
        match Api::<ConfigMap>::default_namespaced(client.clone()).get("a").await {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(other) => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn what_a_server_forbids_before_it_is_ready_is_not_final() {
        let (client, _) = server(&[500, 200], &[403, 200]);
        let refused = Api::<ConfigMap>::default_namespaced(client.clone()).get("a").await.unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("not ready") && text.contains("you cannot get them"), "{text}");
        assert_eq!(code(&client).await, 200);
    }

    #[tokio::test]
    async fn what_a_ready_server_forbids_twice_is_forbidden() {
        let (client, asked) = server(&[200], &[403]);
        assert_eq!(code(&client).await, 403);
        let path = "/api/v1/namespaces/default/configmaps/a";
        assert_eq!(*asked.lock().unwrap(), [path, "/readyz", path]);
        let (client, _) = server(&[200], &[403, 200]);
        assert_eq!(code(&client).await, 200, "it became ready between the two questions");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_forbids_to_ask_is_believed_after_a_while() {
        let (client, _) = server(&[403], &[403]);
        assert_eq!(code(&client).await, 503);
        tokio::time::advance(STARTUP_LIMIT).await;
        assert_eq!(code(&client).await, 403);
    }
}
