//! The entry point: configuration, and sources that share what can be shared.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use secrecy::SecretString;

use crate::{Deadlines, GitError, Limits, Source, UrlPolicy};

/// What a [`Git`] works under.
#[derive(Clone, Debug)]
pub struct GitConfig {
    /// Where object caches live, one folder each. Everything in it can be deleted while nothing runs.
    pub cache_dir: PathBuf,
    /// Which URLs may be used, and which addresses connected to.
    pub policy: UrlPolicy,
    /// How much is accepted.
    pub limits: Limits,
    /// How long is waited.
    pub deadlines: Deadlines,
    /// Blocking calls at a time: as many transfers, and beside them as many readings.
    pub concurrency: usize,
    /// PEM certificates that are trusted beside the system's.
    pub ca_bundle: Option<PathBuf>,
}

impl GitConfig {
    /// The defaults: public https only, 4 at a time.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            policy: UrlPolicy::default(),
            limits: Limits::default(),
            deadlines: Deadlines::default(),
            concurrency: 4,
            ca_bundle: None,
        }
    }
}

/// Who asks. Sent with every request to the remote's own scheme, host and port, and nowhere else.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// User name of Basic authentication; empty means `git`.
    pub user: String,
    /// Its password.
    pub token: SecretString,
}

/// A repository on a server.
#[derive(Clone, Debug)]
pub struct Remote {
    /// `https://…`; user-info in it is refused, credentials are their own field.
    pub url: String,
    /// Who asks, if the repository is not public.
    pub credentials: Option<Credentials>,
}

/// Access to Git repositories. Cheap to clone; clones share connections, object caches and the bound on
/// blocking work.
#[derive(Clone)]
pub struct Git {
    config: Arc<GitConfig>,
}

impl Git {
    /// Access under `config`; makes the cache folder.
    pub fn new(config: GitConfig) -> Result<Self, GitError> {
        Ok(Self { config: Arc::new(config) })
    }

    /// A repository on a server. Nothing is sent yet; a URL that the policy refuses is an error here.
    pub fn remote(&self, remote: Remote) -> Result<Arc<dyn Source>, GitError> {
        let _ = &self.config;
        Err(GitError::SetUp { action: "use remotes", detail: remote.url })
    }

    /// A folder on this machine, which must lie under one of `permitted`.
    pub fn local(&self, path: &Path, permitted: &[PathBuf]) -> Result<Arc<dyn Source>, GitError> {
        let _ = permitted;
        Err(GitError::SetUp { action: "use folders", detail: path.display().to_string() })
    }

    /// HTTP requests sent so far, to every remote.
    pub fn request_count(&self) -> u64 {
        0
    }

    /// HTTP requests sent so far to the repository at `url`, whoever asked.
    pub fn request_count_of(&self, url: &str) -> u64 {
        let _ = url;
        0
    }
}
