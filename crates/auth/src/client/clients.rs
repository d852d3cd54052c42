//! One `kube::Client` for each API group.

use std::path::Path;

use http::Uri;
use kube::{Client, Config, client::ConfigExt as _};
use tower::{BoxError, ServiceBuilder, util::Either};
use windlass_api::{DASHBOARD_GROUP, FOLDER_GROUP, GROUP, audience};
use windlass_telemetry::redact_url;

use super::{
    TlsError, TlsOptions,
    cluster::{self, ClusterError},
    exchange::TokenExchange,
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
    /// A Kubernetes API server cannot be reached as it was asked for.
    #[error(transparent)]
    Cluster(ClusterError),
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
                .layer(ExplainLayer { url: server.url.clone(), credential: None, kubernetes: false })
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
    /// Files of certificate authorities, tokens and client certificates are read again when they change.
    ///
    /// # Errors
    /// [`ConnectError::Cluster`].
    pub async fn from_kubeconfig(path: &Path, context: Option<&str>) -> Result<Self, ConnectError> {
        let client = cluster::by_kubeconfig(path, context).await.map_err(ConnectError::Cluster)?;
        Ok(Self::same(client))
    }

    /// One client for everything, with the service account of the pod that this runs in.
    ///
    /// # Errors
    /// [`ConnectError::Cluster`].
    pub fn in_cluster() -> Result<Self, ConnectError> {
        cluster::in_cluster().map(Self::same).map_err(ConnectError::Cluster)
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
