//! Which keys of a server are accepted.

use russh::client;
use russh::keys::PublicKeyOrCertificate;
use ssh_key::public::KeyData;

/// Whether a server is who it should be.
pub(super) struct Verifier {
    pub(super) trusted: Vec<KeyData>,
}

impl client::Handler for Verifier {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        Ok(match shown {
            PublicKeyOrCertificate::PublicKey { key, .. } => self.trusted.contains(key.key_data()),
            PublicKeyOrCertificate::Certificate(_) => false,
        })
    }
}
