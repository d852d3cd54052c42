//! A repository with files, and somebody who works on it over the API.

use axum::body::Body;
use http::HeaderMap;
use serde_json::{Value, json};
use windlass_auth::Caller;
use windlass_git_server::HttpBackend;

use crate::kit::{GitServer, World, dashboard};

/// A world with a Git server and the healthy repository `r`, whose files are under `grafana/`.
pub(crate) struct Desk {
    pub(crate) world: World,
    pub(crate) git: GitServer,
}

/// An answer, whole.
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) bytes: Vec<u8>,
    pub(crate) body: Value,
}

impl Desk {
    pub(crate) async fn new() -> Self {
        Self::with(json!({})).await
    }

    /// `document` is merged over the repository's.
    pub(crate) async fn with(document: Value) -> Self {
        let git = GitServer::with(HttpBackend::writable).await;
        git.put(&[("grafana/a.json", "a", "A"), ("grafana/team/b.json", "b", "B")]);
        let world = World::with_git(&git);
        open(&world, &git, document).await;
        Self { world, git }
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        ask(&self.world, Caller::system("ann"), (method, &format!("r/{path}")), &[], body).await
    }

    /// As [`send`](Self::send), and it has to be of this code.
    pub(crate) async fn ok(&self, code: u16, method: &str, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        let answer = self.send(method, path, body).await;
        assert_eq!(answer.code, code, "{method} {path}: {}", answer.body);
        answer
    }

    /// A file of a branch; nothing if it is not there.
    pub(crate) fn file(&self, branch: &str, path: &str) -> Option<String> {
        let path = format!("grafana/{path}");
        self.git.files(branch).contains(&path).then(|| self.git.file(branch, &path))
    }

    pub(crate) fn commits(&self, branch: &str) -> usize {
        self.git.commits(branch)
    }
}

pub(crate) async fn open(world: &World, git: &GitServer, document: Value) {
    let mut whole = json!({
        "spec": {
            "workflows": ["write", "branch"],
            "git": {"url": git.url(), "branch": "main", "path": "grafana/"},
        },
        "secure": {"token": {"create": "a-token"}},
    });
    if let Some(spec) = document["spec"].as_object() {
        whole["spec"].as_object_mut().unwrap().extend(spec.clone());
    }
    world.create_repository("r", whole).await;
    healthy(world, "r").await;
}

pub(crate) async fn healthy(world: &World, name: &str) {
    world.patch_status(name, json!({"status": {"health": {"healthy": true, "checked": 1}}})).await;
}

/// Sends a request as it is, to a path below `repositories/`.
pub(crate) async fn ask(
    world: &World,
    caller: Caller,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: impl Into<Vec<u8>>,
) -> Answer {
    let path = format!("/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories/{path}");
    let mut request = http::Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from(body.into())).unwrap();
    request.extensions_mut().insert(caller);
    let response = tower::ServiceExt::oneshot(world.router.clone(), request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Answer { code: parts.status.as_u16(), headers: parts.headers, bytes, body }
}

/// The status's message, after it was seen to be one of this code.
pub(crate) fn refused(answer: &Answer, code: u16) -> String {
    let body = &answer.body;
    assert_eq!((answer.code, &body["kind"], &body["code"]), (code, &json!("Status"), &json!(code)), "{body}");
    body["message"].as_str().unwrap().to_owned()
}

pub(crate) fn paths(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["path"].as_str().unwrap()).collect()
}

/// A dashboard in YAML.
pub(crate) fn yaml(name: &str, title: &str) -> String {
    format!(
        "# by hand\napiVersion: dashboard.grafana.app/v1beta1\nkind: Dashboard\nmetadata:\n  name: {name}\nspec:\n  title: {title}\n"
    )
}

pub(crate) fn json_of(name: &str, title: &str) -> String {
    dashboard(name, title)
}
