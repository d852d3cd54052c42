//! The key that a repository's commits are signed with.

use std::sync::Arc;

use kube::Client;
use windlass_api::{Repository, SigningMethod};
use windlass_git::{GitError, SigningKey};

use crate::WriteError;
use crate::token::signing_key;

/// Signs the commits of one repository. The key is read when something is written, never to read files.
pub(crate) struct Signer {
    core: Client,
    repository: Repository,
    method: SigningMethod,
}

impl Signer {
    /// Nothing for a repository whose commits are not signed.
    pub(crate) fn of(core: &Client, repository: &Repository) -> Option<Self> {
        let method = repository.spec.commit.as_ref()?.signing_method?;
        Some(Self { core: core.clone(), repository: repository.clone(), method })
    }

    /// The key as it is stored now.
    pub(crate) async fn key(&self, name: &str) -> Result<Arc<SigningKey>, WriteError> {
        let failed =
            |source: GitError| WriteError::Write { name: name.to_owned(), source: Box::new(source.into()) };
        let refused = |detail: &str| failed(GitError::Signing { detail: detail.to_owned() });
        if self.method == SigningMethod::Smime {
            return Err(refused("signing with S/MIME is not supported; use \"ssh\" or \"gpg\""));
        }
        let text = signing_key(&self.core, &self.repository)
            .await
            .map_err(|source| WriteError::SigningKey { name: name.to_owned(), source: Box::new(source) })?;
        let text = text.ok_or_else(|| refused("the repository asks for signed commits and has no key"))?;
        let key = match self.method {
            SigningMethod::Ssh => SigningKey::ssh(&text),
            SigningMethod::Gpg | SigningMethod::Smime => SigningKey::open_pgp(&text),
        };
        Ok(Arc::new(key.map_err(failed)?))
    }
}
