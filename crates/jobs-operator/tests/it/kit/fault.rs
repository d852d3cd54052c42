use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use serde_json::json;
use tokio::sync::watch;

type Answer = Box<dyn Fn(&str, &str) -> Option<StatusCode> + Send + Sync>;
type Matches = Box<dyn Fn(&str, &str) -> bool + Send + Sync>;

/// What goes wrong at the API server.
#[derive(Clone)]
pub(crate) struct Fault {
    answer: Arc<Mutex<Option<Answer>>>,
    held: Arc<Mutex<Option<Matches>>>,
    /// How many requests are held up, and whether they may go on.
    gate: Arc<watch::Sender<(usize, bool)>>,
}

impl Default for Fault {
    fn default() -> Self {
        Self { answer: Arc::default(), held: Arc::default(), gate: Arc::new(watch::Sender::new((0, true))) }
    }
}

impl Fault {
    /// Answers in the server's place, given method and path.
    pub(crate) fn answer(&self, answer: impl Fn(&str, &str) -> Option<StatusCode> + Send + Sync + 'static) {
        *self.answer.lock().unwrap() = Some(Box::new(answer));
    }

    pub(crate) fn heal(&self) {
        *self.answer.lock().unwrap() = None;
    }

    /// Holds up these requests until [`Self::resume`].
    pub(crate) fn hold(&self, matches: impl Fn(&str, &str) -> bool + Send + Sync + 'static) {
        self.gate.send_replace((0, false));
        *self.held.lock().unwrap() = Some(Box::new(matches));
    }

    /// Waits until a request is held up.
    pub(crate) async fn holding(&self) {
        let mut gate = self.gate.subscribe();
        let held = tokio::time::timeout(super::DEADLINE, gate.wait_for(|(held, _)| *held > 0)).await;
        held.expect("a request is held up").unwrap();
    }

    pub(crate) fn resume(&self) {
        *self.held.lock().unwrap() = None;
        self.gate.send_modify(|(_, open)| *open = true);
    }

    pub(crate) fn applied_to(&self, router: Router) -> Router {
        let fault = self.clone();
        router.layer(from_fn(move |request: Request, next: Next| {
            let fault = fault.clone();
            async move { fault.through(request, next).await }
        }))
    }

    async fn through(&self, request: Request, next: Next) -> Response {
        let (method, path) = (request.method().as_str().to_owned(), request.uri().path().to_owned());
        let is_held = self.held.lock().unwrap().as_ref().is_some_and(|held| held(&method, &path));
        if is_held {
            self.gate.send_modify(|(held, _)| *held += 1);
            self.gate.subscribe().wait_for(|(_, open)| *open).await.unwrap();
        }
        let answer = self.answer.lock().unwrap().as_ref().and_then(|answer| answer(&method, &path));
        let Some(code) = answer else { return next.run(request).await };
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code.as_u16(),
            "reason": "Simulated", "message": "this was made to fail", "metadata": {},
        });
        (code, axum::Json(status)).into_response()
    }
}
