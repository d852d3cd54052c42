//! Which cache belongs to whom.

use sha2::{Digest as _, Sha256};
use windlass_http_client::Tls;

use crate::{Credentials, Proxy};

/// What tells one cache from another: the URL, who asks, who is trusted to be the server, and what lies between.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(pub(super) String);

impl Key {
    /// Who asks is `identity` if there is one, whose secrets change; else the credentials themselves.
    pub(crate) fn new(
        url: &str,
        credentials: Option<&Credentials>,
        identity: Option<&str>,
        tls: &Tls,
        proxy: Option<&Proxy>,
    ) -> Self {
        let mut hash = Sha256::new();
        hash.update(url.as_bytes());
        match (identity, credentials) {
            (Some(identity), _) => {
                hash.update(b"\0\0identity\0");
                hash.update(identity.as_bytes());
            }
            (None, Some(credentials)) => hash.update(credentials.fingerprint()),
            (None, None) => {}
        }
        if let Some(fingerprint) = tls.fingerprint() {
            hash.update(b"\0\0tls\0");
            hash.update(fingerprint);
        }
        if let Some(proxy) = proxy {
            hash.update(b"\0\0proxy\0");
            hash.update(proxy.fingerprint());
        }
        Self(hex::encode(&hash.finalize()[..16]))
    }
}
