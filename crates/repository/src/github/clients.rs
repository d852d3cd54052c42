//! Clients of GitHub's API: one for each server and token, shared by all repositories that use it, so that what GitHub says
//! of its rate limit to one holds for all.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use kube::Client;
use secrecy::ExposeSecret as _;
use url::Url;
use windlass_api::conditions::reasons;
use windlass_api::{Connection, Repository, RepositoryType};
use windlass_git::{Git, GitError, Proxy};
use windlass_github::{
    Access, App, Credentials, Github, HostRates, Options, OptionsError, Permissions, RepositoryName, Tls,
    TokenRequest,
};
use windlass_telemetry::Metrics;

use crate::connection::{ConnectionOpenError, Installed, private_key};
use crate::metrics::observe_rates;
use crate::{SecretToken, TokenError, TokenSource as _};

/// Clients that are kept at most; all are forgotten then, and made again.
const MOST: usize = 1_000;

/// A repository on GitHub, and the API to ask about it.
#[derive(Clone, Debug)]
pub struct GithubRepository {
    /// The API, with the repository's own token.
    pub api: Github,
    /// Its name there.
    pub name: RepositoryName,
}

/// Why GitHub's API cannot be asked about a repository.
#[derive(Debug, thiserror::Error)]
pub enum GithubOpenError {
    /// It is on another server, or its URL does not say which one it is.
    #[error("{url} is no repository of {server}; write https://HOST/OWNER/NAME")]
    NotThere {
        /// Its URL.
        url: String,
        /// The server.
        server: String,
    },
    /// The API would be elsewhere than the repository: a token is for one server.
    #[error(
        "spec.githubEnterprise.serverUrl is another server than the repository's; correct it, or leave it out"
    )]
    OtherServer,
    /// The server may not be asked.
    #[error(transparent)]
    Refused(GitError),
    /// The token could not be had, or may not be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// No client can be made.
    #[error("failed to set up a client of GitHub's API")]
    Client(#[source] OptionsError),
}

impl GithubOpenError {
    /// The condition reason for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotThere { .. } | Self::OtherServer => reasons::INVALID_SPEC,
            Self::Refused(error) => error.reason(),
            Self::Token(error) => error.reason(),
            Self::Client(_) => reasons::INVALID_SPEC,
        }
    }
}

/// Tells clients apart without keeping what they are made of.
fn fingerprint(parts: &[&str]) -> [u8; 32] {
    let mut fingerprint = Context::new(&SHA256);
    for part in parts {
        fingerprint.update(&part.len().to_be_bytes());
        fingerprint.update(part.as_bytes());
    }
    let mut key = [0; 32];
    key.copy_from_slice(fingerprint.finish().as_ref());
    key
}

/// Clients of GitHub's APIs. Clones share them.
#[derive(Clone)]
pub(crate) struct GithubClients {
    git: Git,
    public: Arc<str>,
    clients: Arc<Mutex<HashMap<[u8; 32], Github>>>,
    rates: Arc<HostRates>,
    proxy: Option<Proxy>,
}

impl GithubClients {
    /// Clients of servers that may be asked by the policy of `git`.
    pub(crate) fn new(git: Git) -> Self {
        let rates = Arc::new(HostRates::new(git.rate_per_host()));
        Self { git, public: Options::PUBLIC_API.into(), clients: Arc::default(), rates, proxy: None }
    }

    /// The same, with another API in place of github.com's.
    pub(crate) fn with_public_api(self, url: &str) -> Self {
        Self { public: url.into(), ..self }
    }

    /// The same, asking them through a proxy.
    pub(crate) fn with_proxy(self, proxy: Proxy) -> Self {
        Self { proxy: Some(proxy), ..self }
    }

    /// Tells in `metrics` what is left of rate limits, while there are clients.
    pub(crate) fn observe(&self, metrics: &Metrics) {
        let clients = Arc::downgrade(&self.clients);
        observe_rates(metrics, move || {
            let Some(clients) = clients.upgrade() else { return Vec::new() };
            let clients = clients.lock().unwrap_or_else(PoisonError::into_inner);
            let left = |client: &Github| Some((client.host().to_owned(), client.rate_left()?));
            clients.values().filter_map(left).collect()
        });
    }

    /// The repository's client. Nothing is sent yet.
    pub(crate) async fn open(
        &self,
        core: &Client,
        repository: &Repository,
    ) -> Result<GithubRepository, GithubOpenError> {
        let api = self.api_of(repository)?;
        let token = SecretToken::new(core, repository).token().await?;
        let key = fingerprint(&[&api, token.as_ref().map_or("", |token| token.value.expose_secret())]);
        let credentials = token.map_or(Credentials::Anonymous, |token| Credentials::Token(token.value));
        let client = self.client(key, &api, credentials)?;
        Self::named(client, repository)
    }

    /// The App of a connection, as it is installed. Nothing is sent yet.
    pub(crate) async fn app(
        &self,
        core: &Client,
        connection: &Connection,
    ) -> Result<Github, ConnectionOpenError> {
        let installed = Installed::of(connection, &self.public)?;
        let key = private_key(core, connection).await?;
        let app = App::new(installed.app, installed.installation, &key).map_err(ConnectionOpenError::App)?;
        let parts = [&*installed.api, installed.app, installed.installation, key.expose_secret()];
        // Listing repositories asks for nothing but what every App may.
        let request = TokenRequest {
            permissions: Permissions::new([("metadata", Access::Read)]),
            repositories: Vec::new(),
        };
        let credentials = Credentials::App(app.requesting(request));
        Ok(self.client(fingerprint(&parts), &installed.api, credentials)?)
    }

    /// The same, to get tokens for a repository, which has to be on the connection's server.
    pub(crate) async fn app_for(
        &self,
        core: &Client,
        connection: &Connection,
        repository: &Repository,
    ) -> Result<GithubRepository, ConnectionOpenError> {
        if self.api_of(repository)? != Installed::of(connection, &self.public)?.api {
            return Err(ConnectionOpenError::OtherServer);
        }
        let client = self.app(core, connection).await?;
        Ok(Self::named(client, repository)?)
    }

    fn named(client: Github, repository: &Repository) -> Result<GithubRepository, GithubOpenError> {
        let url = repository.spec.url().unwrap_or_default();
        let name = client.repository_at(url).ok_or_else(|| GithubOpenError::NotThere {
            url: url.to_owned(),
            server: client.web_host().to_owned(),
        })?;
        Ok(GithubRepository { api: client, name })
    }

    /// The URL of the API that knows the repository.
    fn api_of(&self, repository: &Repository) -> Result<String, GithubOpenError> {
        let spec = &repository.spec;
        if spec.kind == RepositoryType::Github {
            return Ok((*self.public).to_owned());
        }
        let url = spec.url().unwrap_or_default();
        let missing =
            || GithubOpenError::NotThere { url: url.to_owned(), server: "a GitHub server".to_owned() };
        let own = Url::parse(url).map_err(|_| missing())?;
        let named = spec.github_enterprise.as_ref().map(|settings| settings.server_url.trim_end_matches('/'));
        let server = match named.filter(|named| !named.is_empty()) {
            None => own.origin().ascii_serialization(),
            Some(named) => {
                let there = Url::parse(named).map_err(|_| GithubOpenError::OtherServer)?;
                if there.origin() != own.origin() {
                    return Err(GithubOpenError::OtherServer);
                }
                named.to_owned()
            }
        };
        Ok(format!("{server}/api/v3"))
    }

    fn client(&self, key: [u8; 32], api: &str, credentials: Credentials) -> Result<Github, GithubOpenError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = clients.get(&key) {
            return Ok(known.clone());
        }
        let rates = Some(Arc::clone(&self.rates));
        let mut options = Options { api: api.to_owned(), rates, ..Options::new(credentials) };
        if api != &*self.public {
            // Whoever writes a repository names this one.
            options.addresses = self.git.addresses_of(api).map_err(GithubOpenError::Refused)?;
        }
        let proxy = self.proxy.as_ref().map(Proxy::for_others).transpose();
        options.proxy = proxy.map_err(GithubOpenError::Refused)?;
        if let Some(bundle) = self.git.ca_bundle() {
            let failed = |source| GithubOpenError::Client(OptionsError::Client { source });
            options.tls = Tls::of_bundle(bundle).map_err(failed)?;
        }
        // Who asks is put into each request: connections are everybody's.
        let same = clients.values().find(|known| known.api() == api.trim_end_matches('/'));
        options.http = same.map(Github::http);
        let client = Github::new(options).map_err(GithubOpenError::Client)?;
        if clients.len() >= MOST {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}
