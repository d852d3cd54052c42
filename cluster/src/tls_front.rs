//! TLS in front of a server that has none, for tests of certificates.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use rcgen::{ExtendedKeyUsagePurpose, Issuer};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::certificates::{DAY, authority, issue};

/// Whom a [`TlsFront`] lets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// Everybody; who has a certificate is asked for it.
    Anyone,
    /// Those with a certificate of its authority.
    WithCertificate,
}

/// Takes TLS connections on a free port of this machine and passes what is in them to a server without TLS, until it is
/// dropped. Its certificate is of an authority of its own, which nobody trusts who was not told to.
pub struct TlsFront {
    port: u16,
    authority: String,
    client: (String, String),
    shown: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl TlsFront {
    /// Starts one before the server at `upstream` (`host:port`).
    ///
    /// # Errors
    /// When certificates cannot be made or no port is free.
    pub async fn start(upstream: &str, admitted: Admitted) -> Result<Self> {
        let (authority, key) = authority("windlass test servers")?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone())?;
        let pem = authority.pem();
        let issuer = Issuer::from_ca_cert_pem(&pem, key)?;
        let of = |name: &str, purpose| issue(&issuer, name, &["localhost", "127.0.0.1"], purpose, DAY);
        let (certificate, key) = of("server", ExtendedKeyUsagePurpose::ServerAuth)?;
        let (client, client_key) = of("client", ExtendedKeyUsagePurpose::ClientAuth)?;

        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = match admitted {
            Admitted::Anyone => verifier.allow_unauthenticated(),
            Admitted::WithCertificate => verifier,
        };
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier.build()?)
            .with_single_cert(vec![certificate.der().clone()], key)?;

        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let shown = Arc::<AtomicUsize>::default();
        let task = tokio::spawn(serve(
            listener,
            TlsAcceptor::from(Arc::new(config)),
            upstream.to_owned(),
            Arc::clone(&shown),
        ));
        Ok(Self { port, authority: pem, client: (client.pem(), client_key.serialize_pem()), shown, task })
    }

    /// `localhost:<port>`.
    pub fn address(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// The certificate of its authority, PEM.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A certificate that it lets in, and its key; PEM.
    pub fn client(&self) -> (&str, &str) {
        (&self.client.0, &self.client.1)
    }

    /// Connections so far whose clients showed a certificate.
    pub fn shown(&self) -> usize {
        self.shown.load(Ordering::Relaxed)
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, upstream: String, shown: Arc<AtomicUsize>) {
    while let Ok((connection, _)) = listener.accept().await {
        let (acceptor, upstream, shown) = (acceptor.clone(), upstream.clone(), Arc::clone(&shown));
        tokio::spawn(async move {
            // Who does not trust us, or is not let in, hangs up: that is what tests look at.
            let Ok(mut client) = acceptor.accept(connection).await else { return };
            if client.get_ref().1.peer_certificates().is_some() {
                shown.fetch_add(1, Ordering::Relaxed);
            }
            if let Ok(mut server) = TcpStream::connect(&upstream).await {
                let _ = copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}
