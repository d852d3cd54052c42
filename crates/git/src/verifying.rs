//! Signatures of commits and tags, and the keys that they are verified with: what `git verify-commit` and `git verify-tag`
//! judge, with the public keys at hand in place of a keyring.
//!
//! An `OpenPGP` key has to be good when it is asked about, not only when it signed: not expired, not revoked, meant for
//! signing, and a subkey bound to its key both ways. Digests that can be forged (MD5, SHA-1, RIPEMD-160) prove nothing.

use git2::ObjectType;
use pgp::composed::{Deserializable as _, DetachedSignature, SignedPublicKey};
use pgp::crypto::hash::HashAlgorithm;
use pgp::packet::{Signature, SignatureType};
use pgp::types::{KeyDetails as _, Tag, Timestamp};
use ssh_key::authorized_keys::AuthorizedKeys;
use ssh_key::{HashAlg, PublicKey, SshSig};
use tokio_util::sync::CancellationToken;
use windlass_http_client::printable;

use crate::object_id::oid;
use crate::remote::RemoteRepository;
use crate::signing::{SSH_NAMESPACE, is_expired, newest};
use crate::{GitError, ObjectId, tree};

/// Bytes of a commit or a tag that is read.
const MAX_OBJECT: u64 = 1 << 20;
const PGP: &str = "-----BEGIN PGP SIGNATURE-----";
const SSH: &str = "-----BEGIN SSH SIGNATURE-----";
const PGP_KEY: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";

/// Public keys.
#[derive(Debug, Default)]
pub struct VerifyingKeys {
    ssh: Vec<PublicKey>,
    open_pgp: Vec<SignedPublicKey>,
}

/// Why a commit or a tag is not taken for its signer's.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VerifyError {
    /// It is not signed.
    #[error("{0} is not signed")]
    Unsigned(String),
    /// Its signature is not good.
    #[error("the signature of {object} is not good: {why}")]
    Bad {
        /// Which object.
        object: String,
        /// What is wrong.
        why: String,
    },
    /// It could not be read.
    #[error("{0}")]
    Read(GitError),
}

impl VerifyingKeys {
    /// Adds SSH keys, as lines of `authorized_keys`.
    ///
    /// # Errors
    /// [`GitError::Signing`] if a line is none, or there is none.
    pub fn add_ssh(&mut self, text: &str) -> Result<(), GitError> {
        let before = self.ssh.len();
        for entry in AuthorizedKeys::new(text) {
            let entry = entry.map_err(|error| refused(format!("a line is no public SSH key ({error})")))?;
            self.ssh.push(entry.public_key().clone());
        }
        if self.ssh.len() == before {
            return Err(refused("there is no public SSH key".to_owned()));
        }
        Ok(())
    }

    /// Adds the keys of armoured `OpenPGP` key rings (`gpg --armor --export`).
    ///
    /// # Errors
    /// [`GitError::Signing`] if one cannot be read, or there is none.
    pub fn add_open_pgp(&mut self, text: &str) -> Result<(), GitError> {
        let before = self.open_pgp.len();
        let failed = |error: pgp::errors::Error| {
            let detail = printable(&error.to_string(), 200);
            refused(format!("it is no armoured public OpenPGP key ({detail})"))
        };
        for ring in text.split(PGP_KEY).skip(1) {
            let ring = format!("{PGP_KEY}{ring}");
            let (keys, _) = SignedPublicKey::from_string_many(&ring).map_err(failed)?;
            for key in keys {
                self.open_pgp.push(key.map_err(failed)?);
            }
        }
        if self.open_pgp.len() == before {
            return Err(refused("there is no armoured public OpenPGP key".to_owned()));
        }
        Ok(())
    }

    /// Which key made the signature: the fingerprint of an SSH key, the id of an `OpenPGP` one. Else why it is not good at
    /// `now`, in seconds since 1970.
    fn verify(&self, payload: &[u8], signature: &str, now: i64) -> Result<String, String> {
        if signature.starts_with(SSH) {
            return self.verify_ssh(payload, signature);
        }
        if !signature.starts_with(PGP) {
            return Err("it is of a kind that is not supported; OpenPGP and SSH are".to_owned());
        }
        let (parsed, _) = DetachedSignature::from_string(signature)
            .map_err(|error| format!("it cannot be read ({})", printable(&error.to_string(), 100)))?;
        let now = u32::try_from(now.max(0)).unwrap_or(u32::MAX);
        judge_signature(&parsed.signature, now)?;
        let made = self.open_pgp.iter().find_map(|key| made_with(key, &parsed.signature, payload, now));
        made.unwrap_or_else(|| Err("none of the keys made it".to_owned()))
    }

    fn verify_ssh(&self, payload: &[u8], signature: &str) -> Result<String, String> {
        let parsed = SshSig::from_pem(signature).map_err(|error| format!("it cannot be read ({error})"))?;
        let key = self.ssh.iter().find(|key| key.key_data() == parsed.public_key());
        let key = key.ok_or_else(|| "none of the keys made it".to_owned())?;
        let judged = key.verify(SSH_NAMESPACE, payload, &parsed);
        judged.map_err(|error| format!("it is not one of what is signed ({error})"))?;
        Ok(key.fingerprint(HashAlg::Sha256).to_string())
    }
}

/// Whether a signature is of a kind that proves something.
fn judge_signature(signature: &Signature, now: u32) -> Result<(), String> {
    if !matches!(signature.typ(), Some(SignatureType::Binary | SignatureType::Text)) {
        return Err("it is not one of a document".to_owned());
    }
    let weak = [None, Some(HashAlgorithm::Md5), Some(HashAlgorithm::Sha1), Some(HashAlgorithm::Ripemd160)];
    if weak.contains(&signature.hash_alg()) {
        return Err("its digest can be forged; sign with SHA-256 or better".to_owned());
    }
    let made = signature.created().map(Timestamp::as_secs).ok_or("it does not say when it was made")?;
    let life = signature.signature_expiration_time();
    let life = life.map_or(0, |life| std::time::Duration::from(life).as_secs());
    if life > 0 && u64::from(made) + life <= u64::from(now) {
        return Err("it has expired".to_owned());
    }
    Ok(())
}

/// Whether a key made a signature; and if so, whether it is good for that.
fn made_with(
    key: &SignedPublicKey,
    signature: &Signature,
    payload: &[u8],
    now: u32,
) -> Option<Result<String, String>> {
    let made_by_itself = signature.verify(&key.primary_key, payload).is_ok();
    let subkey = key.public_subkeys.iter().find(|it| signature.verify(&it.key, payload).is_ok());
    if !made_by_itself && subkey.is_none() {
        return None;
    }
    let primary = &key.primary_key;
    let id = primary.legacy_key_id().to_string().to_ascii_uppercase();
    let bad = |what: &str| Some(Err(format!("the key {id} {what}")));
    if !key.details.revocation_signatures.is_empty() {
        return bad("is revoked");
    }
    // What others say of a key is not what it says of itself.
    let users = key.details.users.iter().flat_map(|user| {
        let own = move |it: &&Signature| {
            it.is_certification() && it.verify_certification(primary, Tag::UserId, &user.id).is_ok()
        };
        user.signatures.iter().filter(own)
    });
    let direct = key.details.direct_signatures.iter().filter(|it| it.verify_key(primary).is_ok());
    let Some(binding) = newest(users.chain(direct)) else { return bad("does not vouch for itself") };
    if is_expired(primary, binding, now) {
        return bad("has expired");
    }
    let Some(subkey) = subkey.filter(|_| !made_by_itself) else {
        return if binding.key_flags().sign() { Some(Ok(id)) } else { bad("is not for signing") };
    };
    if subkey.signatures.iter().any(|it| it.typ() == Some(SignatureType::SubkeyRevocation)) {
        return bad("has revoked the subkey that made it");
    }
    let bound = subkey.signatures.iter().filter(|it| it.verify_subkey_binding(primary, &subkey.key).is_ok());
    let Some(binding) = newest(bound) else { return bad("is not bound to the subkey that made it") };
    let back = binding.embedded_signature();
    let is_mutual = back.is_some_and(|it| it.verify_primary_key_binding(&subkey.key, primary).is_ok());
    if !binding.key_flags().sign() || !is_mutual {
        return bad("has a subkey that made it and is not for signing");
    }
    if is_expired(&subkey.key, binding, now) {
        return bad("has a subkey that made it and has expired");
    }
    Some(Ok(id))
}

/// What was signed of an object, and the signature, if there is one.
struct Signed {
    payload: Vec<u8>,
    signature: Option<String>,
}

impl Signed {
    /// A commit's signature stands among its headers.
    fn commit(repository: &git2::Repository, id: ObjectId) -> Result<Self, GitError> {
        let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
        let data = tree::read(&odb, id, ObjectType::Commit, ("commit_bytes", MAX_OBJECT))?;
        match repository.extract_signature(&oid(id)?, None) {
            Ok((signature, payload)) => {
                let signature = String::from_utf8_lossy(&signature).trim_start().to_owned();
                Ok(Self { payload: payload.to_vec(), signature: Some(signature) })
            }
            Err(_) => Ok(Self { payload: data.data().to_vec(), signature: None }),
        }
    }

    /// A tag's stands behind its message.
    fn tag(repository: &git2::Repository, id: ObjectId) -> Result<Self, GitError> {
        let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
        let data = tree::read(&odb, id, ObjectType::Tag, ("tag_bytes", MAX_OBJECT))?;
        Ok(Self::split(data.data()))
    }

    /// As Git does it: the last line that begins a signature does.
    fn split(data: &[u8]) -> Self {
        let mut at = 0;
        let mut found = None;
        for line in data.split_inclusive(|byte| *byte == b'\n') {
            if line.starts_with(b"-----BEGIN ") && line.windows(9).any(|it| it == b"SIGNATURE") {
                found = Some(at);
            }
            at += line.len();
        }
        let (payload, signature) = data.split_at(found.unwrap_or(data.len()));
        let signature = found.map(|_| String::from_utf8_lossy(signature).into_owned());
        Self { payload: payload.to_vec(), signature }
    }

    /// The value of a header.
    fn header(&self, name: &str) -> Option<&str> {
        let head = std::str::from_utf8(&self.payload).ok()?.split("\n\n").next()?;
        head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    }

    fn verified(self, object: String, keys: &VerifyingKeys, now: i64) -> Result<String, VerifyError> {
        let Some(signature) = &self.signature else { return Err(VerifyError::Unsigned(object)) };
        keys.verify(&self.payload, signature, now).map_err(|why| VerifyError::Bad { object, why })
    }
}

impl RemoteRepository {
    /// Verifies the signature of a commit, as of `now` in seconds since 1970, and answers which of the keys made it. The
    /// commit is fetched if it is not here.
    ///
    /// # Errors
    /// [`VerifyError`]: nothing is taken that is not signed.
    pub async fn verify_commit(
        &self,
        commit: ObjectId,
        keys: &VerifyingKeys,
        now: i64,
        cancel: &CancellationToken,
    ) -> Result<String, VerifyError> {
        let read =
            move |repository: &git2::Repository, _: &CancellationToken| Signed::commit(repository, commit);
        let signed = self.read(&[commit], cancel, read).await.map_err(VerifyError::Read)?;
        signed.verified(format!("commit {commit}"), keys, now)
    }

    /// Verifies the signature of the annotated tag `tag`, whose name is `name`, and that it is one of `commit`: a server may
    /// say so of any tag, and show one tag under the name of another.
    ///
    /// # Errors
    /// [`VerifyError`].
    pub async fn verify_tag(
        &self,
        (tag, name): (ObjectId, &str),
        commit: ObjectId,
        keys: &VerifyingKeys,
        now: i64,
        cancel: &CancellationToken,
    ) -> Result<String, VerifyError> {
        let read = move |repository: &git2::Repository, _: &CancellationToken| Signed::tag(repository, tag);
        let signed = self.read(&[tag], cancel, read).await.map_err(VerifyError::Read)?;
        let object = format!("tag {name:?}");
        let bad = |why: String| VerifyError::Bad { object: object.clone(), why };
        if signed.header("object") != Some(&commit.to_string()) || signed.header("type") != Some("commit") {
            return Err(bad(format!("it is not one of commit {commit}")));
        }
        if signed.header("tag") != Some(name) {
            let other = printable(signed.header("tag").unwrap_or_default(), 100);
            return Err(bad(format!("it is one of the tag {other:?}")));
        }
        signed.verified(object, keys, now)
    }
}

fn refused(detail: String) -> GitError {
    GitError::Signing { detail }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_signature_of_a_tag_is_its_signature() {
        let text = format!("object 1\ntype commit\ntag v1\n\nsays {PGP}\n{PGP}\nquoted\n{SSH}\nreal\n");
        let signed = Signed::split(text.as_bytes());
        assert_eq!(signed.signature.as_deref(), Some(&*format!("{SSH}\nreal\n")));
        assert!(signed.payload.ends_with(b"quoted\n"));
        assert_eq!((signed.header("object"), signed.header("tag")), (Some("1"), Some("v1")));
        let plain = Signed::split(b"object 1\n\nobject 2");
        assert_eq!((plain.signature, plain.payload.len()), (None, 18));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let mut keys = VerifyingKeys::default();
        for text in ["", "# a comment", "ssh-ed25519 nonsense"] {
            assert!(keys.add_ssh(text).is_err(), "{text}");
            assert!(keys.add_open_pgp(text).is_err(), "{text}");
        }
        assert!(
            keys.add_open_pgp(&format!("{PGP_KEY}\n\nnonsense\n-----END PGP PUBLIC KEY BLOCK-----")).is_err()
        );
        assert!(keys.verify(b"", "-----BEGIN SIGNED MESSAGE-----", 0).unwrap_err().contains("not supported"));
    }
}
