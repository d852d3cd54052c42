//! Who is trusted, and what is shown to them.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::{Certificate, ClientBuilder};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, crypto};
use rustls_platform_verifier::Verifier;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::PinnedVerifier;
use crate::exchange::chain;

/// Clients that are kept although nobody uses them.
const MAX_KEPT: usize = 256;

/// Certificates are none, or no client can be made of them. No part of a key is in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetUpError(String);

impl From<reqwest::Error> for SetUpError {
    fn from(error: reqwest::Error) -> Self {
        Self(chain(&error))
    }
}

/// A certificate with those above it, and its key.
struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Authorities that are trusted beside the system's, and the certificate that is shown to a server which asks for one.
#[derive(Clone, Default)]
pub struct Tls {
    authorities: Vec<CertificateDer<'static>>,
    identity: Option<Arc<Identity>>,
    /// Of the authorities and the identity; nothing where there are none.
    fingerprints: [Option<[u8; 32]>; 2],
    /// What clients are made with, once it was seen to be good.
    config: Option<ClientConfig>,
}

impl Tls {
    /// Trusts the certificates in a PEM file, too.
    ///
    /// # Errors
    /// [`SetUpError`], which names the file.
    pub fn of_bundle(path: &Path) -> Result<Self, SetUpError> {
        let named = |error: &dyn fmt::Display| SetUpError(format!("{}: {error}", path.display()));
        let pem = std::fs::read(path).map_err(|error| named(&error))?;
        Self::default().trusting(&pem).map_err(|error| named(&error))
    }

    /// Trusts these certificates (PEM), too.
    ///
    /// # Errors
    /// [`SetUpError`] for what is no certificate.
    pub fn trusting(mut self, pem: &[u8]) -> Result<Self, SetUpError> {
        // Reads each certificate, which the PEM alone does not say to be one.
        Certificate::from_pem_bundle(pem)?;
        let found = certificates(pem);
        if found.is_empty() {
            return Err(SetUpError("it holds no certificate in PEM form".to_owned()));
        }
        self.authorities.extend(found);
        self.fingerprints[0] = Some(hash(&[self.fingerprints[0].as_ref().map_or(&[], |it| &it[..]), pem]));
        Ok(self)
    }

    /// Shows this certificate and those above it, with its key; both PEM.
    ///
    /// # Errors
    /// [`SetUpError`] for what is no certificate or no key. Whether they belong together is seen when a client is made.
    pub fn showing(mut self, chain: &[u8], key: &SecretString) -> Result<Self, SetUpError> {
        let key = key.expose_secret().as_bytes();
        let none =
            || SetUpError("it holds no client certificate with its private key, both in PEM form".to_owned());
        let parsed = PrivateKeyDer::from_pem_slice(key).map_err(|_| none())?;
        let certificates = certificates(chain);
        if certificates.is_empty() {
            return Err(none());
        }
        self.identity = Some(Arc::new(Identity { chain: certificates, key: parsed }));
        self.fingerprints[1] = Some(hash(&[key, chain]));
        Ok(self)
    }

    /// The same trust, and nothing to show: for servers that the certificate is not meant for.
    #[must_use]
    pub fn showing_nothing(&self) -> Self {
        let fingerprints = [self.fingerprints[0], None];
        Self { authorities: self.authorities.clone(), fingerprints, ..Self::default() }
    }

    /// What tells it from others; nothing where neither is set. No part of a key can be had from it.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        let [authorities, identity] = &self.fingerprints;
        (authorities.is_some() || identity.is_some())
            .then(|| hash(&[&authorities.unwrap_or_default(), &identity.unwrap_or_default()]))
    }

    /// Has clients trust and show this.
    pub(crate) fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
        if self.is_empty() {
            return builder;
        }
        match self.config.clone().map_or_else(|| self.client_config(), Ok) {
            Ok(config) => builder.tls_backend_preconfigured(config),
            // The builder has no place for the error. What is no configuration makes it fail.
            Err(error) => {
                tracing::error!(%error, "failed to use the certificates");
                builder.tls_backend_preconfigured(())
            }
        }
    }

    /// This, seen to be good.
    fn checked(mut self) -> Result<Self, SetUpError> {
        if !self.is_empty() {
            self.config = Some(self.client_config().map_err(|error| SetUpError(error.to_string()))?);
        }
        Ok(self)
    }

    fn is_empty(&self) -> bool {
        self.authorities.is_empty() && self.identity.is_none()
    }

    /// # Errors
    /// This machine has no authorities, and none is named; or a certificate and its key do not belong together.
    fn client_config(&self) -> Result<ClientConfig, rustls::Error> {
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let authorities = self.authorities.clone();
        let usual = Verifier::new_with_extra_roots(authorities.clone(), Arc::clone(&provider))?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(PinnedVerifier::new(Arc::new(usual), authorities)));
        let mut config = match self.identity.as_deref() {
            Some(Identity { chain, key }) => config.with_client_auth_cert(chain.clone(), key.clone_key())?,
            None => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// This, with the authorities of `usual` trusted as well.
    fn with(mut self, usual: &Self) -> Self {
        self.authorities.extend(usual.authorities.iter().cloned());
        self
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("authorities", &self.authorities.len())
            .field("identity", &self.identity.is_some())
            .finish_non_exhaustive()
    }
}

/// The certificates of a PEM text, whatever else is in it.
fn certificates(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect()
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

type Make<T> = dyn Fn(&Tls) -> Result<T, reqwest::Error> + Send + Sync;

/// Clients by what they trust and show, so that connections are shared by who brings the same, and by nobody else.
pub struct PerTls<T> {
    make: Box<Make<T>>,
    tls: Tls,
    usual: Arc<T>,
    own: Mutex<HashMap<[u8; 32], Arc<T>>>,
}

impl<T> PerTls<T> {
    /// Makes clients with `make`, which trust what `usual` does.
    ///
    /// # Errors
    /// [`SetUpError`].
    pub fn new(
        usual: Tls,
        make: impl Fn(&Tls) -> Result<T, reqwest::Error> + Send + Sync + 'static,
    ) -> Result<Self, SetUpError> {
        let first = Arc::new(make(&usual.clone().checked()?)?);
        Ok(Self { make: Box::new(make), tls: usual, usual: first, own: Mutex::default() })
    }

    /// The clients that trust and show `tls`, too.
    ///
    /// # Errors
    /// [`SetUpError`] where a certificate and its key do not belong together.
    pub fn of(&self, tls: &Tls) -> Result<Arc<T>, SetUpError> {
        let Some(key) = tls.fingerprint() else {
            return Ok(Arc::clone(&self.usual));
        };
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(clients) = own.get(&key) {
            return Ok(Arc::clone(clients));
        }
        if own.len() >= MAX_KEPT {
            // Certificates that were rotated away leave their clients behind.
            own.retain(|_, clients| Arc::strong_count(clients) > 1);
        }
        let clients = Arc::new((self.make)(&tls.clone().with(&self.tls).checked()?)?);
        own.insert(key, Arc::clone(&clients));
        Ok(clients)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedKey, IsCa, KeyPair, generate_simple_self_signed,
    };
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn pair() -> (String, SecretString) {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (cert.pem(), signing_key.serialize_pem().into())
    }

    fn pool() -> PerTls<reqwest::Client> {
        PerTls::new(Tls::default(), |tls| crate::builder(tls, std::time::Duration::from_secs(1)).build())
            .unwrap()
    }

    /// What `openssl req -x509` makes, and its key.
    fn made_by_openssl() -> (String, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        (pem, PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    /// The URL of a server that shows a certificate and answers each request with 204.
    async fn serve(pem: &str, key: PrivateKeyDer<'static>) -> String {
        let config =
            rustls::ServerConfig::builder_with_provider(Arc::new(crypto::aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(certificates(pem.as_bytes()), key)
                .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                if stream.read(&mut [0; 4096]).await.is_ok() {
                    let answer = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
                    stream.write_all(answer).await.ok();
                    stream.shutdown().await.ok();
                }
            }
        });
        format!("https://localhost:{port}/")
    }

    #[tokio::test]
    async fn a_server_is_reached_whose_self_signed_certificate_is_trusted() {
        let (pem, key) = made_by_openssl();
        let url = serve(&pem, key).await;
        let get = async |pem: &str| {
            let clients = pool().of(&Tls::default().trusting(pem.as_bytes()).unwrap()).unwrap();
            clients.get(&url).send().await
        };
        assert_eq!(get(&pem).await.unwrap().status(), 204);
        let error = chain(&get(&made_by_openssl().0).await.unwrap_err());
        assert!(error.contains("invalid peer certificate"), "{error}");
    }

    #[test]
    fn clients_are_shared_by_who_brings_the_same_and_by_nobody_else() {
        let ((one, key), (other, _), pool) = (pair(), pair(), pool());
        let trusting = |pem: &str| Tls::default().trusting(pem.as_bytes()).unwrap();
        let showing = || trusting(&one).showing(one.as_bytes(), &key).unwrap();
        let of = |tls: Tls| pool.of(&tls).unwrap();
        assert!(Arc::ptr_eq(&of(showing()), &of(showing())));
        assert!(Arc::ptr_eq(&of(trusting(&one)), &of(showing().showing_nothing())));
        let all = [Tls::default(), trusting(&one), trusting(&other), showing()].map(of);
        for (at, clients) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|before| !Arc::ptr_eq(before, clients)), "{at}");
        }
    }

    #[test]
    fn what_is_no_certificate_or_no_key_is_refused_and_shows_no_secret() {
        let ((cert, key), (_, other)) = (pair(), pair());
        let hunter: SecretString = "hunter2".to_owned().into();
        assert!(Tls::default().trusting(b"hunter2").is_err());
        for (chain, key) in [(cert.as_str(), &hunter), ("hunter2", &key), ("", &key)] {
            let error = Tls::default().showing(chain.as_bytes(), key).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
        let strangers = Tls::default().showing(cert.as_bytes(), &other).unwrap();
        assert!(!format!("{strangers:?}").contains("PRIVATE"), "{strangers:?}");
        let error = pool().of(&strangers).unwrap_err();
        assert!(!error.to_string().contains("PRIVATE"), "{error}");
    }
}
