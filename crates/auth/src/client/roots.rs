//! Authorities from a file, which is read again when it changes.

use std::{path::Path, sync::Arc};

use rustls::{
    DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use windlass_http_client::PinnedVerifier;
use windlass_telemetry::ErrorChain;

use crate::reloaded::Reloaded;

/// Verifies servers against the authorities of a file, as it is at each handshake.
#[derive(Debug)]
pub(super) struct ReloadedRoots(Reloaded<Arc<PinnedVerifier>>);

impl ReloadedRoots {
    /// # Errors
    /// What is wrong with the file, for a person.
    pub(super) fn new(path: &Path) -> Result<Self, String> {
        let path = path.to_owned();
        Ok(Self(Reloaded::open(vec![path.clone()], move || verifier(&path))?))
    }
}

fn verifier(path: &Path) -> Result<Arc<PinnedVerifier>, String> {
    let content = std::fs::read(path).map_err(|error| error.to_string())?;
    let mut roots = RootCertStore::empty();
    let mut pinned = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(&content) {
        let certificate = certificate.map_err(|_| "it holds something that is no PEM".to_owned())?;
        pinned.push(certificate.clone());
        roots.add(certificate).map_err(|error| format!("it holds no usable CA certificate: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| format!("it holds no CA certificate in PEM: {}", ErrorChain(&error)))?;
    Ok(Arc::new(PinnedVerifier::new(authorities, pinned)))
}

impl ServerCertVerifier for ReloadedRoots {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.0.current().verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.current().verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.current().verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.current().supported_verify_schemes()
    }
}
