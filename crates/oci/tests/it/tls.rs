//! Registries with authorities of their own, and such that want to see a certificate.

use windlass_cluster::{Admitted, TlsFront};
use windlass_oci::{Digest, Login, OciError, Repository, Tls};

use crate::fixture::{StandIn, client, ok, with};

fn at(front: &TlsFront) -> Repository {
    Repository::parse(&format!("oci://{}/a/b", front.address()), false).unwrap()
}

fn trusting(fronts: &[&TlsFront]) -> Tls {
    let pem: String = fronts.iter().map(|front| front.authority()).collect();
    Tls::default().trusting(pem.as_bytes()).unwrap()
}

fn showing(tls: Tls, front: &TlsFront) -> Tls {
    let (chain, key) = front.client();
    tls.showing(chain.as_bytes(), &key.to_owned().into()).unwrap()
}

#[tokio::test]
async fn an_authority_is_trusted_by_who_brings_it_and_by_nobody_else() {
    let registry = StandIn::start(|_, _| ok("content")).await;
    let front = TlsFront::start(&registry.address, Admitted::Anyone).await.unwrap();
    let (digest, client) = (Digest::of(b"content"), client());
    let own = client.with_tls(&trusting(&[&front])).unwrap();
    own.blob(&at(&front), &Login::Anonymous, &digest, 100).await.unwrap();
    let error = client.blob(&at(&front), &Login::Anonymous, &digest, 100).await.unwrap_err();
    assert!(matches!(error, OciError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
    // All count as one client's.
    assert_eq!(client.request_count(), own.request_count());
}

#[tokio::test]
async fn a_certificate_is_shown_to_the_registry_and_not_to_whom_that_sends_us() {
    let store = StandIn::start(|_, _| ok("content")).await;
    let store = TlsFront::start(&store.address, Admitted::Anyone).await.unwrap();
    let target = format!("https://{}/bucket/x", store.address());
    let registry = StandIn::start(move |_, _| with(307, &[("location", &target)])).await;
    let front = TlsFront::start(&registry.address, Admitted::WithCertificate).await.unwrap();
    let digest = Digest::of(b"content");
    let known = client().with_tls(&showing(trusting(&[&front, &store]), &front)).unwrap();
    known.blob(&at(&front), &Login::Anonymous, &digest, 100).await.unwrap();
    assert_eq!((front.shown(), store.shown()), (1, 0));
    let unknown = client().with_tls(&trusting(&[&front, &store])).unwrap();
    let error = unknown.blob(&at(&front), &Login::Anonymous, &digest, 100).await.unwrap_err();
    assert!(matches!(error, OciError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_certificate_without_its_own_key_is_refused_and_shown_nowhere() {
    let registry = StandIn::start(|_, _| ok("content")).await;
    let front = TlsFront::start(&registry.address, Admitted::Anyone).await.unwrap();
    let other = TlsFront::start(&registry.address, Admitted::Anyone).await.unwrap();
    let mixed = Tls::default().showing(front.client().0.as_bytes(), &other.client().1.to_owned().into());
    let Err(error) = client().with_tls(&mixed.unwrap()) else { panic!("the key is another's") };
    assert!(matches!(error, OciError::SetUp { .. }) && !error.to_string().contains("PRIVATE"), "{error}");
}
