//! HTTPS, with optional client certificates.

use std::{net::SocketAddr, sync::Arc};

use axum::Router;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier},
};
use secrecy::ExposeSecret as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::reload::ReloadedCertificate;
pub use super::reload::config_of_files;
use super::{
    ServeOptions,
    connection::{Protocol, accept_loop, serve_connection},
};
use crate::server::{CertificatePair, Keys, identity};

pub(super) const HTTP2: &[u8] = b"h2";
pub(super) const HTTP1: &[u8] = b"http/1.1";

/// Why a server's TLS could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerTlsError {
    /// The certificate is no PEM certificate.
    #[error("failed to read the server certificate")]
    ReadCertificate(#[source] rustls::pki_types::pem::Error),
    /// The key is no PEM private key.
    #[error("failed to read the server key")]
    ReadKey(#[source] rustls::pki_types::pem::Error),
    /// The client CA is no PEM certificate.
    #[error("failed to read the client CA")]
    ReadClientCa(#[source] rustls::pki_types::pem::Error),
    /// The client CA cannot anchor trust.
    #[error("failed to trust the client CA")]
    TrustClientCa(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The files changed while they were read, and cannot be used any more.
    #[error("failed to read the server certificate and its key: {0}")]
    ReadAgain(String),
    /// Key and certificate do not go together.
    #[error("failed to use the server certificate with its key")]
    UseCertificate(#[source] rustls::Error),
}

/// TLS with the server certificate of `keys`; client certificates are optional and must be signed by its CA. Keys of a
/// folder are looked at there at each handshake: a certificate that was renewed is used from then on.
///
/// # Errors
/// [`ServerTlsError`] if the keys do not fit.
pub fn config(keys: &Keys) -> Result<Arc<ServerConfig>, ServerTlsError> {
    let client_ca = Some(keys.ca_certificate());
    // On a full disk the certificate may be in memory alone.
    let files = keys.server_files().filter(|(certificate, key)| certificate.exists() && key.exists());
    let Some((certificate, key)) = files else { return config_from(keys.server(), client_ca) };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let pair = ReloadedCertificate::open(&certificate, &key, &provider)?;
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(ServerTlsError::UseCertificate)?
        .with_client_cert_verifier(verifier(client_ca, &provider)?)
        .with_cert_resolver(Arc::new(pair));
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(Arc::new(config))
}

/// TLS with any certificate. With `client_ca` (PEM), client certificates are asked for and, when sent, verified
/// against it; a connection without one is served as well.
///
/// # Errors
/// [`ServerTlsError`], which says which part is unusable.
pub fn config_from(
    server: &CertificatePair,
    client_ca: Option<&str>,
) -> Result<Arc<ServerConfig>, ServerTlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier = verifier(client_ca, &provider)?;
    let chain = CertificateDer::pem_slice_iter(server.certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(ServerTlsError::ReadCertificate)?;
    let key = PrivateKeyDer::from_pem_slice(server.key.expose_secret().as_bytes())
        .map_err(ServerTlsError::ReadKey)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ServerTlsError::UseCertificate)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(ServerTlsError::UseCertificate)?;
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(Arc::new(config))
}

/// Verifies client certificates, if any are asked for.
fn verifier(
    client_ca: Option<&str>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, ServerTlsError> {
    Ok(match client_ca {
        None => Arc::new(NoClientAuth),
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(ServerTlsError::ReadClientCa)?;
                roots.add(certificate).map_err(|error| ServerTlsError::TrustClientCa(error.into()))?;
            }
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .allow_unauthenticated()
                .build()
                .map_err(|error| ServerTlsError::TrustClientCa(error.into()))?
        }
    })
}

/// Serves `router` over TLS until `shutdown`, with the default limits.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    shutdown: CancellationToken,
) {
    serve_with(listener, tls, router, ServeOptions::default(), shutdown).await;
}

/// Serves `router` over TLS until `shutdown`. Requests carry [`axum::extract::ConnectInfo`] and, when the client
/// showed a certificate, its [`PeerIdentity`](super::PeerIdentity).
pub async fn serve_with(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    options: ServeOptions,
    shutdown: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
    accept_loop(listener, &options, shutdown.clone(), |stream, peer| {
        connection(acceptor.clone(), stream, peer, router.clone(), options.clone(), shutdown.clone())
    })
    .await;
}

async fn connection(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    options: ServeOptions,
    shutdown: CancellationToken,
) {
    let handshake = tokio::select! {
        handshake = tokio::time::timeout(options.handshake_timeout, acceptor.accept(stream)) => handshake,
        () = shutdown.cancelled() => return,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%peer, %error, "TLS handshake failed"),
        Err(_) => return tracing::debug!(%peer, "TLS handshake took too long"),
    };
    let session = stream.get_ref().1;
    let identity = session.peer_certificates().and_then(|chain| identity(chain.first()?));
    let protocol = if session.alpn_protocol() == Some(HTTP2) { Protocol::Http2 } else { Protocol::Http1 };
    serve_connection(stream, peer, identity, protocol, router, options, shutdown).await;
}
