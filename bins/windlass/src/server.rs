//! The API server with everything that belongs to it: store, keys, token exchange, sub-resources of repositories.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_admission::Provisioning;
use windlass_api::GroupResource;
use windlass_apiserver::store::{self, Store, StoreOptions};
use windlass_apiserver::{ApiServer, AuditLog, AuditOptions, Observer, RequestMetrics};
use windlass_auth::kubeconfig::KubeconfigError;
use windlass_auth::{
    ApiClients, Authenticator, Caller, CallerAccess, Issuer, IssuerOptions, Keys, SigningKeys, SystemToken,
    exchange_router, kubeconfig, plain, tls,
};
use windlass_loki::Loki;
use windlass_repository::Opener;
use windlass_repository_api::{RepositoryApi, WebhookMetrics};
use windlass_resources::{Clients, FurtherKinds};
use windlass_runtime::Supervisor;
use windlass_telemetry::{Metrics, Spans};

/// How often the keys that sign access tokens are looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(20);
/// How often certificates are looked at that may have to be renewed.
const RENEWED_EVERY: Duration = Duration::from_hours(6);
/// How long a key signs access tokens.
const ROTATED_EVERY: Duration = Duration::from_hours(24 * 30);

/// Where to listen, and where things are kept.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct ServerOptions {
    /// Address of the API, https: `host:port`, where the host may be a name.
    pub(crate) api: String,
    /// Address of the token exchange, likewise: http on loopback addresses, https on others.
    pub(crate) exchange: String,
    /// The folder for the store and the keys.
    pub(crate) data: PathBuf,
    /// Whether to begin without a store, or without a sealing key, that there was.
    pub(crate) begin_anew: bool,
    /// Where the kubeconfig is written.
    pub(crate) kubeconfig: PathBuf,
    /// System tokens that the exchange accepts.
    pub(crate) system_tokens: Vec<SystemToken>,
    /// Whether the well-known one is accepted too, if the exchange listens on a loopback address.
    pub(crate) well_known_token: bool,
    /// Whether nothing can be created in a namespace that there is not.
    pub(crate) namespaces_must_exist: bool,
    /// Names and addresses that the server's certificate carries beside this machine's own.
    pub(crate) names: Vec<String>,
    /// What repositories may say, and jobs ask for.
    pub(crate) rules: Provisioning,
    /// Kinds that repositories may write beside folders and dashboards.
    pub(crate) resource_kinds: Vec<GroupResource>,
    /// Where records of finished jobs are kept; `historicjobs` are served when there is none.
    pub(crate) loki: Option<Loki>,
    /// Whether deliveries of webhooks are accepted that are signed with SHA-1 alone.
    pub(crate) accept_sha1: bool,
    /// Where requests are written down, if anywhere.
    pub(crate) audit: Option<AuditOptions>,
    /// Where requests are counted, and webhooks.
    pub(crate) metrics: Metrics,
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
    /// Where it keeps its objects.
    pub(crate) store: Arc<dyn Store>,
    kubeconfig: Kubeconfig,
    keys: Keys,
    issuer: Issuer,
    router: axum::Router,
    rules: Provisioning,
    resource_kinds: Vec<GroupResource>,
    loki: Option<Loki>,
    accept_sha1: bool,
    observer: Observer,
    metrics: Metrics,
    listeners: (TcpListener, TcpListener),
}

impl Server {
    /// Binds, opens and assembles. Nothing is served before [`Server::start`].
    pub(crate) async fn open(options: ServerOptions) -> Result<Self> {
        let api = bind(&options.api, "--api-address").await?;
        let exchange = bind(&options.exchange, "--exchange-address").await?;
        let (api_address, exchange_address) = (api.local_addr()?, exchange.local_addr()?);
        std::fs::create_dir_all(&options.data)
            .with_context(|| format!("failed to make the data folder {}", options.data.display()))?;
        let (store, keys) = open_data(&options.data, &options.names, options.begin_anew)?;

        let mut system_tokens: Vec<SystemToken> = options.system_tokens;
        let well_known =
            options.well_known_token.then(|| SystemToken::default_for(exchange_address)).flatten();
        let well_known_token = well_known.is_some();
        system_tokens.extend(well_known);
        let issuer = Issuer::new(&keys, IssuerOptions { system_tokens, ..IssuerOptions::default() })?;

        let mut crds = windlass_api::crds::all();
        crds.retain(|crd| options.loki.is_none() || crd.spec.names.kind != "HistoricJob");
        let server = ApiServer::builder(store.clone())
            .crds(crds)
            .sealing_key(keys.sealing_key())
            .admission(options.rules.clone())
            .namespaces_must_exist(options.namespaces_must_exist)
            .build()?;
        server.start().await?;
        let audit = options.audit.map(AuditLog::open).transpose()?;
        let metrics = options.metrics;
        let clients = ApiClients::same(server.client(Caller::system("windlass")));
        let kubeconfig =
            Kubeconfig { path: options.kubeconfig, port: api_address.port(), names: options.names };
        match kubeconfig.write(&keys) {
            // The file of the last start is there.
            Err(KubeconfigError::WriteFile { path, source }) if source.kind() == ErrorKind::StorageFull => {
                tracing::warn!(path = %path.display(), error = %source, "failed to write the kubeconfig");
            }
            written => written?,
        }
        Ok(Self {
            clients,
            api: api_address,
            exchange: exchange_address,
            well_known_token,
            ca_file: keys.ca_file(),
            store,
            observer: Observer::new(&server, audit, Some(RequestMetrics::new(&metrics))),
            metrics,
            router: server.router(),
            rules: options.rules,
            resource_kinds: options.resource_kinds,
            loki: options.loki,
            accept_sha1: options.accept_sha1,
            listeners: (api, exchange),
            kubeconfig,
            keys,
            issuer,
        })
    }

    /// Serves until the supervisor shuts down. `opener` is how the sub-resources of repositories read them; `spans` tells of
    /// deliveries.
    pub(crate) fn start(self, opener: Opener, spans: Spans, supervisor: &Supervisor) -> Result<()> {
        let state = RepositoryApi {
            provisioning: self.clients.provisioning.clone(),
            core: self.clients.core.clone(),
            resources: Clients {
                folders: self.clients.folders.clone(),
                dashboards: self.clients.dashboards.clone(),
                further: FurtherKinds::new(self.clients.further.clone(), self.resource_kinds),
            },
            opener,
            loki: self.loki,
            repository_rules: self.rules.repositories,
            job_rules: self.rules.jobs,
            access: Arc::new(CallerAccess),
            accept_sha1: self.accept_sha1,
            webhook_metrics: Some(WebhookMetrics::new(&self.metrics)),
            spans,
            namespace: None,
        };
        let router = windlass_repository_api::router_over(state, self.router);
        // For whoever is somebody, as on a real server.
        let router = router.merge(windlass_telemetry::scrape(self.metrics));
        let router = Authenticator::new(self.issuer.verifier()).protect(router);
        let router = self.observer.over(router);
        let config = tls::config(&self.keys)?;
        let (api, exchange) = self.listeners;
        let stop: CancellationToken = supervisor.token().clone();
        supervisor.spawn("API server", tls::serve(api, config.clone(), router, stop.clone()));
        if let Some(folder) = self.keys.directory() {
            let keys = self.keys.signing_keys().clone();
            let following = follow_signing_keys(self.issuer.clone(), folder.to_owned(), keys, stop.clone());
            supervisor.spawn("signing keys", following);
            let renewing = renew_certificates(folder.to_owned(), self.kubeconfig, stop.clone());
            supervisor.spawn("certificates", renewing);
        }
        let exchange_router = exchange_router(self.issuer);
        if self.exchange.ip().is_loopback() {
            supervisor.spawn("token exchange", plain::serve(exchange, exchange_router, stop));
        } else {
            // System tokens do not go over a network in the clear.
            supervisor.spawn("token exchange", tls::serve(exchange, config, exchange_router, stop));
        }
        Ok(())
    }
}

/// The file that tells the administrator's clients how to reach the server, with their certificate.
struct Kubeconfig {
    path: PathBuf,
    port: u16,
    /// What the server's certificate names beside this machine.
    names: Vec<String>,
}

impl Kubeconfig {
    fn write(&self, keys: &Keys) -> Result<(), KubeconfigError> {
        let (url, admin) = (format!("https://localhost:{}", self.port), keys.admin());
        kubeconfig::write(&self.path, &url, keys.ca_certificate(), &admin.certificate, &admin.key)
    }
}

/// Renews the certificates of this folder before they end: the server's is used with the next handshake, the
/// administrator's is written to the kubeconfig.
async fn renew_certificates(
    folder: PathBuf,
    kubeconfig: Kubeconfig,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let mut written = None;
    while stop.run_until_cancelled(tokio::time::sleep(RENEWED_EVERY)).await.is_some() {
        match Keys::load_or_create(&folder, &kubeconfig.names) {
            Ok(keys) => {
                let certificate = keys.admin().certificate.clone();
                if written.as_ref() != Some(&certificate) {
                    match kubeconfig.write(&keys) {
                        Ok(()) => written = Some(certificate),
                        Err(error) => tracing::error!(%error, "failed to write the kubeconfig"),
                    }
                }
            }
            Err(error) => tracing::error!(%error, "failed to renew the certificates"),
        }
    }
    Ok(())
}

/// Signs and verifies with the keys that are in this folder, and puts a new one there when the newest is old.
async fn follow_signing_keys(
    issuer: Issuer,
    folder: PathBuf,
    mut keys: SigningKeys,
    stop: CancellationToken,
) -> std::io::Result<()> {
    while stop.run_until_cancelled(tokio::time::sleep(LOOKED_AT_EVERY)).await.is_some() {
        let rotated = if keys.age() > ROTATED_EVERY { SigningKeys::rotate(&folder, false) } else { Ok(()) };
        match rotated.and_then(|()| SigningKeys::load(&folder)) {
            Ok(found) if found.differ(&keys) => match issuer.use_keys(&found) {
                Ok(()) => {
                    tracing::info!(
                        "the keys that sign access tokens, or the tokens that are revoked, are others"
                    );
                    keys = found;
                }
                Err(error) => tracing::error!(%error, "failed to use the keys that sign access tokens"),
            },
            Ok(found) => keys = found,
            Err(error) => tracing::error!(%error, "failed to read the keys that sign access tokens"),
        }
    }
    Ok(())
}

/// Binds an address: of the addresses of a name the first that can be bound, those of IPv4 before the others, as Go does. A
/// taken port gets an error that says what to do.
async fn bind(address: &str, flag: &str) -> Result<TcpListener> {
    let what = format!("failed to listen on {address}");
    let resolved = tokio::net::lookup_host(address).await;
    let advice = || format!("{what}: the host has no address; name another with {flag} HOST:PORT");
    let mut addresses: Vec<SocketAddr> = resolved.with_context(advice)?.collect();
    addresses.sort_by_key(SocketAddr::is_ipv6);
    TcpListener::bind(&addresses[..]).await.map_err(|error| {
        if error.kind() == std::io::ErrorKind::AddrInUse {
            let advice = format!("{what}: the port is taken; choose another with {flag} HOST:PORT");
            return anyhow::anyhow!(advice);
        }
        anyhow::Error::new(error).context(what)
    })
}

/// The store and the keys of a data folder.
///
/// The store is made before the keys, and one that nothing was written to needs no key, so that a first start that is killed
/// is no lost store and no lost key.
fn open_data(data: &Path, names: &[String], begin_anew: bool) -> Result<(Arc<dyn Store>, Keys)> {
    let (path, folder) = (data.join("store.redb"), data.join("keys"));
    let had_key = Keys::has_sealing_key(&folder);
    if had_key && !begin_anew && !path.exists() {
        bail!(
            "the store {} is gone, but its keys are there: restore it with `windlass store restore`, or give \
             --begin-anew to begin without objects",
            path.display()
        );
    }
    let store = open_store(&path)?;
    if !had_key && !begin_anew && store.revision() > store::FIRST_REVISION {
        bail!(
            "the key that Secrets in {} are sealed with is gone: restore {} from a copy, or give --begin-anew to go on \
             with a new one, and without what the Secrets hold",
            path.display(),
            folder.join("sealing.key").display()
        );
    }
    Ok((store, Keys::load_or_create(&folder, names)?))
}

fn open_store(path: &Path) -> Result<Arc<dyn Store>> {
    store::open_file(path, &StoreOptions::default())
        .with_context(|| format!("failed to open the store {}", path.display()))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use windlass_auth::{TokenExchange, TokenExchangeConfig};

    use super::*;

    async fn open(exchange: &str, well_known_token: bool) -> Server {
        let folder = tempfile::tempdir().unwrap();
        open_in(folder.path(), exchange, well_known_token, Vec::new()).await
    }

    async fn open_in(
        data: &Path,
        exchange: &str,
        well_known_token: bool,
        system_tokens: Vec<SystemToken>,
    ) -> Server {
        let options = ServerOptions {
            api: "localhost:0".to_owned(),
            exchange: exchange.to_owned(),
            data: data.to_owned(),
            begin_anew: false,
            kubeconfig: data.join("kubeconfig"),
            system_tokens,
            well_known_token,
            namespaces_must_exist: false,
            names: Vec::new(),
            rules: Provisioning::default(),
            resource_kinds: Vec::new(),
            loki: None,
            accept_sha1: false,
            audit: None,
            metrics: Metrics::new().unwrap(),
        };
        Server::open(options).await.unwrap()
    }

    #[tokio::test]
    async fn names_are_resolved_and_the_default_token_is_accepted_when_asked_for_on_loopback_addresses_alone()
    {
        let every = windlass_settings::listen_address(":0").unwrap();
        for (address, accepted) in [("localhost:0", true), ("127.0.0.1:0", true), (every.as_str(), false)] {
            let server = open(address, true).await;
            assert!(server.api.ip().is_loopback(), "{}", server.api);
            assert_eq!(server.exchange.ip().is_loopback(), accepted, "{address} is {}", server.exchange);
            assert_eq!(server.well_known_token, accepted, "{address}");
        }
        assert!(!open("localhost:0", false).await.well_known_token, "only when it is asked for");
    }

    #[tokio::test]
    async fn an_exchange_on_another_than_a_loopback_address_speaks_tls_and_nothing_else() {
        windlass_auth::install_crypto_provider().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let tokens = vec![SystemToken::admin("system", "of-the-system".into())];
        let every = windlass_settings::listen_address(":0").unwrap();
        let server = open_in(folder.path(), &every, false, tokens).await;
        assert!(!server.exchange.ip().is_loopback());
        let (port, ca_file) = (server.exchange.port(), server.ca_file.clone());
        let git = windlass_git::GitConfig::new(folder.path().join("git"));
        let opener = Opener::new(windlass_git::Git::new(git).unwrap(), None, Vec::new());
        let supervisor = Supervisor::new();
        server.start(opener, Spans::disabled(), &supervisor).unwrap();

        let config = |scheme: &str| {
            let url = format!("{scheme}://127.0.0.1:{port}/sign/access-token");
            let mut config = TokenExchangeConfig::new(url, "of-the-system".into());
            config.tls.ca_file.clone_from(&ca_file);
            config.deadline = Duration::from_secs(20);
            config
        };
        TokenExchange::new(config("https")).unwrap().token(&["core.windlass.dev"]).await.unwrap();
        // Nothing is answered in the clear.
        let mut plain = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        plain.write_all(b"GET /jwks HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let read = plain.read_to_end(&mut answer);
        // A reset is an end, too.
        assert!(tokio::time::timeout(Duration::from_secs(20), read).await.is_ok(), "it is left open");
        let answer = String::from_utf8_lossy(&answer);
        assert!(!answer.contains("HTTP") && !answer.contains("keys"), "{answer:?}");
        supervisor.token().cancel();
    }

    #[tokio::test]
    async fn a_taken_address_is_named_with_the_flag_that_sets_it() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taken = listener.local_addr().unwrap().to_string();
        let error = bind(&taken, "--api-address").await.unwrap_err().to_string();
        assert!(error.contains(&taken) && error.contains("--api-address HOST:PORT"), "{error}");
    }

    #[tokio::test]
    async fn a_lost_store_or_sealing_key_is_told_and_a_first_start_that_was_killed_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let (data, path) = (folder.path(), folder.path().join("store.redb"));
        let open = |begin_anew| open_data(data, &[], begin_anew);
        let refusal = || open(false).err().map(|error| format!("{error:#}")).unwrap_or_default();
        // Killed after the store was made, and again after some of the keys were.
        drop(open_store(&path).unwrap());
        drop(open(false).unwrap());
        std::fs::remove_file(data.join("keys/sealing.key")).unwrap();
        std::fs::remove_file(data.join("keys/signing.key")).unwrap();
        let (store, _) = open(false).unwrap();
        let key = store::Key::new("", "secrets", "default", "s").unwrap();
        store.commit(vec![store::Write::create(key, "{}")]).await.unwrap();
        drop(store);
        drop(open(false).unwrap());

        std::fs::rename(data.join("keys"), data.join("lost")).unwrap();
        assert!(refusal().contains("sealing.key from a copy"), "{}", refusal());
        assert!(!data.join("keys/sealing.key").exists(), "no new key is in its way");
        std::fs::rename(data.join("lost"), data.join("keys")).unwrap();
        drop(open(false).unwrap());

        std::fs::rename(&path, data.join("lost.redb")).unwrap();
        assert!(refusal().contains("store restore"), "{}", refusal());
        assert!(!path.exists(), "no new store is in its way");
        std::fs::write(&path, "").unwrap();
        assert!(refusal().contains("0 bytes"), "{}", refusal());
        std::fs::remove_file(&path).unwrap();
        drop(open(true).unwrap());
    }
}
