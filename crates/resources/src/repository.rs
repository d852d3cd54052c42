//! From a `Repository` object to the [`Source`] that its files are read from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use secrecy::{ExposeSecret as _, SecretString};
use windlass_api::conditions::reasons;
use windlass_api::{Repository, RepositorySpec, RepositoryType};
use windlass_git::{Credentials, Git, GitError, Remote, Source};

/// The key of a `Secret` that holds a repository's access token.
pub const TOKEN_KEY: &str = "token";

/// How long reading a Secret may take.
const SECRET_DEADLINE: Duration = Duration::from_secs(10);

/// Opens the sources of repositories: one for every process, shared by everything that reads files.
#[derive(Clone)]
pub struct Sources {
    git: Git,
    home: Option<PathBuf>,
    permitted: Arc<[PathBuf]>,
}

impl Sources {
    /// Sources over `git`. A `local` repository must lie under one of `permitted`; a relative path of one starts
    /// at `home`.
    pub fn new(git: Git, home: Option<PathBuf>, permitted: Vec<PathBuf>) -> Self {
        Self { git, home, permitted: permitted.into() }
    }

    /// The Git access behind the remote ones.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// The source of `repository`, its token read from the Secret that `secure.token.name` names, through `core`.
    pub async fn open(&self, core: &Client, repository: &Repository) -> Result<Arc<dyn Source>, OpenError> {
        let spec = &repository.spec;
        if spec.kind == RepositoryType::Local {
            return self.open_local(spec);
        }
        let url = spec.url().filter(|url| !url.is_empty()).ok_or(OpenError::NoUrl)?;
        let token = read_token(core, repository).await?;
        let credentials = token.map(|token| Credentials::Basic { user: spec.token_user().to_owned(), token });
        self.git
            .remote(Remote { url: url.to_owned(), credentials, ..Remote::default() })
            .map_err(OpenError::Open)
    }

    fn open_local(&self, spec: &RepositorySpec) -> Result<Arc<dyn Source>, OpenError> {
        let path = Path::new(spec.path());
        let path = match &self.home {
            Some(home) if path.is_relative() => home.join(path),
            _ => path.to_path_buf(),
        };
        self.git.local(&path, &self.permitted).map_err(OpenError::Open)
    }
}

/// The folder inside the repository that its files are under: nothing for a local one, whose path is its root.
pub fn prefix(spec: &RepositorySpec) -> &str {
    if spec.kind == RepositoryType::Local { "" } else { spec.path().trim_matches('/') }
}

/// The token that a repository's `secure.token` refers to, or that a repository which is not stored brings along;
/// nothing when there is none.
async fn read_token(core: &Client, repository: &Repository) -> Result<Option<SecretString>, OpenError> {
    if let Some(token) = &repository.secure.token.create {
        return Ok(Some(token.clone()).filter(|token| !token.expose_secret().is_empty()));
    }
    let name = repository.secure.token.name.as_str();
    if name.is_empty() {
        return Ok(None);
    }
    let namespace = repository.metadata.namespace.as_deref().unwrap_or("default");
    let secrets: Api<Secret> = Api::namespaced(core.clone(), namespace);
    let secret = tokio::time::timeout(SECRET_DEADLINE, secrets.get_opt(name))
        .await
        .map_err(|_elapsed| OpenError::SecretTimeout { name: name.to_owned() })?
        .map_err(|source| OpenError::ReadSecret { name: name.to_owned(), source: Box::new(source) })?
        .ok_or_else(|| OpenError::SecretMissing { name: name.to_owned() })?;
    let value = secret
        .data
        .unwrap_or_else(BTreeMap::new)
        .remove(TOKEN_KEY)
        .ok_or_else(|| OpenError::SecretWithoutToken { name: name.to_owned() })?;
    let text = String::from_utf8(value.0)
        .map_err(|_not_text| OpenError::SecretWithoutToken { name: name.to_owned() })?;
    let token = SecretString::from(text);
    Ok((!token.expose_secret().is_empty()).then_some(token))
}

/// Why a repository's source could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The specification names no URL for its type.
    #[error("the repository has no URL; set spec.<type>.url")]
    NoUrl,
    /// `secure.token.name` names a Secret that is not there.
    #[error("secret {name:?} named by secure.token.name was not found; create it, or set a new token")]
    SecretMissing {
        /// The Secret's name.
        name: String,
    },
    /// The Secret has no usable value under [`TOKEN_KEY`].
    #[error("secret {name:?} has no text under the key \"token\"")]
    SecretWithoutToken {
        /// The Secret's name.
        name: String,
    },
    /// The API did not give the Secret.
    #[error("failed to read secret {name:?}")]
    ReadSecret {
        /// The Secret's name.
        name: String,
        /// What the API said.
        #[source]
        source: Box<kube::Error>,
    },
    /// The API took too long to give the Secret.
    #[error("failed to read secret {name:?} within {SECRET_DEADLINE:?}")]
    SecretTimeout {
        /// The Secret's name.
        name: String,
    },
    /// The URL or folder is not usable.
    #[error(transparent)]
    Open(GitError),
}

impl OpenError {
    /// The condition reason for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoUrl => reasons::INVALID_SPEC,
            Self::SecretMissing { .. } | Self::SecretWithoutToken { .. } => reasons::AUTHENTICATION_FAILED,
            Self::ReadSecret { .. } | Self::SecretTimeout { .. } => reasons::SERVICE_UNAVAILABLE,
            Self::Open(error) => error.reason(),
        }
    }

    /// The HTTP status that a test result reports it with.
    pub fn http_code(&self) -> u16 {
        match self {
            Self::NoUrl => 400,
            Self::SecretMissing { .. } | Self::SecretWithoutToken { .. } => 401,
            Self::ReadSecret { .. } | Self::SecretTimeout { .. } => 503,
            Self::Open(error) => error.http_code(),
        }
    }
}
