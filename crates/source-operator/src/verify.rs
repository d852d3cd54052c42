//! Whose work a revision is: its signatures, and the keys that a Secret has. Flux: `verifySignature`.
//!
//! A good signature is remembered together with the version of the Secret, so that other keys are asked again and the same
//! ones cost one request for the Secret; and for a day at most, since keys expire.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass_api::flux::GitRepositoryVerification;
use windlass_git::{GitError, VerifyError, VerifyingKeys};
use windlass_runtime::{Clock, ObjectKey};

use crate::failure::Failure;
use crate::reference::{Reference, Resolved, TagRef};
use crate::secret::secret;
use crate::upstream::Upstream;

/// How long a signature is taken for good without being looked at.
const REMEMBERED_SECONDS: i64 = 86_400;

/// What has to be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Head,
    Tag,
    TagAndHead,
}

impl Mode {
    /// As the status has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Head => "HEAD",
            Self::Tag => "Tag",
            Self::TagAndHead => "TagAndHEAD",
        }
    }
}

/// What is to be verified, and where the keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verify {
    pub(crate) mode: Mode,
    pub(crate) secret: String,
}

impl Verify {
    pub(crate) fn parse(spec: &GitRepositoryVerification, reference: &Reference) -> Result<Self, Failure> {
        let invalid = |what: String| {
            Failure::verified("InvalidVerificationMode", format!("spec.verify.mode {what}")).stalled()
        };
        let mode = match spec.mode.as_deref() {
            None | Some("" | "head" | "HEAD") => Mode::Head,
            Some("Tag") => Mode::Tag,
            Some("TagAndHEAD") => Mode::TagAndHead,
            Some(other) => return Err(invalid(format!("{other:?} is none of HEAD, Tag and TagAndHEAD"))),
        };
        if mode != Mode::Head && !reference.is_tag() {
            let name = mode.name();
            return Err(invalid(format!(
                "{name:?} needs a tag: set spec.ref.tag, spec.ref.semver or spec.ref.name"
            )));
        }
        Ok(Self { mode, secret: spec.secret_ref.name.clone() })
    }
}

/// A revision whose signatures are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) mode: Mode,
    /// Which keys made them.
    pub(crate) message: String,
}

/// Verifies, and knows what was verified before.
pub(crate) struct Verifications {
    client: Client,
    clock: Arc<dyn Clock>,
    known: Mutex<HashMap<ObjectKey, (String, Verified)>>,
}

impl Verifications {
    /// Nothing was verified so far. Secrets are read with `client`.
    pub(crate) fn new(client: Client, clock: Arc<dyn Clock>) -> Self {
        Self { client, clock, known: Mutex::default() }
    }

    fn known(&self, key: &ObjectKey, what: &str) -> Option<Verified> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(key).filter(|(known, _)| known == what).map(|(_, verified)| verified.clone())
    }

    fn remember(&self, key: &ObjectKey, what: String, verified: &Verified) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(key.clone(), (what, verified.clone()));
    }

    /// Nobody asks for this object any more.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Verifies what is to be signed of a revision.
    pub(crate) async fn verify(
        &self,
        key: &ObjectKey,
        verify: &Verify,
        upstream: &Upstream,
        resolved: &Resolved,
        cancel: &CancellationToken,
    ) -> Result<Verified, Failure> {
        let found = secret(&self.client, &key.namespace, &verify.secret).await;
        let secret = found.map_err(|what| Failure::verified("VerificationError", what))?;
        let now = self.clock.now().as_second();
        let version = (&secret.metadata.uid, &secret.metadata.resource_version);
        let what = format!("{version:?} {verify:?} {resolved:?} {}", now / REMEMBERED_SECONDS);
        if let Some(verified) = self.known(key, &what) {
            return Ok(verified);
        }
        let keys = keys(&verify.secret, secret)?;
        let repository = &upstream.repository;
        let mut said = Vec::new();
        if verify.mode != Mode::Head {
            let tag = signable(resolved.tag.as_ref())?;
            let named = (tag.id, tag.name.as_str());
            let judged = repository.verify_tag(named, resolved.commit, &keys, now, cancel).await;
            let by = judged.map_err(|error| refused("InvalidTagSignature", &error))?;
            said.push(format!("tag '{}' with key '{by}'", tag.name));
        }
        if verify.mode != Mode::Tag {
            let judged = repository.verify_commit(resolved.commit, &keys, now, cancel).await;
            let by = judged.map_err(|error| refused("InvalidCommitSignature", &error))?;
            said.push(format!("commit 'sha1:{}' with key '{by}'", resolved.commit));
        }
        let message = format!("verified signature of {}", said.join(" and "));
        let verified = Verified { mode: verify.mode, message };
        self.remember(key, what, &verified);
        Ok(verified)
    }
}

fn signable(tag: Option<&TagRef>) -> Result<&TagRef, Failure> {
    let tag = tag.ok_or_else(|| Failure::verified("InvalidVerificationMode", "the revision is no tag's"))?;
    if tag.annotated {
        return Ok(tag);
    }
    let message =
        format!("the tag {:?} is not annotated, so that it has no signature; git tag -s makes one", tag.name);
    Err(Failure::verified("InvalidGitObject", message))
}

fn refused(reason: &'static str, error: &VerifyError) -> Failure {
    match error {
        VerifyError::Unsigned(_) if reason == "InvalidTagSignature" => {
            Failure::verified("InvalidGitObject", error.to_string())
        }
        VerifyError::Read(error) => Failure::git("read what is to be verified", error),
        _ => Failure::verified(reason, error.to_string()),
    }
}

/// The keys of a Secret: SSH keys under names that end with `.sshpub`, `OpenPGP` key rings under all others.
fn keys(name: &str, secret: Secret) -> Result<VerifyingKeys, Failure> {
    let failed = |what: String| Failure::verified("VerificationError", format!("the Secret {name:?} {what}"));
    let mut keys = VerifyingKeys::default();
    let entries = secret.data.unwrap_or_default();
    if entries.is_empty() {
        return Err(failed("has no public keys".to_owned()));
    }
    for (entry, value) in entries {
        let text = String::from_utf8(value.0).map_err(|_| failed(format!("has no text under {entry:?}")))?;
        let added = if entry.ends_with(".sshpub") { keys.add_ssh(&text) } else { keys.add_open_pgp(&text) };
        added.map_err(|error| match error {
            GitError::Signing { detail } => failed(format!("has no public key under {entry:?}: {detail}")),
            other => failed(other.to_string()),
        })?;
    }
    Ok(keys)
}
