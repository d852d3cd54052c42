//! The token dance.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use windlass_oci::{Client, Digest, DockerConfig, Login, OciError, Reference};

use crate::fixture::{Seen, StandIn, client, ok, secret, status, with};

const MANIFEST: &str = r#"{"schemaVersion":2,"layers":[]}"#;

fn reference() -> Reference {
    Reference::Digest(Digest::of(MANIFEST.as_bytes()))
}

/// A registry that is its own token service: `token` answers requests for tokens, and what it gives opens the rest.
async fn registry(token: impl Fn(&Seen, usize) -> Response<Body> + Send + Sync + 'static) -> StandIn {
    StandIn::start(move |seen, number| {
        let host = seen.headers["host"].to_str().unwrap();
        if seen.line.contains(" /token") {
            return token(seen, number);
        }
        if seen.authorization() == "Bearer opens" {
            return ok(MANIFEST);
        }
        let challenge =
            format!(r#"Bearer realm="http://{host}/token?x=1",service="it",scope="repository:a/b:pull""#);
        with(401, &[("www-authenticate", &challenge)])
    })
    .await
}

fn opens(expires: &str) -> Response<Body> {
    ok(format!(r#"{{"token": "opens"{expires}}}"#))
}

async fn read(client: &Client, registry: &StandIn, login: &Login) -> Result<(), OciError> {
    client.manifest(&registry.repository(), login, &reference()).await.map(drop)
}

#[tokio::test]
async fn a_token_is_got_once_and_used_while_it_holds() {
    let registry = registry(|_, _| opens(r#", "expires_in": 300"#)).await;
    let client = client();
    for _ in 0..3 {
        read(&client, &registry, &Login::Anonymous).await.unwrap();
    }
    let lines = registry.lines();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[1], "GET /token?x=1&scope=repository%3Aa%2Fb%3Apull&service=it");
}

#[tokio::test]
async fn a_token_that_ran_out_is_renewed_before_it_is_refused() {
    let registry = registry(|_, _| opens(r#", "expires_in": 0"#)).await;
    let client = client();
    for _ in 0..2 {
        read(&client, &registry, &Login::Anonymous).await.unwrap();
    }
    let lines = registry.lines();
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert!(lines[3].contains("/token"), "{lines:?}");
}

#[tokio::test]
async fn a_token_that_was_revoked_is_got_again() {
    // The token of the second request opens the third; the fourth finds it revoked, the fifth gets another.
    let registry = StandIn::start(|seen, number| {
        let host = seen.headers["host"].to_str().unwrap();
        let challenge = format!(r#"Bearer realm="http://{host}/token""#);
        match (number, seen.authorization()) {
            (2 | 5, "") => ok(format!(r#"{{"access_token": "t{number}"}}"#)),
            (3, "Bearer t2") | (6, "Bearer t5") => ok(MANIFEST),
            _ => with(401, &[("www-authenticate", &challenge)]),
        }
    })
    .await;
    let client = client();
    for _ in 0..2 {
        read(&client, &registry, &Login::Anonymous).await.unwrap();
    }
    assert_eq!(registry.count(), 6);
}

#[tokio::test]
async fn passwords_go_to_the_token_service_and_not_to_the_registry() {
    let registry = registry(|seen, _| match seen.authorization() {
        "Basic bWU6b3BlbiBzZXNhbWU=" => opens(""),
        _ => status(401),
    })
    .await;
    let login = secret(&registry.address, "me", "open sesame");
    read(&client(), &registry, &login).await.unwrap();
    for seen in registry.seen.lock().unwrap().iter().filter(|seen| !seen.line.contains("/token")) {
        assert!(!seen.authorization().starts_with("Basic"), "{seen:?}");
    }
    let wrong = secret(&registry.address, "me", "wrong horse");
    let error = read(&client(), &registry, &wrong).await.unwrap_err();
    assert!(matches!(error, OciError::Unauthorized { sent: true, .. }), "{error}");
    let error = read(&client(), &registry, &Login::Anonymous).await.unwrap_err();
    assert!(matches!(error, OciError::Unauthorized { sent: false, .. }), "{error}");
}

#[tokio::test]
async fn an_identity_token_is_exchanged_by_form() {
    let registry = registry(|seen, _| {
        let form = String::from_utf8_lossy(&seen.body);
        let right = form.contains("grant_type=refresh_token") && form.contains("refresh_token=long+lived%26");
        if right && seen.line.starts_with("POST") { opens("") } else { status(400) }
    })
    .await;
    let config = format!(r#"{{"auths": {{"{}": {{"identitytoken": "long lived&"}}}}}}"#, registry.address);
    let login = Login::Secret(Arc::new(DockerConfig::parse(&config.into(), "a test").unwrap()));
    read(&client(), &registry, &login).await.unwrap();
}

#[tokio::test]
async fn a_registry_token_is_sent_as_it_is() {
    let registry = registry(|_, _| status(500)).await;
    let config = format!(r#"{{"auths": {{"{}": {{"registrytoken": "opens"}}}}}}"#, registry.address);
    let login = Login::Secret(Arc::new(DockerConfig::parse(&config.into(), "a test").unwrap()));
    read(&client(), &registry, &login).await.unwrap();
    assert_eq!(registry.count(), 2);
}

#[tokio::test]
async fn a_token_service_in_trouble_is_told_apart() {
    type Answers = fn(&Seen, usize) -> Response<Body>;
    let cases: [(Answers, &str, bool); 6] = [
        (|_, _| status(503), "HTTP 503", true),
        (|_, _| status(403), "refuses a token for", false),
        (|_, _| ok("hunter2"), "not a token's JSON", false),
        (|_, _| ok("{}"), "no token in it", false),
        (|_, _| ok(r#"{"token": "a\nb"}"#), "no header may have", false),
        (|_, _| ok(vec![b' '; 1 << 20]), "larger than", false),
    ];
    for (answer, says, transient) in cases {
        let registry = registry(answer).await;
        let error = read(&client(), &registry, &Login::Anonymous).await.unwrap_err();
        assert!(error.to_string().contains(says), "{says}: {error}");
        assert_eq!(error.is_transient(), transient, "{error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn a_token_that_opens_nothing_is_an_end_of_it() {
    let registry = registry(|_, _| ok(r#"{"token": "wrong"}"#)).await;
    let error = read(&client(), &registry, &Login::Anonymous).await.unwrap_err();
    assert!(matches!(error, OciError::Unauthorized { sent: true, .. }), "{error}");
    assert_eq!(registry.count(), 3);
}

#[tokio::test]
async fn a_realm_elsewhere_is_asked_over_tls_only() {
    for realm in ["http://tokens.example.org/token", "http://169.254.169.254/token", "ftp://x/", "token"] {
        let challenge = format!("Bearer realm=\"{realm}\"");
        let registry = StandIn::start(move |_, _| with(401, &[("www-authenticate", &challenge)])).await;
        let login = secret(&registry.address, "me", "open sesame");
        let error = read(&client(), &registry, &login).await.unwrap_err();
        assert!(matches!(error, OciError::Refused { .. }) && !error.is_transient(), "{error}");
        assert_eq!(registry.count(), 1);
    }
}

#[tokio::test]
async fn many_who_ask_at_once_share_a_log_in() {
    let registry = registry(|_, _| opens("")).await;
    let client = client();
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (client, repository) = (client.clone(), registry.repository());
        asking.spawn(
            async move { client.manifest(&repository, &Login::Anonymous, &reference()).await.map(drop) },
        );
    }
    for result in asking.join_all().await {
        result.unwrap();
    }
    let asked = registry.lines().iter().filter(|line| line.contains("/token")).count();
    assert_eq!(asked, 1);
}
