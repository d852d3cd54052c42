//! The keys that sign access tokens, and the tokens that were revoked: files that a server reads again while it runs.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use secrecy::{ExposeSecret as _, SecretString};

use super::keys::{KeysError, generate, load, locked, store, unusable};

const NEWEST: &str = "signing.key";
const PREVIOUS: &str = "signing.previous.key";
const REVOKED: &str = "revoked-tokens";

/// A key and its public point.
#[derive(Clone)]
pub(crate) struct SigningKey {
    pub(crate) pem: SecretString,
    /// Uncompressed: 0x04, 32 bytes of x, 32 bytes of y.
    point: Vec<u8>,
}

impl SigningKey {
    fn read(directory: Option<&Path>, name: &str) -> Result<Option<Self>, KeysError> {
        let Some(pem) = load(directory, name)? else { return Ok(None) };
        let key = KeyPair::from_pem(pem.expose_secret())
            .ok()
            .filter(|key| key.is_compatible(&PKCS_ECDSA_P256_SHA256))
            .ok_or_else(|| unusable(directory, name, "a PKCS#8 PEM of an ECDSA P-256 key"))?;
        Ok(Some(Self { point: key.public_key_raw().to_vec(), pem }))
    }

    fn make() -> Result<Self, KeysError> {
        let key = generate("a signing key", KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256))?;
        Ok(Self { pem: SecretString::from(key.serialize_pem()), point: key.public_key_raw().to_vec() })
    }

    /// The public point, x and y.
    pub(crate) fn point(&self) -> (&[u8], &[u8]) {
        self.point.get(1..).unwrap_or_default().split_at_checked(32).unwrap_or_default()
    }
}

/// The newest key signs. The one before it verifies what it signed until that is over. What is revoked is refused.
#[derive(Clone)]
pub struct SigningKeys {
    pub(crate) newest: SigningKey,
    pub(crate) previous: Option<SigningKey>,
    /// When the newest came in the place of the previous.
    pub(crate) since: SystemTime,
    pub(crate) revoked: BTreeSet<String>,
}

impl std::fmt::Debug for SigningKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKeys").field("since", &self.since).finish_non_exhaustive()
    }
}

impl SigningKeys {
    /// Reads the keys in this folder; makes the first.
    pub(crate) fn load_or_create(directory: Option<&Path>) -> Result<Self, KeysError> {
        let newest = match SigningKey::read(directory, NEWEST)? {
            Some(key) => key,
            None => {
                let key = SigningKey::make()?;
                store(directory, NEWEST, key.pem.expose_secret())?;
                key
            }
        };
        let since =
            directory.and_then(|directory| fs::metadata(directory.join(NEWEST)).ok()?.modified().ok());
        let revoked = load(directory, REVOKED)?.map(|text| {
            let ids = text.expose_secret().split_whitespace();
            ids.map(str::to_owned).collect()
        });
        Ok(Self {
            newest,
            previous: SigningKey::read(directory, PREVIOUS)?,
            since: since.unwrap_or_else(SystemTime::now),
            revoked: revoked.unwrap_or_default(),
        })
    }

    /// Reads the keys in this folder again.
    ///
    /// # Errors
    /// [`KeysError`], which names the file.
    pub fn load(directory: &Path) -> Result<Self, KeysError> {
        let _lock = locked(directory)?;
        Self::load_or_create(Some(directory))
    }

    /// How long the newest key has been signing.
    pub fn age(&self) -> Duration {
        SystemTime::now().duration_since(self.since).unwrap_or_default()
    }

    /// Whether these are other keys, or other tokens are revoked.
    pub fn differ(&self, other: &Self) -> bool {
        let point = |key: Option<&SigningKey>| key.map(|key| key.point.clone());
        self.newest.point != other.newest.point
            || point(self.previous.as_ref()) != point(other.previous.as_ref())
            || self.revoked != other.revoked
    }

    /// Puts a new key in the place of the newest, which verifies until its last token is over; not even that, if it is to be
    /// forgotten. A server that runs notices by itself.
    ///
    /// # Errors
    /// [`KeysError`], which names the file.
    pub fn rotate(directory: &Path, forget: bool) -> Result<(), KeysError> {
        let _lock = locked(directory)?;
        let at = Some(directory);
        if let Some(newest) = SigningKey::read(at, NEWEST)?.filter(|_| !forget) {
            store(at, PREVIOUS, newest.pem.expose_secret())?;
        } else {
            let path = directory.join(PREVIOUS);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(KeysError::WriteFile { path, source });
                }
                _ => {}
            }
        }
        store(at, NEWEST, SigningKey::make()?.pem.expose_secret())
    }

    /// Revokes a token, by its id (`jti`) or by itself; answers the id. A server that runs notices by itself.
    ///
    /// # Errors
    /// [`KeysError`], which names the file.
    pub fn revoke(directory: &Path, token: &str) -> Result<String, KeysError> {
        let _lock = locked(directory)?;
        let id = id_of(token).unwrap_or_else(|| token.trim().to_owned());
        let before = load(Some(directory), REVOKED)?;
        let before = before.as_ref().map_or("", |text| text.expose_secret());
        if !before.split_whitespace().any(|known| known == id) {
            store(Some(directory), REVOKED, &format!("{before}{id}\n"))?;
        }
        Ok(id)
    }
}

/// The id of a token, whose signature is nobody's business here.
fn id_of(token: &str) -> Option<String> {
    let claims = URL_SAFE_NO_PAD.decode(token.trim().split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    claims["jti"].as_str().map(str::to_owned)
}
