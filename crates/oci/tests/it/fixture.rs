//! Clients and stand-ins.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use tokio::net::TcpListener;
use windlass_oci::{Client, ClientConfig, Deadlines, DockerChain, DockerConfig, Login, Repository, Retries};

/// A client that knows nobody, and tries again at once.
pub(crate) fn client() -> Client {
    Client::new(config()).unwrap()
}

pub(crate) fn config() -> ClientConfig {
    ClientConfig {
        chain: Arc::new(DockerChain::new(Vec::new(), None)),
        retries: Retries { times: 2, first: Duration::from_millis(1), ..Retries::default() },
        deadlines: Deadlines { total: Duration::from_secs(20), ..Deadlines::default() },
        ..ClientConfig::default()
    }
}

/// The login of a pull secret with this one entry.
pub(crate) fn secret(registry: &str, user: &str, password: &str) -> Login {
    let content = serde_json_text(registry, user, password);
    Login::Secret(Arc::new(DockerConfig::parse(&content.into(), "the Secret of a test").unwrap()))
}

pub(crate) fn serde_json_text(registry: &str, user: &str, password: &str) -> String {
    format!(r#"{{"auths": {{"{registry}": {{"username": "{user}", "password": "{password}"}}}}}}"#)
}

pub(crate) fn repository(address: &str, name: &str) -> Repository {
    Repository::parse(&format!("oci://{address}/{name}"), true).unwrap()
}

/// A request that a stand-in got.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn authorization(&self) -> &str {
        self.headers.get("authorization").map_or("", |value| value.to_str().unwrap())
    }
}

/// A registry that answers as a test says, and remembers what it was asked.
pub(crate) struct StandIn {
    pub(crate) address: String,
    pub(crate) seen: Arc<Mutex<Vec<Seen>>>,
}

impl StandIn {
    pub(crate) async fn start<F>(answer: F) -> Self
    where
        F: Fn(&Seen, usize) -> Response<Body> + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let seen = Arc::<Mutex<Vec<Seen>>>::default();
        let (answer, kept) = (Arc::new(answer), Arc::clone(&seen));
        let router = Router::new().fallback(move |request: Request<Body>| {
            let (answer, kept) = (Arc::clone(&answer), Arc::clone(&kept));
            async move {
                let (head, body) = request.into_parts();
                let line = format!("{} {}", head.method, head.uri);
                let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                let seen = Seen { line, headers: head.headers, body };
                let number = {
                    let mut kept = kept.lock().unwrap();
                    kept.push(seen.clone());
                    kept.len()
                };
                answer(&seen, number)
            }
        });
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, seen }
    }

    pub(crate) fn repository(&self) -> Repository {
        repository(&self.address, "a/b")
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|seen| seen.line.clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

pub(crate) fn status(code: u16) -> Response<Body> {
    Response::builder().status(code).body(Body::from("hunter2 is no part of a message")).unwrap()
}

pub(crate) fn ok(content: impl Into<Body>) -> Response<Body> {
    Response::builder().status(StatusCode::OK).body(content.into()).unwrap()
}

pub(crate) fn with(code: u16, headers: &[(&str, &str)]) -> Response<Body> {
    let mut answer = status(code);
    for (name, value) in headers {
        let name = axum::http::HeaderName::try_from(*name).unwrap();
        answer.headers_mut().append(name, value.parse().unwrap());
    }
    answer
}
