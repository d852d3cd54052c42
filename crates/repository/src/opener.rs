//! From a `Repository` object to what can be done with the repository.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::Client;
use windlass_api::{Connection, Repository, RepositorySpec, RepositoryType};
use windlass_git::{Credentials, Git, Proxy, Remote};
use windlass_github::Github;
use windlass_telemetry::Metrics;

use crate::git::GitRepository;
use crate::github::{GithubClients, GithubOpenError, GithubRepository, GithubUrls};
use crate::local::{Changes, LocalFolders};
use crate::metrics::Operations;
use crate::signing::Signer;
use crate::token::SecretToken;
use crate::{ConnectionOpenError, LocalError, OpenError, Opened, TokenSource as _};

/// Opens repositories: one for every process, shared by everything that reads or writes files.
#[derive(Clone)]
pub struct Opener {
    git: Git,
    github: GithubClients,
    folders: LocalFolders,
    operations: Option<Arc<Operations>>,
    proxy: Option<Proxy>,
    home: Option<PathBuf>,
}

impl Opener {
    /// Opens remote repositories over `git`. A `local` repository must lie under one of `permitted`; a relative path
    /// of one starts at `home`.
    pub fn new(git: Git, home: Option<PathBuf>, permitted: Vec<PathBuf>) -> Self {
        let folders = LocalFolders::new(permitted, git.limits().clone());
        let github = GithubClients::new(git.clone());
        Self { git, github, folders, operations: None, proxy: None, home }
    }

    /// The same, with another API in place of github.com's.
    #[must_use]
    pub fn with_github_api(self, url: &str) -> Self {
        Self { github: self.github.with_public_api(url), ..self }
    }

    /// The same, telling in `metrics` what is done to files of repositories, and what GitHub leaves of its rate limits.
    #[must_use]
    pub fn with_metrics(self, metrics: &Metrics) -> Self {
        self.github.observe(metrics);
        Self { operations: Some(Operations::new(metrics)), ..self }
    }

    /// The same, asking all servers through a proxy.
    #[must_use]
    pub fn with_proxy(self, proxy: Proxy) -> Self {
        Self { github: self.github.with_proxy(proxy.clone()), proxy: Some(proxy), ..self }
    }

    /// The Git access behind the remote ones.
    pub fn git(&self) -> &Git {
        &self.git
    }

    /// Opens `repository`, its token read from the Secret that `secure.token.name` names, through `core`. Nothing is
    /// sent to the repository's server yet.
    pub async fn open(&self, core: &Client, repository: &Repository) -> Result<Opened, OpenError> {
        let opened = self.open_unmetered(core, repository).await?;
        Ok(match &self.operations {
            Some(operations) => operations.of(opened),
            None => opened,
        })
    }

    async fn open_unmetered(&self, core: &Client, repository: &Repository) -> Result<Opened, OpenError> {
        let spec = &repository.spec;
        if spec.kind == RepositoryType::Local {
            let folder = self.folders.open(&self.local_path(spec));
            return folder.map_err(|error| OpenError::Refused(error.into()));
        }
        let url = spec.url().ok_or(OpenError::NoUrl)?;
        let token = SecretToken::new(core, repository).token().await?;
        let mut remote = Remote { url: url.to_owned(), kind: spec.kind.as_str(), ..Remote::default() };
        remote.proxy.clone_from(&self.proxy);
        if let Some(token) = token {
            let user = spec.token_user().to_owned();
            remote.credentials = Some(Credentials::Basic { user, token: token.value });
            remote.cache_identity = token.cache_identity;
        }
        let remote = self.git.remote(remote).map_err(|error| OpenError::Refused(error.into()))?;
        let mut opened = GitRepository::open(remote, prefix(spec), Signer::of(core, repository));
        if matches!(spec.kind, RepositoryType::Github | RepositoryType::GithubEnterprise) {
            opened.urls = Some(Arc::new(GithubUrls::new(url, prefix(spec))));
        }
        Ok(opened)
    }

    /// GitHub's API, to ask about `repository`, its token read through `core`. Nothing is sent to GitHub yet.
    pub async fn github(
        &self,
        core: &Client,
        repository: &Repository,
    ) -> Result<GithubRepository, GithubOpenError> {
        self.github.open(core, repository).await
    }

    /// The App of a connection, as it is installed, its key read through `core`. Nothing is sent to GitHub yet.
    pub async fn app(&self, core: &Client, connection: &Connection) -> Result<Github, ConnectionOpenError> {
        self.github.app(core, connection).await
    }

    /// The same, beside the name of a repository that tokens are wanted for.
    pub async fn app_for(
        &self,
        core: &Client,
        connection: &Connection,
        repository: &Repository,
    ) -> Result<GithubRepository, ConnectionOpenError> {
        self.github.app_for(core, connection, repository).await
    }

    /// Watches the folder of a `local` repository.
    pub fn watch(&self, spec: &RepositorySpec) -> Result<Changes, LocalError> {
        self.folders.watch(&self.local_path(spec))
    }

    /// Where the files of a `local` repository are.
    fn local_path(&self, spec: &RepositorySpec) -> PathBuf {
        let path = Path::new(spec.path());
        match &self.home {
            Some(home) if path.is_relative() => home.join(path),
            _ => path.to_path_buf(),
        }
    }
}

/// The folder inside the repository that its files are under: nothing for a local one, whose path is its root.
pub fn prefix(spec: &RepositorySpec) -> &str {
    if spec.kind == RepositoryType::Local { "" } else { spec.path().trim_matches('/') }
}
