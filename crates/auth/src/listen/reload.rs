//! A server certificate in files that are renewed while the server runs.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::tls::{HTTP1, HTTP2, ServerTlsError};

/// How often the files are looked at.
const LOOK: Duration = Duration::from_secs(5);

/// TLS with a certificate and a key from PEM files. A renewed pair is used for new connections within seconds; while the
/// files do not fit together, the last pair that did stays.
///
/// # Errors
/// [`ServerTlsError`] if the files cannot be used now.
pub fn config_of_files(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, ServerTlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
    let seen = files.changed();
    let pair = files.read(&provider)?;
    let resolver = Renewed {
        files,
        provider: Arc::clone(&provider),
        state: Mutex::new(State { looked: Instant::now(), seen, pair: Arc::new(pair) }),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(ServerTlsError::UseCertificate)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
    Ok(Arc::new(config))
}

#[derive(Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

impl Files {
    /// When each was last written.
    fn changed(&self) -> [Option<SystemTime>; 2] {
        [&self.certificate, &self.key]
            .map(|path| std::fs::metadata(path).and_then(|data| data.modified()).ok())
    }

    fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, ServerTlsError> {
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(ServerTlsError::ReadCertificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(ServerTlsError::ReadKey)?;
        CertifiedKey::from_der(chain, key, provider).map_err(ServerTlsError::UseCertificate)
    }
}

#[derive(Debug)]
struct Renewed {
    files: Files,
    provider: Arc<CryptoProvider>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    looked: Instant,
    seen: [Option<SystemTime>; 2],
    pair: Arc<CertifiedKey>,
}

impl ResolvesServerCert for Renewed {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.elapsed() >= LOOK {
            state.looked = Instant::now();
            let seen = self.files.changed();
            if seen != state.seen {
                match self.files.read(&self.provider) {
                    Ok(pair) => {
                        state.seen = seen;
                        state.pair = Arc::new(pair);
                        tracing::info!(certificate = %self.files.certificate.display(), "certificate renewed");
                    }
                    Err(error) => {
                        let error = windlass_telemetry::ErrorChain(&error).to_string();
                        tracing::warn!(
                            error,
                            "the renewed certificate cannot be used yet; the last one stays"
                        );
                    }
                }
            }
        }
        Some(Arc::clone(&state.pair))
    }
}
