//! The entry point: configuration, and sources that share what can be shared.

use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;
use url::Url;
use windlass_http_client::{AddressPolicy, Rate, Tls};

use crate::cache::{self, Caches};
use crate::history::Histories;
use crate::http::HttpClient;
use crate::metrics::Figures;
use crate::remote::{RemoteRepository, RemoteState};
use crate::shared::Shared;
use crate::{Credentials, GitConfig, GitError, Limits, Origin, Proxy};

/// Remotes that are remembered although nobody holds them.
const MAX_REMOTES: usize = 1_024;
/// Large files that are in memory whole at a time, since they came as deltas.
const MAX_UNFOLDED: usize = 2;

/// A repository on a server.
#[derive(Clone, Debug, Default)]
pub struct Remote {
    /// `https://…`, or with an SSH key `ssh://user@…`; else user-info in it is refused, credentials are their own field.
    pub url: String,
    /// Who asks, if the repository is not public.
    pub credentials: Option<Credentials>,
    /// Whose credentials they are, where those change: a Secret's uid, an App's installation. Credentials of one identity
    /// share an object cache; what is in it is given only to those that the server has answered. Without one, each
    /// credentials have a cache of their own.
    pub cache_identity: Option<String>,
    /// Who is trusted for this repository, beside those who are for every one, and what its server is shown.
    pub tls: Tls,
    /// What it is asked through.
    pub proxy: Option<Proxy>,
    /// The type of repository that it is told of as in figures; `git` for an empty one.
    pub kind: &'static str,
}

/// Access to Git repositories. Cheap to clone; clones share connections, object caches and the bound on
/// blocking work.
#[derive(Clone)]
pub struct Git {
    shared: Arc<Shared>,
}

impl Git {
    /// Access under `config`. Makes the cache folder; nothing is sent.
    pub fn new(config: GitConfig) -> Result<Self, GitError> {
        let http = HttpClient::new(&config)?;
        let caches = Caches::new(&config.cache_dir)?;
        let bound = || Arc::new(Semaphore::new(config.concurrency.max(1)));
        let (transfers, readings) = (bound(), bound());
        let unfolding = Arc::new(Semaphore::new(MAX_UNFOLDED));
        let (histories, remotes) = (Histories::new(config.limits.remembered_commits), Mutex::default());
        let shared = Shared { config, http, caches, transfers, readings, unfolding, histories, remotes };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A repository on a server. Nothing is sent yet; a URL that the policy refuses is an error here.
    pub fn remote(&self, remote: Remote) -> Result<Arc<RemoteRepository>, GitError> {
        let over_ssh = matches!(remote.credentials, Some(Credentials::Ssh(_)));
        let url = self.normalise(&remote.url, over_ssh)?;
        let Remote { credentials, cache_identity, tls, proxy, kind, .. } = remote;
        if let Some(proxy) = &proxy {
            self.shared.config.policy.check_proxy(proxy.url())?;
        }
        let identity = cache_identity.as_deref();
        let key = cache::Key::new(url.as_str(), credentials.as_ref(), identity, &tls, proxy.as_ref());
        let mut remotes = self.shared.remotes.lock().unwrap_or_else(PoisonError::into_inner);
        if remotes.len() >= MAX_REMOTES && !remotes.contains_key(&key) {
            // Tokens that were rotated away leave their remotes behind.
            remotes.retain(|_, state| Arc::strong_count(state) > 1);
        }
        let state = match remotes.entry(key.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                let clients = self.shared.http.clients(&tls, proxy.as_ref())?;
                let host_slots = self.shared.http.hosts.slots(&url, self.shared.config.requests_per_host);
                free.insert(Arc::new(RemoteState::new(url, key, clients, proxy, host_slots)))
            }
        };
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(state));
        let has_identity = cache_identity.is_some();
        let figures = Figures::new(shared.config.metrics.clone(), kind);
        Ok(Arc::new(RemoteRepository::new(shared, state, credentials, has_identity, figures)))
    }

    /// How much is accepted of every remote.
    pub fn limits(&self) -> &Limits {
        &self.shared.config.limits
    }

    /// HTTP requests sent so far, to every remote.
    pub fn request_count(&self) -> u64 {
        self.shared.http.sent()
    }

    /// How the addresses of the server at `url` are judged, where something else than Git is asked of it under the same
    /// policy; by nobody where an exception is made for its origin.
    ///
    /// # Errors
    /// The policy refuses the URL.
    pub fn addresses_of(&self, url: &str) -> Result<Option<AddressPolicy>, GitError> {
        let policy = &self.shared.config.policy;
        let origin = Origin::of(&policy.check(url, false)?);
        let lifted = origin.is_some_and(|origin| policy.lifted(&origin));
        Ok((!lifted).then_some(crate::policy::refused as AddressPolicy))
    }

    /// How many requests a second a server is sent, for whoever sends others than Git's to the same servers.
    pub fn rate_per_host(&self) -> Rate {
        self.shared.config.rate_per_host
    }

    /// The authorities, PEM, that servers' certificates are checked against beside the system's.
    pub fn ca_bundle(&self) -> Option<&Path> {
        self.shared.config.ca_bundle.as_deref()
    }

    /// One spelling for one repository: lower-case host, no default port, no slash at the end.
    fn normalise(&self, url: &str, over_ssh: bool) -> Result<Url, GitError> {
        let mut url = self.shared.config.policy.check(url, over_ssh)?;
        if url.scheme() == "ssh" {
            let host = url.host_str().map(str::to_ascii_lowercase);
            let port = url.port().filter(|port| *port != 22);
            // Neither fails where the URL was judged.
            let _ = (url.set_host(host.as_deref()), url.set_port(port));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(url)
    }
}
