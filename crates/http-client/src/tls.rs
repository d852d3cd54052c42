//! Who is trusted, and what is shown to them.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::{Certificate, ClientBuilder, Identity};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

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

/// Authorities that are trusted beside the system's, and the certificate that is shown to a server which asks for one.
#[derive(Clone, Default)]
pub struct Tls {
    authorities: Vec<Certificate>,
    identity: Option<Identity>,
    /// Of the authorities and the identity; nothing where there are none.
    fingerprints: [Option<[u8; 32]>; 2],
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
        let found = Certificate::from_pem_bundle(pem)?;
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
        // One after the other, whichever came without a line feed at its end.
        let pem = [key, b"\n", chain].concat();
        let identity = Identity::from_pem(&pem);
        self.identity = Some(identity.map_err(|_| {
            SetUpError("it holds no client certificate with its private key, both in PEM form".to_owned())
        })?);
        self.fingerprints[1] = Some(hash(&[&pem]));
        Ok(self)
    }

    /// The same trust, and nothing to show: for servers that the certificate is not meant for.
    #[must_use]
    pub fn showing_nothing(&self) -> Self {
        let fingerprints = [self.fingerprints[0], None];
        Self { authorities: self.authorities.clone(), identity: None, fingerprints }
    }

    /// What tells it from others; nothing where neither is set. No part of a key can be had from it.
    pub fn fingerprint(&self) -> Option<[u8; 32]> {
        let [authorities, identity] = &self.fingerprints;
        (authorities.is_some() || identity.is_some())
            .then(|| hash(&[&authorities.unwrap_or_default(), &identity.unwrap_or_default()]))
    }

    pub(crate) fn apply(&self, builder: ClientBuilder) -> ClientBuilder {
        let builder = builder.tls_certs_merge(self.authorities.clone());
        match &self.identity {
            Some(identity) => builder.identity(identity.clone()),
            None => builder,
        }
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
        let first = Arc::new(make(&usual)?);
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
        let clients = Arc::new((self.make)(&tls.clone().with(&self.tls))?);
        own.insert(key, Arc::clone(&clients));
        Ok(clients)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, generate_simple_self_signed};

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
