//! Certificates: trusted through the CA bundle, and not otherwise.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use windlass_git::{Git, GitConfig, GitError, Remote, Revision, UrlPolicy};

const TIP: &str = "0123456789abcdef0123456789abcdef01234567";

/// Answers every request with one ref, over TLS; returns its origin and its certificate.
async fn server() -> (String, String) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let Ok(mut connection) = acceptor.accept(connection).await else { continue };
            let mut request = Vec::new();
            while !request.ends_with(b"0000") && connection.read_buf(&mut request).await.unwrap_or(0) > 0 {}
            let line = format!("{TIP} refs/heads/main\n");
            let body = format!("{:04x}{line}0000", line.len() + 4);
            let kind = "application/x-git-upload-pack-result";
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
            connection.write_all((head + &body).as_bytes()).await.unwrap();
            connection.shutdown().await.unwrap();
        }
    });
    (origin, cert.pem())
}

async fn resolve(
    origin: &str,
    ca_bundle: Option<PathBuf>,
    authorities: Option<&str>,
) -> Result<Revision, GitError> {
    let folder = tempfile::tempdir().unwrap();
    let mut config = GitConfig::new(folder.path());
    config.policy = UrlPolicy::default().allow_origin(origin).unwrap();
    config.ca_bundle = ca_bundle;
    let source = Git::new(config)?.remote(Remote {
        url: format!("{origin}/a.git"),
        authorities: authorities.map(|pem| pem.as_bytes().to_vec()),
        ..Remote::default()
    })?;
    source.resolve("main", &CancellationToken::new()).await
}

#[tokio::test]
async fn a_certificate_is_trusted_through_the_bundle_and_not_otherwise() {
    let (origin, pem) = server().await;
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca.pem");
    std::fs::write(&bundle, pem).unwrap();
    assert_eq!(resolve(&origin, Some(bundle), None).await.unwrap().as_str(), TIP);
    let error = resolve(&origin, None, None).await.unwrap_err();
    assert!(matches!(error, GitError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_bundle_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = folder.path().join("ca.pem");
    std::fs::write(&bundle, "no certificate").unwrap();
    for path in [bundle, folder.path().join("missing.pem")] {
        let error = resolve("https://localhost:1", Some(path.clone()), None).await.unwrap_err();
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    }
}

#[tokio::test]
async fn a_repository_may_bring_its_own_authorities() {
    let (origin, pem) = server().await;
    assert_eq!(resolve(&origin, None, Some(&pem)).await.unwrap().as_str(), TIP);
    let (_, other) = server().await;
    let error = resolve(&origin, None, Some(&other)).await.unwrap_err();
    assert!(matches!(error, GitError::Unreachable { .. }), "{error:?}");
    let error = resolve(&origin, None, Some("no certificate")).await.unwrap_err();
    assert!(matches!(error, GitError::SetUp { .. }), "{error:?}");
}
