use http::Method;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use windlass_apiserver::{AuditLog, AuditOptions, Observer, RequestMetrics};
use windlass_auth::{Authenticator, Issuer, IssuerOptions, Keys, TokenRequest};
use windlass_telemetry::Metrics;

use crate::common::*;

/// A server behind authentication and an observer, with a token for everything.
struct Observed {
    router: axum::Router,
    token: String,
    metrics: Metrics,
    folder: tempfile::TempDir,
}

impl Observed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = server();
        let issuer = Issuer::new(&Keys::ephemeral(&[]).unwrap(), IssuerOptions::default()).unwrap();
        let audiences = ["example.dev", windlass_api::audience::CORE].map(str::to_owned).to_vec();
        let request = TokenRequest { namespace: "default".to_owned(), audiences, ..TokenRequest::default() };
        let token = issuer.issue("user:anna", &request).unwrap();
        let path = folder.path().join("audit.log");
        let audit = AuditLog::open(AuditOptions { path, max_bytes: 1 << 20, keep: 1 }).unwrap();
        let metrics = Metrics::new().unwrap();
        let router = Authenticator::new(issuer.verifier()).protect(server.router());
        let observer = Observer::new(&server, Some(audit), Some(RequestMetrics::new(&metrics)));
        let token = secrecy::ExposeSecret::expose_secret(&token).to_owned();
        Self { router: observer.over(router), token, metrics, folder }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        with_token: bool,
    ) -> http::Response<axum::body::Body> {
        let mut request = http::Request::builder().method(method).uri(path);
        if with_token {
            request = request.header("authorization", format!("Bearer {}", self.token));
        }
        request = request.header("content-type", "application/json").header("user-agent", "tests/1");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.router.clone().oneshot(request.body(axum::body::Body::from(body)).unwrap()).await.unwrap()
    }

    fn lines(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.folder.path().join("audit.log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn has(&self, series: &str) -> bool {
        self.metrics.render().unwrap().lines().any(|line| line == series)
    }
}

#[tokio::test]
async fn who_did_what_and_what_came_of_it_is_written_down_and_never_what_was_sent() {
    let observed = Observed::new();
    let mut secret = json!({ "metadata": { "name": "s" }, "stringData": { "token": "hunter2" } });
    secret["kind"] = json!("Secret");
    for (method, path, body, with_token, code) in [
        (Method::POST, SECRETS, secret, true, 201),
        (Method::GET, "/api/v1/namespaces/other/secrets/s", Value::Null, true, 403),
        (Method::DELETE, "/api/v1/namespaces/default/secrets/s?dryRun=All", Value::Null, false, 401),
        (Method::GET, "/api/v1/namespaces/default/secrets?watch=true", Value::Null, true, 200),
        (Method::GET, "/readyz", Value::Null, false, 200),
    ] {
        assert_eq!(observed.send(method, path, &body, with_token).await.status(), code, "{path}");
    }
    let lines = observed.lines();
    let brief = |line: &Value| {
        let at = |pointer: &str| line.pointer(pointer).map(Value::to_string).unwrap_or_default();
        [
            at("/verb"),
            at("/user/username"),
            at("/objectRef/resource"),
            at("/objectRef/name"),
            at("/responseStatus/code"),
        ]
        .join(" ")
    };
    let briefs: Vec<String> = lines.iter().map(brief).collect();
    assert_eq!(
        briefs,
        [
            r#""create" "anna" "secrets"  201"#,
            r#""get" "anna" "secrets" "s" 403"#,
            r#""delete"  "secrets" "s" 401"#,
            r#""watch" "anna" "secrets"  200"#,
        ]
    );
    assert_eq!((&lines[0]["kind"], &lines[0]["apiVersion"]), (&json!("Event"), &json!("audit.k8s.io/v1")));
    assert_eq!(lines[3]["stage"], "ResponseStarted");
    let text = std::fs::read_to_string(observed.folder.path().join("audit.log")).unwrap();
    assert!(!text.contains("hunter2") && !text.contains(&observed.token), "{text}");
}

#[tokio::test]
async fn requests_are_counted_under_a_real_servers_names_and_watches_while_they_are_open() {
    let observed = Observed::new();
    let ask = async |method, path: &str, body: &Value| observed.send(method, path, body, true).await;
    assert_eq!(ask(Method::POST, WIDGETS, &widget("a")).await.status(), 201);
    assert_eq!(ask(Method::GET, &format!("{WIDGETS}/a"), &Value::Null).await.status(), 200);
    // Whatever somebody asks for becomes no label.
    for index in 0..3 {
        ask(Method::GET, &format!("/apis/example.dev/v1/namespaces/default/made-up-{index}/a"), &Value::Null)
            .await;
        ask(Method::GET, &format!("{WIDGETS}/a/made-up-{index}"), &Value::Null).await;
    }
    let watch = ask(Method::GET, &format!("{WIDGETS}?watch=true"), &Value::Null).await;
    let text = observed.metrics.render().unwrap();
    assert!(!text.contains("made-up"), "{text}");
    let created = "apiserver_request_total{code=\"201\",component=\"apiserver\",dry_run=\"\",group=\"example.dev\",\
        resource=\"widgets\",scope=\"resource\",subresource=\"\",verb=\"POST\",version=\"v1\"} 1";
    assert!(observed.has(created), "{text}");
    assert!(text.contains("apiserver_request_duration_seconds_count"), "{text}");
    let open = |count: u32| {
        observed.has(&format!(
            "apiserver_longrunning_requests{{component=\"apiserver\",group=\"example.dev\",resource=\"widgets\",\
             scope=\"namespace\",subresource=\"\",verb=\"WATCH\",version=\"v1\"}} {count}"
        ))
    };
    assert!(open(1), "{text}");
    drop(watch);
    assert!(open(0));
    assert!(observed.has("apiserver_current_inflight_requests{request_kind=\"mutating\"} 0"), "{text}");
}
