//! What stands for signatures in a program that is built without the feature `signing`.

use secrecy::SecretString;

use crate::GitError;

/// A private key that signs commits. This program is built without signatures, so there is none.
#[derive(Debug)]
pub enum SigningKey {}

impl SigningKey {
    /// Refused: this program is built without signatures.
    ///
    /// # Errors
    /// [`GitError::Signing`].
    pub fn ssh(_text: &SecretString) -> Result<Self, GitError> {
        Err(refused())
    }

    /// Refused: this program is built without signatures.
    ///
    /// # Errors
    /// [`GitError::Signing`].
    pub fn open_pgp(_text: &SecretString) -> Result<Self, GitError> {
        Err(refused())
    }

    pub(crate) fn sign(&self, _content: &[u8], _seconds: i64) -> Result<String, GitError> {
        match *self {}
    }
}

fn refused() -> GitError {
    let detail = "this program was built without signatures: build it with --features signing";
    GitError::Signing { detail: detail.to_owned() }
}
