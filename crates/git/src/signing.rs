//! Keys that commits are signed with.
//!
//! An SSH signature is OpenSSH's SSHSIG in the namespace `git`, an `OpenPGP` signature a detached one of version 4; both are
//! what `git verify-commit` reads. Signatures are deterministic: the same key signs the same commit with the same bytes,
//! so that a commit that is made again keeps its id.

use std::fmt;

use pgp::composed::{ArmorOptions, Deserializable as _, DetachedSignature, SignedSecretKey};
use pgp::packet::{Signature, SignatureConfig, SignatureType, Subpacket, SubpacketData};
use pgp::types::{KeyDetails, KeyVersion, Password, SecretParams, SigningKey as PgpSigner, Timestamp};
use secrecy::{ExposeSecret as _, SecretString};
use ssh_key::{HashAlg, LineEnding, PrivateKey};
use windlass_http_client::printable;

use crate::GitError;

/// What SSH signatures of commits are for, as Git says it.
pub(crate) const SSH_NAMESPACE: &str = "git";

/// A private key that signs commits. It is never printed.
pub struct SigningKey(Key);

enum Key {
    Ssh(Box<PrivateKey>),
    OpenPgp(Box<SignedSecretKey>),
}

impl SigningKey {
    /// An SSH key in OpenSSH's format, without a passphrase: Ed25519, ECDSA or RSA.
    ///
    /// # Errors
    /// [`GitError::Signing`] for everything else.
    pub fn ssh(text: &SecretString) -> Result<Self, GitError> {
        let key = PrivateKey::from_openssh(text.expose_secret().trim()).map_err(|error| {
            refused(format!(
                "the key is no private SSH key in OpenSSH's format ({error}); make one with ssh-keygen"
            ))
        })?;
        if key.is_encrypted() {
            return Err(protected());
        }
        let key = Self(Key::Ssh(Box::new(key)));
        key.sign(b"", 0)?;
        Ok(key)
    }

    /// An `OpenPGP` key, armoured (`gpg --armor --export-secret-keys`), without a passphrase. Its newest subkey that may
    /// sign does so, else the key itself.
    ///
    /// # Errors
    /// [`GitError::Signing`] for everything else.
    pub fn open_pgp(text: &SecretString) -> Result<Self, GitError> {
        let (key, _) = SignedSecretKey::from_string(text.expose_secret().trim_start()).map_err(|error| {
            let detail = printable(&error.to_string(), 200);
            refused(format!(
                "the key is no armoured private OpenPGP key ({detail}); gpg --armor --export-secret-keys writes one"
            ))
        })?;
        let parts = key.secret_subkeys.iter().map(|subkey| subkey.key.secret_params());
        if parts.chain([key.primary_key.secret_params()]).all(SecretParams::is_encrypted) {
            return Err(protected());
        }
        key.verify_bindings().map_err(|_error| refused("the OpenPGP key's own signatures do not hold"))?;
        Ok(Self(Key::OpenPgp(Box::new(key))))
    }

    /// The signature of `content`, armoured, made at `seconds` since 1970.
    pub(crate) fn sign(&self, content: &[u8], seconds: i64) -> Result<String, GitError> {
        match &self.0 {
            Key::Ssh(key) => {
                let signed = key.sign(SSH_NAMESPACE, HashAlg::Sha512, content);
                signed.and_then(|signature| signature.to_pem(LineEnding::LF)).map_err(|error| {
                    refused(format!("the SSH key cannot sign ({error}); use an Ed25519, ECDSA or RSA key"))
                })
            }
            Key::OpenPgp(key) => sign_open_pgp(key, content, seconds),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey([redacted])")
    }
}

fn sign_open_pgp(key: &SignedSecretKey, content: &[u8], seconds: i64) -> Result<String, GitError> {
    let seconds = u32::try_from(seconds.max(0)).unwrap_or(u32::MAX);
    if !key.details.revocation_signatures.is_empty() {
        return Err(refused("the OpenPGP key is revoked"));
    }
    let users = key.details.users.iter().flat_map(|user| &user.signatures);
    let primary = newest(key.details.direct_signatures.iter().chain(users));
    if primary.is_some_and(|binding| is_expired(&key.primary_key, binding, seconds)) {
        return Err(refused("the OpenPGP key has expired"));
    }
    let subkeys = key.secret_subkeys.iter().filter(|subkey| {
        let binding = newest(&subkey.signatures).filter(|it| it.typ() == Some(SignatureType::SubkeyBinding));
        binding.is_some_and(|it| it.key_flags().sign() && !is_expired(&subkey.key, it, seconds))
    });
    match subkeys.max_by_key(|subkey| subkey.key.created_at().as_secs()) {
        Some(subkey) => sign_with(&subkey.key, subkey.key.secret_params(), content, seconds),
        None if primary.is_some_and(|binding| binding.key_flags().sign()) => {
            sign_with(&key.primary_key, key.primary_key.secret_params(), content, seconds)
        }
        None => Err(refused("the OpenPGP key has no part that may sign and has not expired")),
    }
}

fn sign_with(
    key: &impl PgpSigner,
    secret: &SecretParams,
    content: &[u8],
    seconds: u32,
) -> Result<String, GitError> {
    if secret.is_encrypted() {
        return Err(protected());
    }
    if key.version() != KeyVersion::V4 {
        return Err(refused("the OpenPGP key is not of version 4, which is the one that Git's gpg reads"));
    }
    let failed = |error: pgp::errors::Error| {
        refused(format!("the OpenPGP key cannot sign ({})", printable(&error.to_string(), 200)))
    };
    let mut config = SignatureConfig::v4(SignatureType::Binary, key.algorithm(), key.hash_alg());
    // A signature that is older than its key is none.
    let made = Timestamp::from_secs(seconds.max(key.created_at().as_secs()));
    config.hashed_subpackets = vec![
        Subpacket::regular(SubpacketData::IssuerFingerprint(key.fingerprint())).map_err(failed)?,
        Subpacket::regular(SubpacketData::SignatureCreationTime(made)).map_err(failed)?,
    ];
    let issuer = SubpacketData::IssuerKeyId(key.legacy_key_id());
    config.unhashed_subpackets = vec![Subpacket::regular(issuer).map_err(failed)?];
    let signature = config.sign(key, &Password::empty(), content).map_err(failed)?;
    DetachedSignature::new(signature).to_armored_string(ArmorOptions::default()).map_err(failed)
}

/// What was said about a key last.
pub(crate) fn newest<'a>(signatures: impl IntoIterator<Item = &'a Signature>) -> Option<&'a Signature> {
    signatures.into_iter().max_by_key(|signature| signature.created().map(Timestamp::as_secs))
}

pub(crate) fn is_expired(key: &impl KeyDetails, binding: &Signature, seconds: u32) -> bool {
    let life = binding.key_expiration_time().map(|life| std::time::Duration::from(life).as_secs());
    life.is_some_and(|life| life > 0 && u64::from(key.created_at().as_secs()) + life <= u64::from(seconds))
}

fn protected() -> GitError {
    refused("the key is protected by a passphrase; store it without one")
}

fn refused(detail: impl Into<String>) -> GitError {
    GitError::Signing { detail: detail.into() }
}
