//! An API server whose answers the test gives, request by request. In process, so paused time governs it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::SinkExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tower::ServiceBuilder;

/// The server's side.
pub(crate) struct Server {
    asked: mpsc::UnboundedReceiver<Asked>,
    start: Instant,
}

/// A request that waits for the test's answer.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Value,
    answer: oneshot::Sender<Response>,
}

impl Server {
    pub(crate) fn new() -> (Self, Client) {
        let (asks, asked) = mpsc::unbounded_channel();
        let router = Router::new().fallback(move |request: Request| {
            let asks = asks.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, 1 << 20).await.unwrap();
                let (answer, answered) = oneshot::channel();
                let query =
                    parts.uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
                let asked = Asked {
                    method: parts.method,
                    path: parts.uri.path().to_owned(),
                    query: query.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                    answer,
                };
                let _ = asks.send(asked);
                match answered.await {
                    Ok(response) => response,
                    Err(_) => std::future::pending().await,
                }
            }
        });
        let service =
            ServiceBuilder::new().map_request(|request: axum::http::Request<_>| request.map(Body::new));
        (Self { asked, start: Instant::now() }, Client::new(service.service(router), "default"))
    }

    /// The next request. Dropping it leaves the client without an answer.
    pub(crate) async fn next(&mut self) -> Asked {
        let asked = tokio::time::timeout(Duration::from_hours(24), self.asked.recv()).await;
        asked.expect("a request within a day").expect("a client")
    }

    pub(crate) async fn next_list(&mut self) -> Asked {
        let asked = self.next().await;
        assert!(!asked.query.contains_key("watch"), "expected a list: {:?}", asked.query);
        asked
    }

    /// The next request, which must be a watch from `version`.
    pub(crate) async fn next_watch(&mut self, version: &str) -> Asked {
        let asked = self.next().await;
        assert_eq!(asked.query.get("watch").map(String::as_str), Some("true"), "{:?}", asked.query);
        assert_eq!(asked.query["resourceVersion"], version);
        asked
    }

    /// The (paused) seconds since the test began.
    pub(crate) fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

impl Asked {
    pub(crate) fn answer(self, value: &Value) {
        self.respond(axum::Json(value).into_response());
    }

    pub(crate) fn list(self, version: &str, items: &[Value]) {
        self.answer(&list(version, items));
    }

    pub(crate) fn refuse(self, code: u16, reason: &str) {
        self.refuse_with(code, &status(code, reason));
    }

    pub(crate) fn refuse_with(self, code: u16, status: &Value) {
        let mut response = axum::Json(status).into_response();
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        self.respond(response);
    }

    /// Answers with a stream that the test feeds.
    pub(crate) fn stream(self) -> Events {
        let (events, body) = futures::channel::mpsc::channel(64);
        self.respond(Body::from_stream(body).into_response());
        Events(events)
    }

    fn respond(self, response: Response) {
        self.answer.send(response).expect("the client still waits");
    }
}

/// An open watch; dropping it ends the connection in good order.
pub(crate) struct Events(futures::channel::mpsc::Sender<io::Result<Bytes>>);

impl Events {
    pub(crate) async fn send(&mut self, kind: &str, object: &Value) {
        self.raw(&format!("{}\n", json!({"type": kind, "object": object}))).await;
    }

    pub(crate) async fn bookmark(&mut self, version: &str) {
        self.send("BOOKMARK", &json!({"kind": "ConfigMap", "metadata": {"resourceVersion": version}})).await;
    }

    pub(crate) async fn raw(&mut self, text: &str) {
        self.0.send(Ok(Bytes::from(text.to_owned()))).await.expect("the client still reads");
    }

    pub(crate) async fn break_off(mut self) {
        self.0
            .send(Err(io::Error::from(io::ErrorKind::ConnectionReset)))
            .await
            .expect("the client still reads");
    }

    /// Waits until the client has dropped the connection.
    pub(crate) async fn abandoned(self) {
        let abandoned = async {
            while !self.0.is_closed() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(1), abandoned).await.expect("the client lets go");
    }
}

pub(crate) fn config_map(name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "namespace": "default", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version,
        },
    })
}

pub(crate) fn list(version: &str, items: &[Value]) -> Value {
    json!({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items})
}

pub(crate) fn status(code: u16, reason: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("refused as {reason}"), "reason": reason, "code": code,
    })
}

pub(crate) fn config_maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}
