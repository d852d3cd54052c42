//! One `kube::Client` for each API group.

use std::path::Path;

use http::Uri;
use kube::{
    Client, Config,
    client::ConfigExt as _,
    config::{KubeConfigOptions, Kubeconfig},
};
use tower::{BoxError, ServiceBuilder, util::Either};
use windlass_api::{DASHBOARD_GROUP, FOLDER_GROUP, GROUP, audience};
use windlass_telemetry::redact_url;

use super::{
    TlsError, TlsOptions,
    exchange::TokenExchange,
    starting::patient,
    token_layer::AccessTokenLayer,
    transport::{ExplainLayer, http_client},
};

/// The clients of everything that controllers talk to. What stands behind each is decided here and nowhere else.
#[derive(Clone)]
pub struct ApiClients {
    /// Repositories, connections, jobs and their history.
    pub provisioning: Client,
    /// Folders.
    pub folders: Client,
    /// Dashboards.
    pub dashboards: Client,
    /// Core kinds: secrets, events, leases.
    pub core: Client,
    /// The further kinds that repositories may write.
    pub further: Client,
}

impl std::fmt::Debug for ApiClients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiClients").finish_non_exhaustive()
    }
}

/// Where [`ApiClients::connect`] connects to.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The server of the provisioning API and of the core kinds.
    pub provisioning_url: String,
    /// The server of folders, if it is another.
    pub folders_url: Option<String>,
    /// The server of dashboards, if it is another.
    pub dashboards_url: Option<String>,
    /// API groups of the further kinds that repositories may write, on the provisioning server.
    pub further_groups: Vec<String>,
    /// Makes access tokens; without it requests carry none, and the client certificate must do.
    pub exchange: Option<TokenExchange>,
    /// Trust in these servers, and our certificate.
    pub tls: TlsOptions,
}

/// Why clients could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// A server URL is missing.
    #[error("`{option}` is required in [operator] section")]
    MissingUrl {
        /// The option.
        option: &'static str,
    },
    /// A server URL is not one.
    #[error("failed to use {option} {url}: it is no http or https URL")]
    InvalidUrl {
        /// The option.
        option: &'static str,
        /// The URL, redacted.
        url: String,
    },
    /// The TLS options cannot be used.
    #[error("failed to set up TLS for the API servers")]
    Tls(#[from] TlsError),
    /// A kubeconfig cannot be used.
    #[error("failed to use the kubeconfig")]
    ReadKubeconfig(#[source] BoxError),
    /// A kubeconfig says neither by itself nor by a setting which of its contexts is meant.
    #[error(
        "the kubeconfig {file} names no current-context: run `kubectl config use-context NAME`, or set --context to one \
         of: {known}"
    )]
    NoContext {
        /// The file.
        file: String,
        /// The contexts that there are.
        known: String,
    },
    /// A kubeconfig has no context of that name.
    #[error("the kubeconfig {file} has no context {name:?}: set --context to one of: {known}")]
    UnknownContext {
        /// The file.
        file: String,
        /// The context that was asked for.
        name: String,
        /// The contexts that there are.
        known: String,
    },
    /// The pod's service account cannot be used.
    #[error("failed to use the service account of this pod")]
    ReadServiceAccount(#[source] BoxError),
    /// Called outside a Tokio runtime, without which a client cannot live.
    #[error("failed to make clients: no Tokio runtime is running")]
    NoRuntime,
}

impl ApiClients {
    /// One client for everything, such as one in process.
    pub fn same(client: Client) -> Self {
        Self {
            provisioning: client.clone(),
            folders: client.clone(),
            dashboards: client.clone(),
            core: client.clone(),
            further: client,
        }
    }

    /// Clients over sockets, with access tokens from `options.exchange`. Nothing is sent yet.
    ///
    /// Requests are not retried here; connecting may take 10 s, silence on a connection lasts 5 min at most.
    ///
    /// # Errors
    /// [`ConnectError`], which names the option.
    pub fn connect(options: &ConnectOptions) -> Result<Self, ConnectError> {
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(ConnectError::NoRuntime);
        }
        let provisioning = server("provisioning_server_url", &options.provisioning_url)?;
        let other = |option, url: &Option<String>| match url {
            Some(url) if !url.is_empty() => server(option, url),
            _ => Ok(provisioning.clone()),
        };
        let folders = other("folders_server_url", &options.folders_url)?;
        let dashboards = other("dashboards_server_url", &options.dashboards_url)?;
        let http = http_client(options.tls.client_config()?);
        let client = |server: &Server, audiences: &[&str]| {
            let config = Config::new(server.uri.clone());
            let token = match &options.exchange {
                Some(exchange) => {
                    Either::Left(AccessTokenLayer::new(exchange.clone(), audiences.iter().copied()))
                }
                None => Either::Right(tower::layer::util::Identity::new()),
            };
            let service = ServiceBuilder::new()
                .map_err(BoxError::from)
                .layer(token)
                .layer(config.base_uri_layer())
                .layer(ExplainLayer { url: server.url.clone() })
                .service(http.clone());
            Client::new(service, "default")
        };
        let mut further: Vec<&str> =
            options.further_groups.iter().map(|group| audience::for_group(group)).collect();
        further.push(GROUP);
        Ok(Self {
            provisioning: client(&provisioning, &[GROUP]),
            // The second audience lets these servers accept changes to manager annotations.
            folders: client(&folders, &[FOLDER_GROUP, GROUP]),
            dashboards: client(&dashboards, &[DASHBOARD_GROUP, GROUP]),
            core: client(&provisioning, &[audience::CORE]),
            further: client(&provisioning, &further),
        })
    }

    /// One client for everything, of the kubeconfig at `path` (several files, separated by `:`, are merged as `kubectl`
    /// does) and its current context, or the one of that name.
    ///
    /// # Errors
    /// [`ConnectError::ReadKubeconfig`], [`ConnectError::NoContext`] and [`ConnectError::UnknownContext`].
    pub async fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self, ConnectError> {
        let failed = |error: BoxError| ConnectError::ReadKubeconfig(error);
        let mut kubeconfig = Kubeconfig::default();
        for path in std::env::split_paths(path) {
            let next = Kubeconfig::read_from(path).map_err(|error| failed(error.into()))?;
            kubeconfig = kubeconfig.merge(next).map_err(|error| failed(error.into()))?;
        }
        let context = chosen_context(&kubeconfig, path, context)?;
        let options = KubeConfigOptions { context: Some(context), ..KubeConfigOptions::default() };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options);
        Self::of(config.await.map_err(|error| failed(error.into()))?).map_err(|error| failed(error.into()))
    }

    /// One client for everything, with the service account of the pod that this runs in.
    ///
    /// # Errors
    /// [`ConnectError::ReadServiceAccount`].
    pub fn in_cluster() -> Result<Self, ConnectError> {
        let failed = |error: BoxError| ConnectError::ReadServiceAccount(error);
        let config = Config::incluster_env().map_err(|error| failed(error.into()))?;
        Self::of(config).map_err(|error| failed(error.into()))
    }

    fn of(mut config: Config) -> kube::Result<Self> {
        // Off, since it sleeps up to minutes inside a call; our callers have deadlines and back-offs of their own.
        config.default_retry = false;
        config.connect_timeout = Some(std::time::Duration::from_secs(10));
        config.read_timeout = Some(std::time::Duration::from_mins(5));
        config.reset_reader_on_write = true;
        let url = config.cluster_url.to_string();
        Ok(Self::same(patient(Client::try_from(config)?, url.trim_end_matches('/'))))
    }

    /// The same clients, each as `change` makes it.
    #[must_use]
    pub fn map(&self, change: impl Fn(&Client) -> Client) -> Self {
        Self {
            provisioning: change(&self.provisioning),
            folders: change(&self.folders),
            dashboards: change(&self.dashboards),
            core: change(&self.core),
            further: change(&self.further),
        }
    }

    /// The client for an API group; `""` is core, an unknown group is taken for the provisioning server's.
    pub fn for_group(&self, group: &str) -> &Client {
        match group {
            FOLDER_GROUP => &self.folders,
            DASHBOARD_GROUP => &self.dashboards,
            _ if audience::for_group(group) == audience::CORE => &self.core,
            _ => &self.provisioning,
        }
    }
}

/// The context that is meant: the one that was named, or else the current one.
fn chosen_context(kubeconfig: &Kubeconfig, file: &Path, named: Option<&str>) -> Result<String, ConnectError> {
    let file = file.display().to_string();
    let mut contexts = kubeconfig.contexts.iter().map(|context| context.name.as_str());
    let known = contexts.clone().collect::<Vec<_>>().join(", ");
    match named.or(kubeconfig.current_context.as_deref()).filter(|name| !name.is_empty()) {
        None => Err(ConnectError::NoContext { file, known }),
        Some(name) if contexts.any(|context| context == name) => Ok(name.to_owned()),
        Some(name) => Err(ConnectError::UnknownContext { file, name: name.to_owned(), known }),
    }
}

#[derive(Clone)]
struct Server {
    uri: Uri,
    url: String,
}

fn server(option: &'static str, url: &str) -> Result<Server, ConnectError> {
    if url.is_empty() {
        return Err(ConnectError::MissingUrl { option });
    }
    let redacted = redact_url(url);
    let uri = url
        .parse::<Uri>()
        .ok()
        .filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
        .ok_or_else(|| ConnectError::InvalidUrl { option, url: redacted.clone() })?;
    Ok(Server { uri, url: redacted })
}
