//! What is between a process and its API server: requests are lost, late, sent twice, or answered with nonsense.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use http::{Method, StatusCode};
use kube::Client;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_apiserver::client_of;
use windlass_auth::Caller;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Passes,
    /// It never arrives.
    IsLost,
    /// It arrives when nobody waits for it any more.
    IsLate,
    /// It is done, and the answer never arrives.
    LosesItsAnswer,
    /// It arrives twice; the second answer is the one that comes back.
    ArrivesTwice,
    /// It is done, and the answer is that the server failed.
    IsDoneAndFails,
    /// It is not done, and the answer is that the server failed.
    Fails,
    /// The server wants it later.
    IsTooEarly,
    /// The server refuses it.
    IsForbidden,
}

impl Fate {
    pub(crate) const BAD: [Self; 7] = [
        Self::IsLost,
        Self::IsLate,
        Self::LosesItsAnswer,
        Self::ArrivesTwice,
        Self::IsDoneAndFails,
        Self::Fails,
        Self::IsTooEarly,
    ];
}

type Decide = Box<dyn FnMut(usize, &Method) -> Fate + Send>;

/// One process's way to the server.
#[derive(Clone)]
pub(crate) struct Line {
    router: Router,
    decide: Arc<Mutex<Decide>>,
    /// The requests that left.
    sent: Arc<Mutex<Vec<Method>>>,
    /// The process is no more: nothing leaves it, nothing reaches it.
    pub(crate) cut: CancellationToken,
}

impl Line {
    pub(crate) fn new(router: Router) -> Self {
        let decide: Decide = Box::new(|_, _| Fate::Passes);
        let decide = Arc::new(Mutex::new(decide));
        Self { router, decide, sent: Arc::default(), cut: CancellationToken::new() }
    }

    /// From now on `decide` says what becomes of the requests, by number and method.
    pub(crate) fn decide(&self, decide: impl FnMut(usize, &Method) -> Fate + Send + 'static) {
        *self.decide.lock().unwrap() = Box::new(decide);
    }

    pub(crate) fn requests(&self) -> usize {
        self.sent.lock().unwrap().len()
    }

    pub(crate) fn writes(&self) -> usize {
        self.sent.lock().unwrap().iter().filter(|method| **method != Method::GET).count()
    }

    pub(crate) fn client(&self) -> Client {
        let line = self.clone();
        let router = self.router.clone().layer(from_fn(move |request: Request, next: Next| {
            let line = line.clone();
            async move { line.through(request, next).await }
        }));
        client_of(router, Caller::system("tracker"))
    }

    async fn through(&self, request: Request, next: Next) -> Response {
        if self.cut.is_cancelled() {
            return std::future::pending().await;
        }
        let number = self.requests();
        self.sent.lock().unwrap().push(request.method().clone());
        let fate = (self.decide.lock().unwrap())(number, request.method());
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let copy = move || Request::from_parts(parts.clone(), Body::from(body.clone()));
        // How often it arrives, and what is answered if not what the server says.
        let (arrivals, answer) = match fate {
            Fate::Passes | Fate::IsLate | Fate::LosesItsAnswer => (1, None),
            Fate::ArrivesTwice => (2, None),
            Fate::IsLost => (0, None),
            Fate::IsDoneAndFails => (1, Some(status(StatusCode::GATEWAY_TIMEOUT, "Timeout"))),
            Fate::Fails => (0, Some(status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"))),
            Fate::IsTooEarly => (0, Some(status(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"))),
            Fate::IsForbidden => (0, Some(status(StatusCode::FORBIDDEN, "Forbidden"))),
        };
        let wait = if fate == Fate::IsLate { Duration::from_millis(5300) } else { Duration::ZERO };
        let mut said = None;
        for _ in 0..arrivals {
            let (next, request) = (next.clone(), copy());
            // What has left is done by the server, whatever becomes of the process.
            let arrives = tokio::spawn(async move {
                tokio::time::sleep(wait).await;
                next.clone().run(request).await
            });
            said = Some(arrives.await.unwrap());
        }
        let is_told = !matches!(fate, Fate::IsLate | Fate::LosesItsAnswer) && !self.cut.is_cancelled();
        match answer.or(said).filter(|_| is_told) {
            Some(response) => response,
            None => std::future::pending().await,
        }
    }
}

fn status(code: StatusCode, reason: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "this was made to fail", "reason": reason, "code": code.as_u16(),
    });
    (code, axum::Json(body)).into_response()
}
