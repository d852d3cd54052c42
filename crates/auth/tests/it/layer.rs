//! Access tokens on the requests of a kube client.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, extract::Request, response::IntoResponse as _};
use http::StatusCode;
use serde_json::json;
use tower::ServiceBuilder;
use windlass_auth::{AccessTokenLayer, ApiClients, TokenExchange};

use crate::client::{Script, Step};

/// An API that knows which tokens it refuses, by their last part.
#[derive(Clone, Default)]
struct Api {
    refused: Arc<Mutex<BTreeSet<String>>>,
    seen: Arc<Mutex<Vec<(String, String)>>>,
}

impl Api {
    fn client(&self, exchange: TokenExchange) -> kube::Client {
        let api = self.clone();
        let router = Router::new().fallback(move |request: Request| async move {
            let token = request.headers()["x-access-token"].to_str().unwrap().to_owned();
            assert!(token.starts_with("Bearer "));
            let serial = token.rsplit('.').next().unwrap().to_owned();
            let body = axum::body::to_bytes(request.into_body(), 1024).await.unwrap();
            api.seen.lock().unwrap().push((serial.clone(), String::from_utf8(body.to_vec()).unwrap()));
            if api.refused.lock().unwrap().contains(&serial) {
                let status = json!({"kind": "Status", "status": "Failure", "code": 401, "reason": "Unauthorized",
                    "message": "the access token expired", "metadata": {}});
                return (StatusCode::UNAUTHORIZED, axum::Json(status)).into_response();
            }
            "fine".into_response()
        });
        let service = ServiceBuilder::new()
            .layer(AccessTokenLayer::new(exchange, ["a"]))
            .map_request(|request: http::Request<kube::client::Body>| request.map(axum::body::Body::new))
            .service(router);
        kube::Client::new(service, "default")
    }

    fn seen(&self) -> Vec<(String, String)> {
        self.seen.lock().unwrap().clone()
    }
}

fn post(body: &str) -> http::Request<Vec<u8>> {
    http::Request::post("/x").body(body.as_bytes().to_vec()).unwrap()
}

fn seen(serials: &[&str]) -> Vec<(String, String)> {
    serials.iter().map(|&serial| (serial.to_owned(), "payload".to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn every_request_carries_the_token() {
    let (script, _) = Script::new([]);
    let api = Api::default();
    let client = api.client(script.client());
    assert_eq!(client.request_text(post("payload")).await.unwrap(), "fine");
    assert_eq!(client.request_text(post("payload")).await.unwrap(), "fine");
    assert_eq!(api.seen(), seen(&["1", "1"]));
    assert_eq!(script.requests(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_a_server_refuses_is_replaced_once() {
    let (script, _) = Script::new([]);
    let api = Api::default();
    let client = api.client(script.client());
    client.request_text(post("payload")).await.unwrap();
    tokio::time::advance(Duration::from_mins(1)).await;
    api.refused.lock().unwrap().insert("1".into());
    assert_eq!(client.request_text(post("payload")).await.unwrap(), "fine");
    assert_eq!(api.seen(), seen(&["1", "1", "2"]));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_every_token_does_not_storm_the_exchange() {
    let (script, _) = Script::new([]);
    let api = Api::default();
    api.refused.lock().unwrap().extend((1..100).map(|serial| serial.to_string()));
    let client = api.client(script.client());
    for _ in 0..10 {
        let error = client.request_text(post("payload")).await.unwrap_err();
        assert!(matches!(&error, kube::Error::Api(status) if status.code == 401), "{error}");
    }
    assert_eq!(script.requests(), 1);
    tokio::time::advance(Duration::from_mins(1)).await;
    client.request_text(post("payload")).await.unwrap_err();
    assert_eq!(script.requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn without_a_token_nothing_is_sent_and_the_error_says_why() {
    let (script, _) = Script::new([Step::Status(401, json!({"error": "because"}))]);
    let api = Api::default();
    let error = api.client(script.client()).request_text(post("payload")).await.unwrap_err().to_string();
    assert!(error.contains("failed to exchange token:") && error.contains("because"), "{error}");
    assert!(api.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn each_group_has_its_client() {
    let client = |namespace: &str| {
        kube::Client::new(
            tower::service_fn(|_: http::Request<kube::client::Body>| async {
                Ok::<_, tower::BoxError>(http::Response::new(kube::client::Body::empty()))
            }),
            namespace,
        )
    };
    let clients = ApiClients {
        provisioning: client("provisioning"),
        folders: client("folders"),
        dashboards: client("dashboards"),
        core: client("core"),
        further: client("further"),
    };
    for (group, expected) in [
        ("provisioning.grafana.app", "provisioning"),
        ("folder.grafana.app", "folders"),
        ("dashboard.grafana.app", "dashboards"),
        ("", "core"),
        ("coordination.k8s.io", "core"),
        ("other.example", "provisioning"),
    ] {
        assert_eq!(clients.for_group(group).default_namespace(), expected, "{group}");
    }
}
