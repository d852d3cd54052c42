//! What a real registry does not do on demand.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Response;
use windlass_oci::{Client, Digest, Login, OciError, Reference};

use crate::fixture::{StandIn, client, config, ok, secret, status, with};

const MANIFEST: &str = r#"{"schemaVersion":2,"layers":[],"annotations":{"a":"b"}}"#;

fn reference() -> Reference {
    Reference::Digest(Digest::of(MANIFEST.as_bytes()))
}

#[tokio::test]
async fn a_registry_in_trouble_is_asked_three_times() {
    for code in [408, 499, 500, 502, 503, 504, 522] {
        let flaky =
            StandIn::start(move |_, number| if number < 3 { status(code) } else { ok(MANIFEST) }).await;
        client().manifest(&flaky.repository(), &Login::Anonymous, &reference()).await.unwrap();
        assert_eq!(flaky.count(), 3, "{code}");
        let broken = StandIn::start(move |_, _| status(code)).await;
        let error =
            client().manifest(&broken.repository(), &Login::Anonymous, &reference()).await.unwrap_err();
        assert!(matches!(error, OciError::Unavailable { status, .. } if status == code), "{error}");
        assert!(error.is_transient() && !error.to_string().contains("hunter2"), "{error}");
        assert_eq!(broken.count(), 3, "{code}");
    }
}

#[tokio::test]
async fn what_is_final_is_asked_once() {
    for (code, permanent) in
        [(403, "refuses"), (404, "not found"), (400, "HTTP 400"), (418, "HTTP 418"), (204, "HTTP 204")]
    {
        let registry = StandIn::start(move |_, _| status(code)).await;
        let error =
            client().manifest(&registry.repository(), &Login::Anonymous, &reference()).await.unwrap_err();
        assert!(error.to_string().contains(permanent) && !error.is_transient(), "{error}");
        assert_eq!(registry.count(), 1, "{code}");
    }
}

#[tokio::test]
async fn who_asks_to_be_left_alone_is() {
    let registry = StandIn::start(|_, _| with(429, &[("retry-after", "120")])).await;
    let (client, repository) = (client(), registry.repository());
    let error = client.manifest(&repository, &Login::Anonymous, &reference()).await.unwrap_err();
    assert!(matches!(error, OciError::RateLimited { .. }) && error.is_transient(), "{error}");
    assert_eq!(error.retry_after(), Some(Duration::from_mins(2)));
    // Nothing at all is sent to it meanwhile, whoever asks for whatever.
    let error =
        client.manifest(&repository, &Login::Anonymous, &Reference::Tag("v1".into())).await.unwrap_err();
    assert!(error.retry_after().is_some_and(|left| left > Duration::from_mins(1)), "{error}");
    assert_eq!(registry.count(), 1);
}

#[tokio::test]
async fn a_short_wait_is_waited_for() {
    let registry =
        StandIn::start(
            |_, number| if number == 1 { with(429, &[("retry-after", "1")]) } else { ok(MANIFEST) },
        )
        .await;
    client().manifest(&registry.repository(), &Login::Anonymous, &reference()).await.unwrap();
    assert_eq!(registry.count(), 2);
}

#[tokio::test]
async fn a_date_says_how_long_as_well() {
    let past = "Wed, 21 Oct 2015 07:28:00 GMT";
    let registry =
        StandIn::start(
            move |_, number| if number == 1 { with(503, &[("retry-after", past)]) } else { ok(MANIFEST) },
        )
        .await;
    client().manifest(&registry.repository(), &Login::Anonymous, &reference()).await.unwrap();
    assert_eq!(registry.count(), 2);
}

#[tokio::test]
async fn what_is_not_what_its_digest_names_is_refused() {
    let registry = StandIn::start(|_, _| ok(MANIFEST.replace('b', "c"))).await;
    let repository = registry.repository();
    let error = client().manifest(&repository, &Login::Anonymous, &reference()).await.unwrap_err();
    assert!(matches!(error, OciError::WrongDigest { .. }) && !error.is_transient(), "{error}");
    let Reference::Digest(digest) = reference() else { unreachable!() };
    let error = client().blob(&repository, &Login::Anonymous, &digest, 1_000).await.unwrap_err();
    assert!(matches!(error, OciError::WrongDigest { .. }), "{error}");
    // A tag's answer is held against what the registry says it is.
    let lying = StandIn::start(|_, _| {
        let mut answer = ok(MANIFEST);
        let other = format!("sha256:{}", "0".repeat(64));
        answer.headers_mut().insert("docker-content-digest", other.parse().unwrap());
        answer
    })
    .await;
    let tag = Reference::Tag("latest".into());
    let error = client().manifest(&lying.repository(), &Login::Anonymous, &tag).await.unwrap_err();
    assert!(matches!(error, OciError::WrongDigest { .. }), "{error}");
}

/// Pieces for ever, of which nobody says how many there are.
fn endless() -> Response<Body> {
    let pieces = std::iter::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 4_096])));
    ok(Body::from_stream(futures::stream::iter(pieces)))
}

#[tokio::test]
async fn an_endless_answer_is_read_to_the_limit() {
    let registry = StandIn::start(|_, _| endless()).await;
    let (client, repository) = (client(), registry.repository());
    let Reference::Digest(digest) = reference() else { unreachable!() };
    for error in [
        client.manifest(&repository, &Login::Anonymous, &reference()).await.unwrap_err(),
        client.blob(&repository, &Login::Anonymous, &digest, 1 << 20).await.unwrap_err(),
    ] {
        assert!(matches!(error, OciError::TooLarge { .. }) && !error.is_transient(), "{error}");
    }
}

#[tokio::test]
async fn a_registry_that_says_nothing_costs_its_deadline() {
    let silent = StandIn::start(|_, _| {
        ok(Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>()))
    })
    .await;
    let mut config = config();
    config.deadlines.total = Duration::from_millis(300);
    let error = Client::new(config)
        .unwrap()
        .manifest(&silent.repository(), &Login::Anonymous, &reference())
        .await
        .unwrap_err();
    assert!(matches!(error, OciError::Timeout { .. }) && error.is_transient(), "{error}");
}

#[tokio::test]
async fn nonsense_is_named_and_not_asked_for_again() {
    for nonsense in ["", "<html>", "[]", "{\"layers\": 5}"] {
        let registry = StandIn::start(move |_, _| ok(nonsense)).await;
        let tag = Reference::Tag("latest".into());
        let (client, repository) = (client(), registry.repository());
        let error = client.manifest(&repository, &Login::Anonymous, &tag).await.unwrap_err();
        assert!(matches!(error, OciError::Malformed { .. }) && !error.is_transient(), "{nonsense}: {error}");
    }
}

#[tokio::test]
async fn nobody_listens_or_it_hangs_up() {
    // Taken, so that nobody else gets it, and not listened at.
    let taken = tokio::net::TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let nobody = crate::fixture::repository(&taken.local_addr().unwrap().to_string(), "a");
    let error = client().manifest(&nobody, &Login::Anonymous, &reference()).await.unwrap_err();
    assert!(matches!(error, OciError::Unreachable { .. }) && error.is_transient(), "{error}");
    let cut = StandIn::start(|_, _| {
        let pieces = [Ok(Bytes::from_static(b"{")), Err(std::io::Error::other("hang up"))];
        ok(Body::from_stream(futures::stream::iter(pieces)))
    })
    .await;
    let error = client().manifest(&cut.repository(), &Login::Anonymous, &reference()).await.unwrap_err();
    assert!(matches!(error, OciError::Unreachable { .. }) && error.is_transient(), "{error}");
}

#[tokio::test]
async fn a_redirected_blob_is_fetched_without_credentials() {
    let Reference::Digest(digest) = reference() else { unreachable!() };
    let store = StandIn::start(|_, _| ok(MANIFEST)).await;
    let target = format!("http://{}/bucket/x?signature=hunter2", store.address);
    let registry = StandIn::start(move |seen, _| match seen.authorization() {
        "" => with(401, &[("www-authenticate", "Basic realm=\"x\"")]),
        _ => with(307, &[("location", &target)]),
    })
    .await;
    let login = secret(&registry.address, "me", "open sesame");
    let content = client().blob(&registry.repository(), &login, &digest, 1_000).await.unwrap();
    assert_eq!(&content[..], MANIFEST.as_bytes());
    let seen = store.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].authorization(), "");
    assert!(registry.seen.lock().unwrap()[1].authorization().starts_with("Basic "));
}

#[tokio::test]
async fn a_redirect_leads_only_where_a_registry_may_lead() {
    let Reference::Digest(digest) = reference() else { unreachable!() };
    for (target, says) in [
        ("http://169.254.169.254/latest/meta-data?x=hunter2", "link-local"),
        ("https://[fe80::1]/x", "link-local"),
        ("http://registry.example.org/x", "it is not https"),
        ("file:///etc/passwd", "no host"),
        ("", "redirects"),
        ("/again", "more than 5 redirects"),
    ] {
        let registry = StandIn::start(move |_, _| with(302, &[("location", target)])).await;
        let error =
            client().blob(&registry.repository(), &Login::Anonymous, &digest, 1_000).await.unwrap_err();
        assert!(error.to_string().contains(says) && !error.is_transient(), "{target}: {error}");
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
