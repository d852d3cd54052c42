//! The client certificate that we show, which is read again when its files change.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kube::config::AuthInfo;
use rustls::{
    SignatureScheme,
    client::ResolvesClientCert,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    sign::CertifiedKey,
};
use secrecy::{ExposeSecret as _, SecretString};
use windlass_telemetry::ErrorChain;

use super::transport::Credential;
use crate::reloaded::Reloaded;

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Identity {
    key: Arc<CertifiedKey>,
    credential: Credential,
}

/// A certificate and its key, one of them at least in a file, as they are at each handshake.
#[derive(Debug)]
pub(super) struct ReloadedIdentity(Reloaded<Identity>);

/// Where a kubeconfig has a part of an identity.
enum Part {
    Inline(SecretString),
    File(PathBuf),
}

impl ReloadedIdentity {
    /// The client certificate of a kubeconfig; `None` when it has none, or nothing of it in a file.
    ///
    /// # Errors
    /// What is wrong with the files, for a person.
    pub(super) fn of(auth: &AuthInfo) -> Result<Option<Self>, String> {
        let certificate = Part::of(
            auth.client_certificate_data.as_ref().map(|data| data.clone().into()),
            auth.client_certificate.as_deref(),
        );
        let key = Part::of(auth.client_key_data.clone(), auth.client_key.as_deref());
        match (certificate, key) {
            (Some(Part::Inline(_)), Some(Part::Inline(_))) | (None, _) | (_, None) => Ok(None),
            (Some(certificate), Some(key)) => Self::new(certificate, key).map(Some),
        }
    }

    /// A certificate and a key in a file each.
    ///
    /// # Errors
    /// What is wrong with the files, for a person.
    pub(super) fn of_files(certificate: &Path, key: &Path) -> Result<Self, String> {
        Self::new(Part::File(certificate.to_owned()), Part::File(key.to_owned()))
    }

    fn new(certificate: Part, key: Part) -> Result<Self, String> {
        let paths = [&certificate, &key].into_iter().filter_map(Part::path).map(Path::to_owned).collect();
        Ok(Self(Reloaded::open(paths, move || Identity::read(&certificate, &key))?))
    }

    /// What is shown now. It is the same one as before (`Arc::ptr_eq`) when the files did not change.
    pub(super) fn current(&self) -> Arc<Identity> {
        self.0.current()
    }
}

impl ResolvesClientCert for ReloadedIdentity {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current().key))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl Identity {
    /// Which certificate it is, and until when it is good.
    pub(super) fn credential(&self) -> &Credential {
        &self.credential
    }

    fn read(certificate: &Part, key: &Part) -> Result<Self, String> {
        let what = match certificate.path() {
            Some(path) => format!("the client certificate {}", path.display()),
            None => "the client certificate of the kubeconfig".to_owned(),
        };
        let pem = certificate.read()?;
        let unusable = || format!("{what} is no certificate in PEM");
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|_| unusable())?;
        let expires = chain.first().and_then(expiry).ok_or_else(unusable)?;
        let key = PrivateKeyDer::from_pem_slice(&key.read()?)
            .map_err(|_| format!("the key of {what} is no private key in PEM"))?;
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider)
            .map_err(|error| format!("{what} and its key cannot be used together: {}", ErrorChain(&error)))?;
        Ok(Self { key: Arc::new(key), credential: Credential { what, expires, is_reloaded: true } })
    }
}

impl Part {
    /// What stands in the kubeconfig itself wins, as with kubectl.
    fn of(inline: Option<SecretString>, path: Option<&str>) -> Option<Self> {
        let inline = inline.filter(|data| !data.expose_secret().is_empty());
        let file = || path.filter(|path| !path.is_empty()).map(|path| Self::File(path.into()));
        inline.map(Self::Inline).or_else(file)
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Inline(_) => None,
            Self::File(path) => Some(path),
        }
    }

    fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Inline(data) => STANDARD
                .decode(data.expose_secret().trim())
                .map_err(|_| "the kubeconfig holds something that is no base64".to_owned()),
            Self::File(path) => {
                std::fs::read(path).map_err(|error| format!("failed to read {}: {error}", path.display()))
            }
        }
    }
}

/// When a certificate expires.
pub(super) fn expiry(der: &CertificateDer<'_>) -> Option<Timestamp> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}
