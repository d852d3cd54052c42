//! Which objects a delivery wakes, and senders that show a token in place of a signature.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::conditions;

use crate::receivers::{Desk, TOKEN};
use crate::world::put;

impl Desk {
    async fn requested_at(&self, name: &str) -> Option<String> {
        let object = self.world.objects.get(name).await.unwrap();
        object.metadata.annotations?.remove("reconcile.fluxcd.io/requestedAt")
    }
}

#[tokio::test]
async fn a_delivery_wakes_what_its_filters_choose() {
    let desk = Desk::with(&[]).await;
    desk.set_token(TOKEN).await;
    let commit = desk.world.commit([put("a", "0")]);
    for name in ["app", "other", "third"] {
        desk.world.create(name, json!({})).await;
        desk.world.patch(name, json!({"metadata": {"labels": {"team": "a"}}})).await;
        desk.world.ready(name, &commit).await;
    }
    desk.create(json!({
        "type": "generic",
        "resourceFilter": "res.kind == 'GitRepository' && req.repositories.exists(it, it.name == res.metadata.name)",
        "resources": [
            {"kind": "GitRepository", "name": "*", "matchLabels": {"team": "a"}},
            {"kind": "GitRepository", "name": "third", "filter": "req.branch == 'main'"},
        ],
    }))
    .await;
    let path = desk.ready().await;
    let json = ("Content-Type", "application/json");
    let body = r#"{"repositories": [{"name": "other"}], "branch": "next"}"#;
    desk.answers(&path, body, &[json], 200).await;
    assert!(desk.requested_at("other").await.is_some());
    for name in ["app", "third"] {
        assert_eq!(desk.requested_at(name).await, None, "{name} was not chosen");
    }
    // What cannot be said of a delivery is an error of it, and what is no JSON cannot be read.
    assert_eq!(desk.send(&path, r#"{"branch": "next"}"#, &[json]).await, 500);
    assert_eq!(desk.send(&path, "{", &[json]).await, 400);
    assert_eq!(desk.requested_at("app").await, None);

    for (filter, why) in
        [("res.metadata.name", ""), ("res.metadata.", "yntax"), ("claims.sub == 'x'", "claims")]
    {
        desk.change(json!({"resourceFilter": filter})).await;
        if why.is_empty() {
            // Whether it is true or false is seen when it has a value.
            desk.ready().await;
            continue;
        }
        let (object, message) = desk.failed("InvalidCELExpression").await;
        assert!(message.contains("invalid resourceFilter expression") && message.contains(why), "{message}");
        assert!(conditions::is_true(&object.status.conditions, "Stalled"));
        desk.change(json!({"resourceFilter": "true"})).await;
        desk.ready().await;
    }
}

/// An issuer on this machine, whose keys are asked for so many times.
struct Issuer {
    origin: String,
    key: EncodingKey,
    asked: Arc<AtomicU64>,
}

impl Issuer {
    async fn start() -> Self {
        let pkcs8 =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref()).unwrap();
        let point = pair.public_key().as_ref();
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let (x, y) = (text(&point[1..33]), text(&point[33..]));
        let key =
            json!({"kty": "EC", "crv": "P-256", "kid": "one", "alg": "ES256", "use": "sig", "x": x, "y": y});
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let about = json!({
            "issuer": origin,
            "jwks_uri": format!("{origin}/keys"),
            "id_token_signing_alg_values_supported": ["ES256"],
        });
        // A key of a kind that nobody knows yet is no reason to know none.
        let keys = json!({"keys": [{"kty": "new", "kid": "two"}, key]});
        let asked = Arc::new(AtomicU64::new(0));
        let answer = async |State((asked, keys)): State<(Arc<AtomicU64>, Value)>| {
            asked.fetch_add(1, Ordering::Relaxed);
            Json(keys)
        };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(async move || Json(about)))
            .route("/keys", get(answer))
            .with_state((Arc::clone(&asked), keys));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { origin, key: EncodingKey::from_ec_der(pkcs8.as_ref()), asked }
    }

    /// A good token, but for these claims.
    fn token(&self, but: &Value) -> String {
        let now = jiff::Timestamp::now().as_second();
        let mut claims = json!({
            "iss": self.origin, "aud": ["notification-controller"], "iat": now, "exp": now + 300,
            "sub": "repo:me/app:ref:refs/heads/main", "repository_owner": "me",
        });
        for (key, value) in but.as_object().unwrap() {
            claims[key] = value.clone();
        }
        let header = Header { kid: Some("one".to_owned()), ..Header::new(Algorithm::ES256) };
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }
}

#[tokio::test]
async fn who_shows_a_token_of_the_issuer_that_says_what_is_wanted_is_believed_and_nobody_else() {
    let (issuer, other) = (Issuer::start().await, Issuer::start().await);
    let desk = Desk::with(&[&issuer.origin]).await;
    let mut commit = desk.world.commit([put("a", "0")]);
    desk.world.create("app", json!({})).await;
    desk.world.ready("app", &commit).await;
    let provider = |validation: &str| {
        json!([{
            "issuerURL": issuer.origin,
            "variables": [{"name": "place", "expression": "claims.sub.split(':')[1]"}],
            "validations": [
                {"expression": "claims.repository_owner == 'me'", "message": "it is another's"},
                {"expression": validation, "message": "it is another repository"},
            ],
        }])
    };
    desk.create(json!({
        "type": "generic-oidc",
        "secretRef": null,
        "resourceFilter": "claims.sub.endsWith('/main')",
        "oidcProviders": provider("vars.place == 'me/app'"),
    }))
    .await;
    let path = desk.ready().await;
    let send = async |token: &str| {
        let shown = format!("Bearer {token}");
        desk.send(&path, "{}", &[("Authorization", &shown), ("Content-Type", "application/json")]).await
    };
    let good = issuer.token(&json!({}));
    let (head, signature) = good.rsplit_once('.').unwrap();
    let (_, payload) = head.split_once('.').unwrap();
    let unsigned = format!("{}.{payload}.", URL_SAFE_NO_PAD.encode(r#"{"alg":"none","kid":"one"}"#));
    // A public key is no secret to sign with.
    let by_secret =
        format!("{}.{payload}.{signature}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","kid":"one"}"#));
    let bad = [
        ("no token", String::new()),
        ("not signed", unsigned),
        ("signed with a secret", by_secret),
        ("an issuer that is not wanted", other.token(&json!({}))),
        ("the issuer's name, and another's key", other.token(&json!({"iss": issuer.origin}))),
        ("for somebody else", issuer.token(&json!({"aud": "sts.example.org"}))),
        ("expired", issuer.token(&json!({"exp": 1_700_000_000}))),
        ("without an end", issuer.token(&json!({"exp": null}))),
        ("not good yet", issuer.token(&json!({"nbf": jiff::Timestamp::now().as_second() + 3600}))),
        ("another owner", issuer.token(&json!({"repository_owner": "you"}))),
        ("another repository", issuer.token(&json!({"sub": "repo:me/other:ref:refs/heads/main"}))),
    ];
    desk.answers(&path, "{}", &[("Content-Type", "application/json")], 400).await;
    for (what, token) in bad {
        assert_eq!(send(&token).await, 400, "{what}");
    }
    assert_eq!(other.asked.load(Ordering::Relaxed), 0, "who is not named is not asked");
    commit = desk.world.commit([put("a", "1")]);
    assert_eq!(send(&issuer.token(&json!({"sub": "repo:me/app:ref:refs/heads/next"}))).await, 200);
    assert_eq!(desk.requested_at("app").await, None, "the filter sees the claims");
    assert_eq!(send(&good).await, 200);
    desk.world.ready("app", &commit).await;
    assert_eq!(issuer.asked.load(Ordering::Relaxed), 1, "keys are asked for once");

    desk.change(json!({"oidcProviders": provider("vars.place ==")})).await;
    let (_, message) = desk.failed("InvalidCELExpression").await;
    assert!(message.contains("it is another repository"), "{message}");
    // An issuer that may not be connected to, or does not answer, lets nobody in.
    let mut providers = provider("true");
    providers[0]["issuerURL"] = json!(other.origin);
    desk.change(json!({"oidcProviders": providers})).await;
    desk.ready().await;
    let token = other.token(&json!({}));
    let until = Instant::now() + Duration::from_secs(30);
    while send(&good).await != 400 {
        assert!(Instant::now() < until, "the change is not seen");
    }
    assert_eq!(send(&token).await, 400, "its server may not be connected to");
    assert_eq!(other.asked.load(Ordering::Relaxed), 0);
}
