//! The exchange's side of the wire.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::{Router, body::Body};
use http::{Request, StatusCode};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, jwk::JwkSet};
use serde_json::{Value, json};
use windlass_auth::{
    Audiences, Issuer, IssuerError, IssuerOptions, Keys, Rights, SigningKeys, SystemToken, TokenError,
    exchange_router,
};

use crate::support::{Wall, issuer, send};

const ADMIN: &str = "ProvisioningAdminToken";

fn limited() -> SystemToken {
    SystemToken {
        name: "folders-only".into(),
        token: "limited".into(),
        allowed_audiences: Audiences::Some(BTreeSet::from(["folder.grafana.app".to_owned()])),
        namespaces: vec!["team-a".into()],
        rights: Rights::default(),
    }
}

fn router(wall: &Wall) -> (Issuer, Router) {
    let loopback: SocketAddr = "127.0.0.1:6481".parse().unwrap();
    let issuer = issuer(wall, vec![SystemToken::default_for(loopback).unwrap(), limited()]);
    (issuer.clone(), exchange_router(issuer))
}

async fn ask(router: &Router, system_token: &str, body: Value) -> (StatusCode, Value) {
    let request = Request::post("/sign/access-token")
        .header("authorization", format!("Bearer {system_token}"))
        .header("content-type", "application/json")
        .header("x-org-id", "0")
        .header("x-realms", r#"[{"type":"system","identifier":"system"}]"#)
        .body(Body::from(body.to_string()))
        .unwrap();
    send(router, request).await
}

fn everything() -> Value {
    json!({"namespace": "*", "audiences": ["provisioning.grafana.app"]})
}

/// Decodes as a stranger would: with nothing but the published keys.
async fn decode(router: &Router, answer: &Value) -> (jsonwebtoken::Header, Value) {
    let (status, keys) = send(router, Request::get("/jwks").body(Body::empty()).unwrap()).await;
    assert_eq!(status, StatusCode::OK);
    let (_, well_known) =
        send(router, Request::get("/.well-known/jwks.json").body(Body::empty()).unwrap()).await;
    assert_eq!(keys, well_known);
    let keys: JwkSet = serde_json::from_value(keys).unwrap();
    let token = answer["data"]["token"].as_str().unwrap();
    let header = jsonwebtoken::decode_header(token).unwrap();
    let key = keys.find(header.kid.as_deref().unwrap()).unwrap();
    let mut validation = Validation::new(Algorithm::ES256);
    validation.validate_exp = false;
    validation.validate_aud = false;
    let token =
        jsonwebtoken::decode::<Value>(token, &DecodingKey::from_jwk(key).unwrap(), &validation).unwrap();
    (header, token.claims)
}

#[tokio::test]
async fn a_system_token_buys_an_es256_token_that_the_published_keys_verify() {
    let wall = Wall::new();
    let (_, router) = router(&wall);
    let (status, answer) = ask(&router, ADMIN, everything()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["status"], "success");
    let (header, claims) = decode(&router, &answer).await;
    assert_eq!(header.alg, Algorithm::ES256);
    assert_eq!(header.typ.as_deref(), Some("at+jwt"));
    assert_eq!(claims["aud"], json!(["provisioning.grafana.app"]));
    assert_eq!(claims["namespace"], "*");
    assert_eq!(claims["sub"], "access-policy:provisioning-admin");
    assert_eq!(claims["iat"], wall.seconds());
    assert_eq!(claims["exp"], wall.seconds() + 600);
    assert!(!claims["jti"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn a_lifetime_may_be_wished_for_up_to_an_hour() {
    let wall = Wall::new();
    let (_, router) = router(&wall);
    for (wanted, given) in [(60, 60), (3600, 3600), (86_400, 3600)] {
        let body = json!({"namespace": "*", "audiences": ["a"], "expiresIn": wanted});
        let (_, claims) = decode(&router, &ask(&router, ADMIN, body).await.1).await;
        assert_eq!(claims["exp"], wall.seconds() + given, "{wanted}");
    }
}

#[tokio::test]
async fn a_missing_or_wrong_system_token_is_401() {
    let (_, router) = router(&Wall::new());
    let (status, answer) = ask(&router, "wrong", everything()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(answer["status"], "error");
    assert_eq!(answer["error"], "the system token is not known to this server");

    let request = Request::post("/sign/access-token").body(Body::from(everything().to_string())).unwrap();
    let (status, answer) = send(&router, request).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(answer["error"].as_str().unwrap().starts_with("no system token"), "{answer}");
}

#[tokio::test]
async fn the_default_token_works_on_loopback_listeners_only() {
    for (listener, accepted) in [
        ("127.0.0.1:6481", true),
        ("127.9.9.9:6481", true),
        ("[::1]:6481", true),
        ("0.0.0.0:6481", false),
        ("[::]:6481", false),
        ("192.168.1.2:6481", false),
    ] {
        let token = SystemToken::default_for(listener.parse().unwrap());
        assert_eq!(token.is_some(), accepted, "{listener}");
    }
    let router = exchange_router(issuer(&Wall::new(), vec![limited()]));
    let (status, answer) = ask(&router, ADMIN, everything()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert!(answer["error"].as_str().unwrap().contains("loopback"), "{answer}");
}

#[tokio::test]
async fn an_audience_or_namespace_beyond_the_system_token_is_403_and_named() {
    let (_, router) = router(&Wall::new());
    let inside = json!({"namespace": "team-a", "audiences": ["folder.grafana.app"]});
    assert_eq!(ask(&router, "limited", inside).await.0, StatusCode::OK);
    for (namespace, audience, named) in [
        ("team-a", "provisioning.grafana.app", "provisioning.grafana.app"),
        ("team-b", "folder.grafana.app", "team-b"),
        ("*", "folder.grafana.app", "*"),
    ] {
        let body = json!({"namespace": namespace, "audiences": ["folder.grafana.app", audience]});
        let (status, answer) = ask(&router, "limited", body).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        let error = answer["error"].as_str().unwrap();
        assert!(error.contains(named) && error.contains("folders-only"), "{error}");
    }
}

#[tokio::test]
async fn a_bad_body_is_400_and_an_endless_one_413() {
    let (_, router) = router(&Wall::new());
    for (body, named) in [
        (json!({"audiences": ["a"]}), "namespace"),
        (json!({"namespace": "*"}), "audiences"),
        (json!({"namespace": "*", "audiences": []}), "audiences"),
        (json!({"namespace": "*", "audiences": [""]}), "audiences"),
        (json!({"namespace": "*", "audiences": vec!["a"; 33]}), "audiences"),
        (json!({"namespace": "*", "audiences": ["a"], "expiresIn": 0}), "expiresIn"),
        (json!({"namespace": "*", "audiences": ["a"], "expiresIn": -5}), "expiresIn"),
        (json!({"namespace": "*", "audiences": ["a"], "subjectToken": "x.y.z"}), "subjectToken"),
        (json!("text"), "body"),
    ] {
        let (status, answer) = ask(&router, ADMIN, body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
        assert!(answer["error"].as_str().unwrap().contains(named), "{answer}");
    }
    let (status, answer) = ask(&router, ADMIN, json!({"namespace": "x".repeat(100_000)})).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(answer["status"], "error");
}

#[tokio::test]
async fn a_subject_token_makes_a_token_that_acts_for_its_subject_and_opens_no_more() {
    let wall = Wall::new();
    let (_, router) = router(&wall);
    let subject = json!({"namespace": "team-a", "audiences": ["folder.grafana.app"]});
    let (_, subject) = ask(&router, "limited", subject).await;
    let subject = subject["data"]["token"].as_str().unwrap();
    let body = |namespace: &str| json!({"namespace": namespace, "audiences": ["a"], "subjectToken": subject});
    let (_, answer) = ask(&router, ADMIN, body("team-a")).await;
    let (_, claims) = decode(&router, &answer).await;
    assert_eq!(claims["sub"], "access-policy:folders-only");
    assert_eq!(claims["act"]["sub"], "access-policy:provisioning-admin");
    assert_eq!(ask(&router, ADMIN, body("team-b")).await.0, StatusCode::FORBIDDEN);
    wall.advance(601);
    let (status, answer) = ask(&router, ADMIN, body("team-a")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["error"].as_str().unwrap().contains("expired"), "{answer}");
}

#[test]
fn an_empty_system_token_is_refused_at_the_start() {
    let options = IssuerOptions {
        system_tokens: vec![SystemToken::admin("empty", "".into())],
        ..IssuerOptions::default()
    };
    let error = Issuer::new(&Keys::ephemeral(&[]).unwrap(), options).unwrap_err();
    assert!(matches!(error, IssuerError::EmptySystemToken(name) if name == "empty"));
}

#[test]
fn nothing_secret_is_in_debug_output() {
    let keys = Keys::ephemeral(&[]).unwrap();
    let options = IssuerOptions {
        system_tokens: vec![SystemToken::admin("one", "canary-5e1f".into())],
        ..IssuerOptions::default()
    };
    let issuer = Issuer::new(&keys, options.clone()).unwrap();
    let printed = format!("{keys:?} {options:?} {issuer:?} {:?} {:?}", issuer.verifier(), keys.admin());
    assert!(!printed.contains("canary-5e1f"), "{printed}");
    assert!(!printed.contains("PRIVATE KEY"), "{printed}");
}

#[tokio::test(start_paused = true)]
async fn who_asks_is_known_before_a_body_is_read_and_no_body_is_waited_for_long() {
    let (_, router) = router(&Wall::new());
    for (token, expected) in [("wrong", StatusCode::UNAUTHORIZED), (ADMIN, StatusCode::REQUEST_TIMEOUT)] {
        let body = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::convert::Infallible>>());
        let request = Request::post("/sign/access-token").header("authorization", format!("Bearer {token}"));
        let asked = tokio::time::Instant::now();
        let (status, _) = send(&router, request.body(body).unwrap()).await;
        assert_eq!(status, expected);
        assert_eq!(asked.elapsed().is_zero(), status == StatusCode::UNAUTHORIZED);
    }
}

#[test]
fn keys_rotate_under_a_running_issuer_and_revoked_tokens_are_refused() {
    use secrecy::ExposeSecret as _;
    let folder = tempfile::tempdir().unwrap();
    let keys = Keys::load_or_create(folder.path(), &[]).unwrap();
    let later = Arc::new(AtomicI64::new(0));
    let clock = later.clone();
    let now = move || jiff::Timestamp::now() + jiff::SignedDuration::from_secs(clock.load(Ordering::SeqCst));
    let options = IssuerOptions {
        now: Arc::new(now),
        max_lifetime: Duration::from_hours(2),
        ..IssuerOptions::default()
    };
    let issuer = Issuer::new(&keys, options).unwrap();
    let request = serde_json::from_value(
        json!({"namespace": "*", "audiences": ["folder.grafana.app"], "expiresIn": 7200}),
    )
    .unwrap();
    let token = || issuer.issue("someone", &request).unwrap().expose_secret().to_owned();
    let verifier = issuer.verifier();
    let (old, doomed) = (token(), token());
    verifier.verify(&old).unwrap();

    SigningKeys::rotate(folder.path(), false).unwrap();
    let rotated = SigningKeys::load(folder.path()).unwrap();
    assert!(rotated.differ(keys.signing_keys()));
    issuer.use_keys(&rotated).unwrap();
    let new = token();
    let kid = |token: &str| jsonwebtoken::decode_header(token).unwrap().kid;
    assert_ne!(kid(&old), kid(&new));
    assert_eq!(issuer.jwks()["keys"].as_array().unwrap().len(), 2);
    for token in [&old, &doomed, &new] {
        verifier.verify(token).unwrap();
    }
    // As a start that comes after it.
    let restarted =
        Issuer::new(&Keys::load_or_create(folder.path(), &[]).unwrap(), IssuerOptions::default()).unwrap();
    restarted.verifier().verify(&new).unwrap();

    SigningKeys::revoke(folder.path(), &doomed).unwrap();
    issuer.use_keys(&SigningKeys::load(folder.path()).unwrap()).unwrap();
    assert_eq!(verifier.verify(&doomed).unwrap_err(), TokenError::Revoked);
    verifier.verify(&old).unwrap();

    // The old key goes with its last token.
    later.store(2 * 3600 - 60, Ordering::SeqCst);
    verifier.verify(&old).unwrap();
    later.store(2 * 3600 + 60, Ordering::SeqCst);
    verifier.verify(&old).unwrap_err();
    later.store(0, Ordering::SeqCst);

    SigningKeys::rotate(folder.path(), true).unwrap();
    issuer.use_keys(&SigningKeys::load(folder.path()).unwrap()).unwrap();
    assert!(matches!(verifier.verify(&new).unwrap_err(), TokenError::UnknownKey { .. }), "it is forgotten");
}

#[test]
fn a_limited_system_token_gives_limited_tokens_and_no_more_through_a_subject() {
    use secrecy::ExposeSecret as _;
    let wall = Wall::new();
    let reader = SystemToken {
        rights: serde_json::from_value(
            json!({"verbs": ["get", "list"], "resources": ["folders.folder.grafana.app"]}),
        )
        .unwrap(),
        ..SystemToken::admin("reader", "reads".into())
    };
    let issuer = issuer(&wall, vec![reader, SystemToken::admin("admin", "all".into())]);
    let ask = |system: &str, subject: Option<&str>| {
        let mut request = json!({"namespace": "default", "audiences": ["folder.grafana.app"]});
        if let Some(subject) = subject {
            request["subjectToken"] = json!(subject);
        }
        let token = issuer.exchange(system, &serde_json::from_value(request).unwrap()).unwrap();
        token.expose_secret().to_owned()
    };
    let limited = ask("reads", None);
    for token in [&limited, &ask("all", Some(&limited)), &ask("reads", Some(&ask("all", None)))] {
        let caller = issuer.verifier().verify(token).unwrap();
        caller.may("get", "folder.grafana.app", "folders", "default").unwrap();
        let denied =
            caller.may("delete", "folder.grafana.app", "folders", "default").unwrap_err().to_string();
        assert!(denied.contains("may not delete folders.folder.grafana.app"), "{denied}");
        caller.may("get", "folder.grafana.app", "others", "default").unwrap_err();
    }
    let caller = issuer.verifier().verify(&ask("all", None)).unwrap();
    caller.may("delete", "folder.grafana.app", "folders", "default").unwrap();
}
