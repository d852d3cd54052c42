//! Which servers are trusted, and what is shown to them.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{Arc, Once},
};

use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
    sign::CertifiedKey,
};
use rustls_platform_verifier::BuilderVerifierExt as _;

use super::{identity::ReloadedIdentity, roots::ReloadedRoots};

/// TLS options of an operator, as `tls_insecure`, `tls_cert_file`, `tls_key_file` and `tls_ca_file` have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Accept any server certificate. For development.
    pub insecure: bool,
    /// Client certificate (chain), PEM. Used together with `key_file`; both are read again when they change.
    pub cert_file: Option<PathBuf>,
    /// Key of the client certificate, PEM.
    pub key_file: Option<PathBuf>,
    /// The only authorities that are trusted, PEM; without it, those that this machine trusts. Read again when the file changes.
    pub ca_file: Option<PathBuf>,
}

/// Why TLS options cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("failed to read {option} {}", path.display())]
    ReadFile {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file holds something else.
    #[error("failed to use {option} {}: it holds no {expected} in PEM", path.display())]
    ParseFile {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// What it should hold.
        expected: &'static str,
    },
    /// A certificate is given without a key, or the other way round.
    #[error("failed to use a client certificate: {given} is set and {missing} is not; set both or neither")]
    HalfPair {
        /// The option that is set.
        given: &'static str,
        /// The option that is missing.
        missing: &'static str,
    },
    /// The client certificate and its key do not go together.
    #[error("failed to use tls_cert_file with tls_key_file")]
    UseCertificate(#[source] rustls::Error),
    /// This machine has no authorities installed.
    #[error(
        "failed to load the certificate authorities of this machine; install its CA certificates, or set tls_ca_file"
    )]
    PlatformRoots(#[source] rustls::Error),
    /// The TLS library refused its own defaults.
    #[error("failed to set up TLS")]
    Configure(#[source] rustls::Error),
}

impl TlsOptions {
    /// The rustls configuration; reads the files.
    ///
    /// # Errors
    /// [`TlsError`], which names the option and the file.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Configure)?;
        let builder = if self.insecure {
            warn_once();
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(Arc::clone(&provider))))
        } else if let Some(path) = &self.ca_file {
            // Read once more by ourselves, for errors that name the option.
            certificates("tls_ca_file", path)?;
            let unusable = |_| TlsError::ParseFile {
                option: "tls_ca_file",
                path: path.clone(),
                expected: "usable CA certificate",
            };
            let roots = ReloadedRoots::new(path).map_err(unusable)?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(roots))
        } else {
            builder.with_platform_verifier().map_err(TlsError::PlatformRoots)?
        };
        match (&self.cert_file, &self.key_file) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(cert), Some(key)) => {
                // Read once more by ourselves, for errors that name the option.
                let chain = certificates("tls_cert_file", cert)?;
                let content = read("tls_key_file", key)?;
                let parsed = PrivateKeyDer::from_pem_slice(&content).map_err(|_| TlsError::ParseFile {
                    option: "tls_key_file",
                    path: key.clone(),
                    expected: "private key",
                })?;
                CertifiedKey::from_der(chain, parsed, &provider).map_err(TlsError::UseCertificate)?;
                let unusable = |_| TlsError::ParseFile {
                    option: "tls_cert_file",
                    path: cert.clone(),
                    expected: "usable client certificate",
                };
                let identity = ReloadedIdentity::of_files(cert, key).map_err(unusable)?;
                Ok(builder.with_client_cert_resolver(Arc::new(identity)))
            }
            (Some(_), None) => Err(TlsError::HalfPair { given: "tls_cert_file", missing: "tls_key_file" }),
            (None, Some(_)) => Err(TlsError::HalfPair { given: "tls_key_file", missing: "tls_cert_file" }),
        }
    }
}

/// Says once in the life of the process that servers are not verified.
fn warn_once() {
    static WARNING: Once = Once::new();
    WARNING.call_once(|| {
        tracing::warn!(
            "tls_insecure is set: server certificates are not verified; use it for development only"
        );
    });
}

fn read(option: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|source| TlsError::ReadFile { option, path: path.to_owned(), source })
}

fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let unusable = || TlsError::ParseFile { option, path: path.to_owned(), expected: "certificate" };
    let content = read(option, path)?;
    let certificates =
        CertificateDer::pem_slice_iter(&content).collect::<Result<Vec<_>, _>>().map_err(|_| unusable())?;
    if certificates.is_empty() { Err(unusable()) } else { Ok(certificates) }
}

/// Accepts every server that holds the key of the certificate it shows, whatever the certificate says.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
