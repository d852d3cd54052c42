//! Who gets in: the authenticator in front of a router.

use axum::{Extension, Router, body::Body, routing::get};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{Request, StatusCode};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use windlass_auth::{Authenticator, Caller, Issuer, PeerIdentity, TokenRequest};

use crate::support::{Wall, issuer, send};

const JOBS_A: &str = "/apis/provisioning.grafana.app/v0alpha1/namespaces/team-a/jobs";
const JOBS_B: &str = "/apis/provisioning.grafana.app/v0alpha1/namespaces/team-b/jobs";
const JOBS_ALL: &str = "/apis/provisioning.grafana.app/v0alpha1/jobs";
const SECRETS_A: &str = "/api/v1/namespaces/team-a/secrets";

fn api(issuer: &Issuer) -> Router {
    let who =
        |Extension(caller): Extension<Caller>| async move { axum::Json(json!({"caller": caller.name})) };
    Authenticator::new(issuer.verifier()).protect(Router::new().fallback(get(who)))
}

fn token(issuer: &Issuer, namespace: &str, audiences: &[&str]) -> String {
    let request = TokenRequest {
        namespace: namespace.into(),
        audiences: audiences.iter().map(|&audience| audience.to_owned()).collect(),
        ..TokenRequest::default()
    };
    issuer.issue("access-policy:tester", &request).unwrap().expose_secret().to_owned()
}

async fn call(router: &Router, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Value) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    send(router, request.body(Body::empty()).unwrap()).await
}

/// A 401 with a `Status` whose message has these words.
async fn refused(router: &Router, headers: &[(&str, &str)], words: &str) {
    let (status, answer) = call(router, JOBS_A, headers).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED, "{answer}");
    assert_eq!(answer["kind"], "Status");
    assert_eq!(answer["reason"], "Unauthorized");
    assert_eq!(answer["code"], 401);
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains(words), "{message:?} lacks {words:?}");
}

/// A 403 with a `Status` whose message has these words.
async fn forbidden(router: &Router, path: &str, token: &str, words: &[&str]) {
    let (status, answer) = call(router, path, &[("x-access-token", &format!("Bearer {token}"))]).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    assert_eq!(answer["reason"], "Forbidden");
    let message = answer["message"].as_str().unwrap();
    for words in words {
        assert!(message.contains(words), "{message:?} lacks {words:?}");
    }
}

#[tokio::test]
async fn either_header_lets_a_valid_token_in() {
    let issuer = issuer(&Wall::new(), vec![]);
    let router = api(&issuer);
    let token = format!("Bearer {}", token(&issuer, "team-a", &["provisioning.grafana.app"]));
    for header in ["x-access-token", "authorization"] {
        let (status, answer) = call(&router, JOBS_A, &[(header, &token)]).await;
        assert_eq!((status, &answer["caller"]), (StatusCode::OK, &json!("tester")));
    }
    let lower = token.replace("Bearer", "bearer");
    assert_eq!(call(&router, JOBS_A, &[("authorization", &lower)]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn the_access_token_header_wins_even_when_it_is_wrong() {
    let issuer = issuer(&Wall::new(), vec![]);
    let router = api(&issuer);
    let good = format!("Bearer {}", token(&issuer, "team-a", &["provisioning.grafana.app"]));
    refused(&router, &[("x-access-token", "Bearer nonsense"), ("authorization", &good)], "malformed").await;
    let both = [("x-access-token", good.as_str()), ("authorization", "Bearer nonsense")];
    assert_eq!(call(&router, JOBS_A, &both).await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_refusal_says_what_is_wrong_with_the_token() {
    let wall = Wall::new();
    let issuer = issuer(&wall, vec![]);
    let router = api(&issuer);
    refused(&router, &[], "no access token").await;
    refused(&router, &[("x-access-token", "nonsense")], "Bearer <token>").await;
    refused(&router, &[("authorization", "Basic dXNlcjpwYXNz")], "Bearer <token>").await;
    refused(&router, &[("x-access-token", "Bearer ")], "malformed").await;
    refused(&router, &[("x-access-token", "Bearer a.b.c")], "no JSON web token").await;

    let good = token(&issuer, "team-a", &["provisioning.grafana.app"]);
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let mut flipped = URL_SAFE_NO_PAD.decode(signature).unwrap();
    flipped[10] ^= 1;
    let tampered = format!("Bearer {signed}.{}", URL_SAFE_NO_PAD.encode(flipped));
    refused(&router, &[("x-access-token", &tampered)], "wrong signature").await;

    let mut more: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    more["namespace"] = json!("*");
    let raised = format!("Bearer {header}.{}.{signature}", URL_SAFE_NO_PAD.encode(more.to_string()));
    refused(&router, &[("x-access-token", &raised)], "wrong signature").await;

    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    refused(&router, &[("x-access-token", &format!("Bearer {none}.{claims}."))], "malformed").await;
    let hmac = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    refused(&router, &[("x-access-token", &format!("Bearer {hmac}.{claims}.{signature}"))], "ES256").await;

    let elsewhere = crate::support::issuer(&wall, vec![]);
    let foreign = token(&elsewhere, "team-a", &["provisioning.grafana.app"]);
    refused(&router, &[("x-access-token", &format!("Bearer {foreign}"))], "unknown key").await;

    // What was let in once is still looked at.
    let bearer = format!("Bearer {good}");
    for _ in 0..2 {
        assert_eq!(call(&router, JOBS_A, &[("x-access-token", &bearer)]).await.0, StatusCode::OK);
    }
    refused(&router, &[("x-access-token", &tampered)], "wrong signature").await;
    wall.advance(600);
    refused(&router, &[("x-access-token", &format!("Bearer {good}"))], "expired at 2027-01-15T08:10:00Z")
        .await;
}

#[tokio::test]
async fn a_token_for_one_namespace_opens_no_other() {
    let issuer = issuer(&Wall::new(), vec![]);
    let router = api(&issuer);
    let one = token(&issuer, "team-a", &["provisioning.grafana.app"]);
    let all = token(&issuer, "*", &["provisioning.grafana.app"]);
    forbidden(&router, JOBS_B, &one, &["team-a", "team-b"]).await;
    forbidden(&router, JOBS_ALL, &one, &["team-a", "\"*\"", "cluster-wide"]).await;
    let encoded = JOBS_B.replace("team-b", "team%2Db");
    forbidden(&router, &encoded, &one, &["team-b"]).await;
    for path in [JOBS_A, JOBS_B, JOBS_ALL] {
        let answer = call(&router, path, &[("x-access-token", &format!("Bearer {all}"))]).await;
        assert_eq!(answer.0, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn a_token_for_one_api_group_opens_no_other() {
    let issuer = issuer(&Wall::new(), vec![]);
    let router = api(&issuer);
    let provisioning = token(&issuer, "*", &["provisioning.grafana.app"]);
    let core = token(&issuer, "*", &["core.windlass.dev"]);
    forbidden(&router, SECRETS_A, &provisioning, &["core.windlass.dev", "provisioning.grafana.app"]).await;
    forbidden(&router, JOBS_A, &core, &["core.windlass.dev", "provisioning.grafana.app"]).await;
    let answer = call(&router, SECRETS_A, &[("authorization", &format!("Bearer {core}"))]).await;
    assert_eq!(answer.0, StatusCode::OK);
}

#[tokio::test]
async fn health_is_open_to_anybody_and_discovery_to_any_caller() {
    let issuer = issuer(&Wall::new(), vec![]);
    let router = api(&issuer);
    for path in ["/readyz", "/livez", "/healthz", "/version"] {
        for headers in [&[][..], &[("x-access-token", "Bearer nonsense")][..]] {
            let (status, answer) = call(&router, path, headers).await;
            assert_eq!((status, &answer["caller"]), (StatusCode::OK, &json!("system:anonymous")), "{path}");
        }
    }
    let any = format!("Bearer {}", token(&issuer, "team-a", &["folder.grafana.app"]));
    for path in ["/api", "/apis", "/api/v1", "/apis/provisioning.grafana.app/v0alpha1", "/openapi/v3"] {
        assert_eq!(call(&router, path, &[]).await.0, StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(call(&router, path, &[("x-access-token", &any)]).await.0, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn a_client_certificate_counts_when_no_token_is_sent() {
    let issuer = issuer(&Wall::new(), vec![]);
    let router = api(&issuer);
    let as_peer = |name: &str, group: &str, token: Option<String>| {
        let mut request = Request::get(JOBS_A).body(Body::empty()).unwrap();
        request.extensions_mut().insert(PeerIdentity { name: name.into(), groups: vec![group.into()] });
        if let Some(token) = token {
            request.headers_mut().insert("x-access-token", format!("Bearer {token}").parse().unwrap());
        }
        request
    };
    let (status, answer) = send(&router, as_peer("admin", "system:masters", None)).await;
    assert_eq!((status, &answer["caller"]), (StatusCode::OK, &json!("admin")));
    let (status, _) = send(&router, as_peer("worker", "workers", None)).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    let token = token(&issuer, "team-a", &["provisioning.grafana.app"]);
    let (status, answer) = send(&router, as_peer("worker", "workers", Some(token))).await;
    assert_eq!((status, &answer["caller"]), (StatusCode::OK, &json!("tester")));
    let (status, _) = send(&router, as_peer("admin", "system:masters", Some("nonsense".into()))).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}
