//! A server certificate in files that are renewed while the server runs.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use windlass_telemetry::ErrorChain;

use super::tls::{HTTP1, HTTP2, ServerTlsError};
use crate::reloaded::Reloaded;

/// TLS with a certificate and a key from PEM files. A renewed pair is used for new connections; while the files do not
/// belong together, the last pair that did stays.
///
/// # Errors
/// [`ServerTlsError`] if the files cannot be used now.
pub fn config_of_files(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, ServerTlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let pair = ReloadedCertificate::open(certificate, key, &provider)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ServerTlsError::UseCertificate)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(pair));
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(Arc::new(config))
}

fn read(certificate: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, ServerTlsError> {
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(ServerTlsError::ReadCertificate)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(ServerTlsError::ReadKey)?;
    CertifiedKey::from_der(chain, key, provider).map_err(ServerTlsError::UseCertificate)
}

/// The certificate and key of two files, as they are at each handshake.
#[derive(Debug)]
pub(super) struct ReloadedCertificate(Reloaded<Arc<CertifiedKey>>);

impl ReloadedCertificate {
    pub(super) fn open(
        certificate: &Path,
        key: &Path,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, ServerTlsError> {
        // Read once more by ourselves, for an error that can be matched.
        read(certificate, key, provider)?;
        let (paths, reading) = ([certificate.to_owned(), key.to_owned()], Arc::clone(provider));
        let pair = Reloaded::open(paths.to_vec(), move || {
            let [certificate, key] = &paths;
            read(certificate, key, &reading).map(Arc::new).map_err(|error| ErrorChain(&error).to_string())
        });
        pair.map(Self).map_err(ServerTlsError::ReadAgain)
    }
}

impl ResolvesServerCert for ReloadedCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.current()))
    }
}
