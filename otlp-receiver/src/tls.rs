//! Certificates of one collector, and connections that they secure.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::serve::Listener;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::StartError;

/// An authority, and a server's and a client's certificate that it signed.
pub(crate) struct Certificates {
    /// The authority, PEM.
    pub(crate) authority: String,
    /// The client's certificate and its key, PEM.
    pub(crate) client: (String, String),
    /// Whether a client has to show its certificate.
    is_mutual: bool,
    root: CertificateDer<'static>,
    server: (CertificateDer<'static>, Vec<u8>),
}

impl Certificates {
    pub(crate) fn new(is_mutual: bool) -> Result<Self, StartError> {
        Self::make(is_mutual).map_err(StartError::Certificate)
    }

    fn make(is_mutual: bool) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority of a collector");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let sign = |names: Vec<String>| {
            let key = KeyPair::generate()?;
            let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
            Ok::<_, rcgen::Error>((certificate, key))
        };
        let (server, server_key) = sign(vec![Ipv4Addr::LOCALHOST.to_string(), "localhost".to_owned()])?;
        let (client, client_key) = sign(vec!["client".to_owned()])?;
        Ok(Self {
            authority: authority.as_ref().pem(),
            client: (client.pem(), client_key.serialize_pem()),
            is_mutual,
            root: authority.as_ref().der().clone(),
            server: (server.der().clone(), server_key.serialize_der()),
        })
    }

    /// Secures connections with the server's certificate.
    pub(crate) fn acceptor(&self) -> Result<TlsAcceptor, StartError> {
        self.config().map(|config| TlsAcceptor::from(Arc::new(config))).map_err(StartError::Tls)
    }

    fn config(&self) -> Result<ServerConfig, Box<dyn std::error::Error + Send + Sync>> {
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()?;
        let builder = if self.is_mutual {
            let mut roots = RootCertStore::empty();
            roots.add(self.root.clone())?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let (certificate, key) = self.server.clone();
        let mut config = builder.with_single_cert(vec![certificate], PrivateKeyDer::Pkcs8(key.into()))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("is_mutual", &self.is_mutual).finish_non_exhaustive()
    }
}

/// Accepts connections with TLS.
pub(crate) struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl TlsListener {
    pub(crate) fn new(listener: TcpListener, acceptor: TlsAcceptor) -> Self {
        Self { listener, acceptor }
    }
}

impl Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            // Who cannot agree on TLS is gone.
            if let Ok(stream) = self.acceptor.accept(stream).await {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
