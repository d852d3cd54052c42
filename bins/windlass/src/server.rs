//! The API server with everything that belongs to it: store, keys, token exchange, sub-resources of repositories.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_api::GroupResource;
use windlass_api::jobs::JobRules;
use windlass_api::repositories::RepositoryRules;
use windlass_apiserver::store::{self, Store, StoreOptions};
use windlass_apiserver::{AdmissionRules, ApiServer};
use windlass_auth::{
    ApiClients, Authenticator, Caller, CallerAccess, Issuer, IssuerOptions, Keys, SystemToken,
    exchange_router, kubeconfig, plain, tls,
};
use windlass_repository_api::RepositoryApi;
use windlass_resources::repository::Sources;
use windlass_resources::{Clients, FurtherKinds};
use windlass_runtime::Supervisor;

/// Where to listen, and where things are kept.
pub(crate) struct ServerOptions {
    /// Address of the API, https.
    pub(crate) api: SocketAddr,
    /// Address of the token exchange, http.
    pub(crate) exchange: SocketAddr,
    /// The folder for the store and the keys.
    pub(crate) data: PathBuf,
    /// Where the kubeconfig is written.
    pub(crate) kubeconfig: PathBuf,
    /// System tokens that the exchange accepts, beside the well-known one on loopback addresses.
    pub(crate) system_tokens: Vec<(String, SecretString)>,
    /// Names and addresses that the server's certificate carries beside this machine's own.
    pub(crate) names: Vec<String>,
    /// What repositories may say.
    pub(crate) rules: RepositoryRules,
    /// Kinds that repositories may write beside folders and dashboards.
    pub(crate) resource_kinds: Vec<GroupResource>,
}

/// A server whose listeners are bound and whose store is open.
pub(crate) struct Server {
    /// Clients that reach it without a socket, with every right.
    pub(crate) clients: ApiClients,
    /// Where it listens.
    pub(crate) api: SocketAddr,
    /// Where the exchange listens.
    pub(crate) exchange: SocketAddr,
    /// Whether the well-known token is accepted.
    pub(crate) well_known_token: bool,
    /// The authority of its certificate.
    pub(crate) ca_file: Option<PathBuf>,
    keys: Keys,
    issuer: Issuer,
    router: axum::Router,
    rules: RepositoryRules,
    resource_kinds: Vec<GroupResource>,
    listeners: (TcpListener, TcpListener),
}

impl Server {
    /// Binds, opens and assembles. Nothing is served before [`Server::start`].
    pub(crate) async fn open(options: ServerOptions) -> Result<Self> {
        let api = bind(options.api, "--api-address").await?;
        let exchange = bind(options.exchange, "--exchange-address").await?;
        let (api_address, exchange_address) = (api.local_addr()?, exchange.local_addr()?);
        std::fs::create_dir_all(&options.data)
            .with_context(|| format!("failed to make the data folder {}", options.data.display()))?;
        let keys = Keys::load_or_create(options.data.join("keys"), &options.names)?;
        let store = open_store(&options.data.join("store.redb"))?;

        let mut system_tokens: Vec<SystemToken> =
            options.system_tokens.into_iter().map(|(name, token)| SystemToken::admin(name, token)).collect();
        let well_known = SystemToken::default_for(exchange_address);
        let well_known_token = well_known.is_some();
        system_tokens.extend(well_known);
        let issuer = Issuer::new(&keys, IssuerOptions { system_tokens, ..IssuerOptions::default() })?;

        let server = ApiServer::builder(store)
            .crds(windlass_api::crds::all())
            .sealing_key(keys.sealing_key())
            .rules(AdmissionRules { repositories: options.rules.clone(), jobs: JobRules::default() })
            .build()?;
        server.start().await?;
        let clients = ApiClients::same(server.client(Caller::system("windlass")));
        kubeconfig::write(
            &options.kubeconfig,
            &format!("https://localhost:{}", api_address.port()),
            keys.ca_certificate(),
            &keys.admin().certificate,
            &keys.admin().key,
        )?;
        Ok(Self {
            clients,
            api: api_address,
            exchange: exchange_address,
            well_known_token,
            ca_file: keys.ca_file(),
            router: server.router(),
            rules: options.rules,
            resource_kinds: options.resource_kinds,
            listeners: (api, exchange),
            keys,
            issuer,
        })
    }

    /// Serves until the supervisor shuts down. `sources` is how the sub-resources of repositories read files.
    pub(crate) fn start(self, sources: Sources, supervisor: &Supervisor) -> Result<()> {
        let sub_resources = windlass_repository_api::router(RepositoryApi {
            provisioning: self.clients.provisioning.clone(),
            core: self.clients.core.clone(),
            resources: Clients {
                folders: self.clients.folders.clone(),
                dashboards: self.clients.dashboards.clone(),
                further: FurtherKinds::new(self.clients.further.clone(), self.resource_kinds),
            },
            sources,
            repository_rules: self.rules,
            job_rules: JobRules::default(),
            access: Arc::new(CallerAccess),
            namespace: None,
        });
        let router = sub_resources.fallback_service(self.router);
        let router = Authenticator::new(self.issuer.verifier()).protect(router);
        let config = tls::config(&self.keys)?;
        let (api, exchange) = self.listeners;
        let stop: CancellationToken = supervisor.token().clone();
        supervisor.spawn("API server", tls::serve(api, config, router, stop.clone()));
        supervisor.spawn("token exchange", plain::serve(exchange, exchange_router(self.issuer), stop));
        Ok(())
    }
}

/// Binds an address; a taken port gets an error that says what to do.
async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| {
        let what = format!("failed to listen on {address}");
        if error.kind() == std::io::ErrorKind::AddrInUse {
            let advice = format!("{what}: the port is taken; choose another with {flag} HOST:PORT");
            return anyhow::anyhow!(advice);
        }
        anyhow::Error::new(error).context(what)
    })
}

fn open_store(path: &Path) -> Result<Arc<dyn Store>> {
    store::open_file(path, &StoreOptions::default())
        .with_context(|| format!("failed to open the store {}", path.display()))
}
