//! What stands for SSH in a program that is built without the feature `ssh`: nobody has a key there, so that every `ssh:`
//! URL is refused before anything is sent.

mod algorithms;

use std::time::Duration;

use bytes::Bytes;

pub use self::algorithms::SshAlgorithms;

use crate::GitError;
use crate::call::Call;
use crate::request::Request;

/// A private key and the servers that it is for. This program is built without SSH, so there is none.
#[derive(Clone, Debug)]
pub enum SshIdentity {}

impl SshIdentity {
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        match *self {}
    }
}

pub(crate) struct SshClient;

impl SshClient {
    #[expect(clippy::unnecessary_wraps, reason = "with SSH it may fail")]
    pub(crate) fn new(_algorithms: &SshAlgorithms, _connect: Duration) -> Result<Self, GitError> {
        Ok(Self)
    }

    #[expect(clippy::unused_async, reason = "with SSH it waits")]
    pub(crate) async fn send(
        &self,
        call: &Call<'_>,
        _request: Request,
        _lifted: bool,
    ) -> Result<SshAnswer, GitError> {
        let detail = "this program was built without SSH".to_owned();
        Err(GitError::PolicyRefused { url: call.url.to_string(), detail })
    }
}

pub(crate) enum SshAnswer {}

impl SshAnswer {
    #[expect(clippy::unused_async, reason = "with SSH it waits")]
    pub(crate) async fn chunk(
        &mut self,
        _call: &Call<'_>,
        _cap: (&'static str, u64),
    ) -> Result<Option<Bytes>, GitError> {
        match *self {}
    }
}
