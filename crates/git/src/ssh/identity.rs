//! Who asks over SSH, and whom they know.

use std::fmt;
use std::sync::Arc;

use russh::keys::{Error, PrivateKey, decode_secret_key};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use windlass_http_client::printable;

use super::known_hosts::KnownHosts;
use crate::GitError;

/// A private key and the servers that it is for. It is read and unlocked when it is used first, and never printed.
#[derive(Clone)]
pub struct SshIdentity(Arc<Parts>);

struct Parts {
    key: SecretString,
    passphrase: Option<SecretString>,
    known_hosts: String,
    unlocked: OnceCell<Unlocked>,
}

/// What is left once all was read.
#[derive(Debug)]
pub(super) struct Unlocked {
    pub(super) private: Arc<PrivateKey>,
    pub(super) known_hosts: KnownHosts,
}

impl SshIdentity {
    /// A private key (OpenSSH's format, PKCS#8, PKCS#1 or SEC1, in PEM) of type Ed25519, ECDSA or RSA, the passphrase that it
    /// is protected by, and the lines of a `known_hosts` file. What is wrong with them is told when they are used.
    pub fn new(key: SecretString, passphrase: Option<SecretString>, known_hosts: impl Into<String>) -> Self {
        let known_hosts = known_hosts.into();
        Self(Arc::new(Parts { key, passphrase, known_hosts, unlocked: OnceCell::new() }))
    }

    /// What tells it from others; no part of the key can be had from it.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let Parts { key, passphrase, known_hosts, .. } = &*self.0;
        let mut hash = Sha256::new();
        let passphrase = passphrase.as_ref().map_or("", |it| it.expose_secret());
        for part in ["ssh", key.expose_secret(), passphrase, known_hosts] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    pub(super) async fn unlocked(&self) -> Result<&Unlocked, GitError> {
        let unlock = || async {
            let parts = Arc::clone(&self.0);
            // A passphrase is made slow to try.
            let unlocking = tokio::task::spawn_blocking(move || parts.unlock());
            unlocking.await.map_err(|error| refused(error.to_string()))?
        };
        self.0.unlocked.get_or_try_init(unlock).await
    }
}

impl Parts {
    fn unlock(&self) -> Result<Unlocked, GitError> {
        let passphrase =
            self.passphrase.as_ref().map(SecretString::expose_secret).filter(|it| !it.is_empty());
        let key = decode_secret_key(self.key.expose_secret().trim(), passphrase);
        let private = key.map_err(|error| match error {
            Error::KeyIsEncrypted => refused("it is protected by a passphrase, and none is given".to_owned()),
            _ if passphrase.is_some() => refused(
                "it cannot be read with the passphrase that is given; look at it with ssh-keygen -y"
                    .to_owned(),
            ),
            other => refused(format!(
                "it is no private key ({}); ssh-keygen -t ed25519 makes one",
                printable(&other.to_string(), 100)
            )),
        })?;
        let known_hosts = KnownHosts::parse(&self.known_hosts);
        if known_hosts.is_empty() {
            return Err(refused("known_hosts has no line that names a server and its key".to_owned()));
        }
        Ok(Unlocked { private: Arc::new(private), known_hosts })
    }
}

fn refused(detail: String) -> GitError {
    GitError::SshIdentity { detail }
}

impl fmt::Debug for SshIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SshIdentity([redacted])")
    }
}
