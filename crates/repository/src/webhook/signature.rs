//! The proof that a delivery brings.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use secrecy::{ExposeSecret as _, SecretString};

/// The longest token that is looked at, in bytes.
const LONGEST_TOKEN: usize = 1024;

/// What the sender shows to prove that it knows the secret.
#[derive(Clone)]
pub(super) enum Proof {
    /// HMAC-SHA256 of the body, with the secret as its key.
    Hmac([u8; 32]),
    /// HMAC-SHA512 of the body.
    Sha512([u8; 64]),
    /// HMAC-SHA1 of the body, as servers make it that know no better.
    Sha1([u8; 20]),
    /// The secret itself, hashed, so that comparing takes the same time whatever its length.
    Token([u8; 32]),
}

impl Proof {
    /// A signature in hex digits.
    pub(super) fn hmac(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self::Hmac(bytes))
    }

    /// A signature as `sha256=…`; one with another hash is none.
    pub(super) fn prefixed_hmac(text: &str) -> Option<Self> {
        Self::hmac(text.strip_prefix("sha256=")?)
    }

    /// A signature as `sha512=…`.
    pub(super) fn prefixed_sha512(text: &str) -> Option<Self> {
        let mut bytes = [0; 64];
        hex::decode_to_slice(text.strip_prefix("sha512=")?, &mut bytes).ok()?;
        Some(Self::Sha512(bytes))
    }

    /// A signature as `sha1=…`.
    pub(super) fn prefixed_sha1(text: &str) -> Option<Self> {
        let mut bytes = [0; 20];
        hex::decode_to_slice(text.strip_prefix("sha1=")?, &mut bytes).ok()?;
        Some(Self::Sha1(bytes))
    }

    /// The secret itself.
    pub(super) fn token(text: &str) -> Option<Self> {
        (!text.is_empty() && text.len() <= LONGEST_TOKEN).then(|| Self::Token(hashed(text.as_bytes())))
    }

    pub(super) fn holds(&self, body: &[u8], secret: &SecretString) -> bool {
        let secret = secret.expose_secret().as_bytes();
        if secret.is_empty() {
            return false;
        }
        match self {
            Self::Hmac(signature) => {
                hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, secret), body, signature).is_ok()
            }
            Self::Sha512(signature) => {
                hmac::verify(&hmac::Key::new(hmac::HMAC_SHA512, secret), body, signature).is_ok()
            }
            Self::Sha1(signature) => {
                let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
                hmac::verify(&key, body, signature).is_ok()
            }
            Self::Token(shown) => verify_slices_are_equal(shown, &hashed(secret)).is_ok(),
        }
    }
}

fn hashed(text: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text).as_ref());
    hash
}
