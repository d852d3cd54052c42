//! Who asks a server.

use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::SshIdentity;

/// Who asks. Sent with every request to the remote's own scheme, host and port, and nowhere else.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// Basic authentication.
    Basic {
        /// User name; empty means `git`.
        user: String,
        /// Its password, or a token in its place.
        token: SecretString,
    },
    /// A token in the `Bearer` scheme.
    Bearer(SecretString),
    /// A key, for `ssh:` URLs.
    Ssh(SshIdentity),
}

impl Credentials {
    /// What tells them from others; no part of the secret can be had from it.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let (scheme, user, token) = match self {
            Self::Basic { user, token } => ("basic", user.as_str(), token),
            Self::Bearer(token) => ("bearer", "", token),
            Self::Ssh(identity) => return identity.fingerprint(),
        };
        let mut hash = Sha256::new();
        for part in [scheme, user, token.expose_secret()] {
            hash.update(part.len().to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }
}
