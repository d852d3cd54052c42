//! What every operator of a process runs over.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_api::jobs::JobRules;
use windlass_api::repositories::RepositoryRules;
use windlass_auth::{
    ApiClients, ConnectError, ConnectOptions, ExchangeError, TlsOptions, TokenExchange, TokenExchangeConfig,
};
use windlass_git::{Git, GitConfig, GitError, GitMetrics, Proxy, Rate, UrlPolicy};
use windlass_loki::Loki;
use windlass_repository::Opener;
use windlass_resources::{Clients, FurtherKinds};
use windlass_runtime::{Clock, Scope, Supervisor, SystemClock};
use windlass_settings::Settings;
use windlass_telemetry::{Health, Metrics, Spans};

/// The process as its operators see it.
pub struct Context {
    /// Every setting, with where it came from.
    pub settings: Settings,
    /// One client for each API group.
    pub clients: ApiClients,
    /// Where records of finished jobs are kept; API objects when there is none.
    pub loki: Option<Loki>,
    /// The namespaces that are watched and worked in.
    pub scope: Scope,
    /// Where files become objects.
    pub resources: Clients,
    /// How Git servers are reached.
    pub git: Git,
    /// Opens repositories.
    pub opener: Opener,
    /// What a repository may say.
    pub repository_rules: RepositoryRules,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Readiness and liveness.
    pub health: Health,
    /// Where instruments are made.
    pub metrics: Metrics,
    /// Where spans are told that have times and ids of their own.
    pub spans: Spans,
    /// Owns every task; its token is the shutdown.
    pub supervisor: Supervisor,
    /// Tells this process apart from its replicas.
    pub replica: String,
    /// The most time that a repository's health check may take.
    pub check_deadline: Duration,
    /// The least time between two syncs of a repository.
    pub min_sync_interval: Duration,
}

/// Why a process could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// The token exchange could not be set up.
    #[error("failed to set up the token exchange")]
    Exchange(#[source] ExchangeError),
    /// The API servers could not be set up.
    #[error("failed to set up the connection to the API server")]
    Connect(#[source] ConnectError),
    /// Nothing says which Kubernetes API server is meant.
    #[error(
        "no Kubernetes API server was named, and this is no pod: give --kubeconfig FILE, or set KUBECONFIG; there is no \
         ~/.kube/config"
    )]
    NoCluster,
    /// Git access could not be set up.
    #[error("failed to set up Git access")]
    Git(#[source] GitError),
    /// Loki cannot be used as the settings have it.
    #[error("failed to set up the history of jobs in Loki")]
    Loki(#[source] crate::history::LokiSettingsError),
}

impl Context {
    /// A context from settings, over clients that are there already, whose spans are told nowhere.
    pub fn new(
        settings: Settings,
        clients: ApiClients,
        default_cache: &Path,
        metrics: Metrics,
    ) -> Result<Self, ContextError> {
        let operator = settings.operator();
        let provisioning = settings.provisioning();
        let git = open_git(&settings, default_cache, Some(&metrics)).map_err(ContextError::Git)?;
        let loki = crate::history::open_loki(&settings).map_err(ContextError::Loki)?;
        let opener = open_repositories(&settings, git.clone(), &metrics).map_err(ContextError::Git)?;
        let repository_rules = repository_rules(&settings);
        // A little more than Git's own deadline, whose message says more.
        let check_deadline = operator.git_timeout + Duration::from_secs(5);
        let min_sync_interval = provisioning.min_sync_interval;
        let scope = Scope::new(operator.namespace.clone());
        let resources = Clients {
            folders: clients.folders.clone(),
            dashboards: clients.dashboards.clone(),
            further: FurtherKinds::new(clients.further.clone(), provisioning.resource_kinds.clone()),
        };
        Ok(Self {
            clients,
            resources,
            loki,
            scope,
            git,
            opener,
            repository_rules,
            clock: Arc::new(SystemClock),
            health: Health::new(),
            metrics,
            spans: Spans::disabled(),
            supervisor: Supervisor::new(),
            replica: uuid::Uuid::new_v4().simple().to_string(),
            check_deadline,
            min_sync_interval,
            settings,
        })
    }
}

impl Context {
    /// Whether the objects are on a Kubernetes API server, by definitions that somebody applied there.
    pub(crate) fn is_on_kubernetes(&self) -> bool {
        self.settings.operator().kubeconfig.is_some() || self.settings.in_cluster()
    }
}

/// Clients as the settings say: by kubeconfig, by token exchange, or by the service account of the pod.
pub(crate) async fn connect(settings: &Settings) -> Result<ApiClients, ContextError> {
    let operator = settings.operator();
    if let Some(path) = &operator.kubeconfig {
        let context = operator.kubeconfig_context.as_deref();
        return ApiClients::from_kubeconfig(path, context).await.map_err(ContextError::Connect);
    }
    if settings.in_cluster() {
        return ApiClients::in_cluster().map_err(ContextError::Connect);
    }
    let auth = settings.auth();
    let tls = TlsOptions {
        insecure: operator.tls_insecure,
        cert_file: operator.tls_cert_file.clone(),
        key_file: operator.tls_key_file.clone(),
        ca_file: operator.tls_ca_file.clone(),
    };
    let mut config = TokenExchangeConfig {
        tls: tls.clone(),
        ..TokenExchangeConfig::new(auth.token_exchange_url.clone(), auth.token.clone())
    };
    if let Some(namespace) = &operator.namespace {
        config.namespace.clone_from(namespace);
    }
    let exchange = TokenExchange::new(config).map_err(ContextError::Exchange)?;
    let some = |url: &String| Some(url.clone()).filter(|url| !url.is_empty());
    ApiClients::connect(&ConnectOptions {
        provisioning_url: operator.provisioning_server_url.clone(),
        folders_url: some(&operator.folders_server_url),
        dashboards_url: some(&operator.dashboards_server_url),
        further_groups: settings
            .provisioning()
            .resource_kinds
            .iter()
            .map(|kind| kind.group.clone())
            .collect(),
        exchange: Some(exchange),
        tls,
    })
    .map_err(ContextError::Connect)
}

/// Clients of a Kubernetes API server, as `kubectl` finds it: by the kubeconfig that is named, or as the pod that this
/// is, or by the kubeconfig of whoever runs it. A context that is named is one of a kubeconfig.
pub(crate) async fn connect_cluster(settings: &Settings) -> Result<ApiClients, ContextError> {
    let operator = settings.operator();
    let context = operator.kubeconfig_context.as_deref();
    if let Some(path) = &operator.kubeconfig {
        return ApiClients::from_kubeconfig(path, context).await.map_err(ContextError::Connect);
    }
    if settings.in_cluster() && context.is_none() {
        return ApiClients::in_cluster().map_err(ContextError::Connect);
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).ok_or(ContextError::NoCluster)?;
    let path = home.join(".kube/config");
    if !path.exists() {
        return Err(ContextError::NoCluster);
    }
    ApiClients::from_kubeconfig(&path, context).await.map_err(ContextError::Connect)
}

/// What a repository may say, as the settings have it.
pub fn repository_rules(settings: &Settings) -> RepositoryRules {
    let provisioning = settings.provisioning();
    RepositoryRules {
        types: provisioning.repository_types.clone(),
        max_repositories: provisioning.max_repositories,
        min_interval_seconds: i64::try_from(provisioning.min_sync_interval.as_secs()).unwrap_or(i64::MAX),
        targets: provisioning.allowed_targets.clone(),
        image_rendering: provisioning.allow_image_rendering,
    }
}

/// What a job may ask for, as the settings have it.
pub fn job_rules(settings: &Settings) -> JobRules {
    JobRules { test_jobs: settings.operator().enable_test_jobs, ..JobRules::default() }
}

/// What opens repositories as the settings have it, over `git`. What is done to their files is told in `metrics`.
///
/// # Errors
/// `git_proxy` is no address of a proxy.
pub fn open_repositories(settings: &Settings, git: Git, metrics: &Metrics) -> Result<Opener, GitError> {
    let operator = settings.operator();
    let opener = Opener::new(git, operator.home_path.clone(), operator.local_permitted_prefixes.clone())
        .with_metrics(metrics);
    let Some(address) = &operator.git_proxy else { return Ok(opener) };
    let user = operator.git_proxy_user.clone();
    let login = (!user.is_empty()).then(|| (user, operator.git_proxy_password.clone()));
    Ok(opener.with_proxy(Proxy::new(address, login)?))
}

/// Access to Git servers as the settings have it: by public https and ssh, and to the origins that are allowed. What it
/// costs is told in `metrics`.
///
/// # Errors
/// An origin is none, an SSH algorithm is unknown, `git_ca_file` cannot be used, or the cache cannot be made.
pub fn open_git(
    settings: &Settings,
    default_cache: &Path,
    metrics: Option<&Metrics>,
) -> Result<Git, GitError> {
    let operator = settings.operator();
    let cache_dir = operator.git_cache_dir.clone().unwrap_or_else(|| default_cache.to_path_buf());
    let mut policy = UrlPolicy::default();
    for origin in &operator.allowed_git_origins {
        policy = policy.allow_origin(origin)?;
    }
    if let Some(proxy) = &operator.git_proxy {
        policy = policy.allow_origin(proxy)?;
    }
    let mut config = GitConfig { policy, ..GitConfig::new(cache_dir) };
    config.limits.pack_bytes = operator.git_max_pack_bytes;
    config.limits.blob_bytes = operator.git_max_file_bytes;
    config.limits.entries = operator.git_max_files;
    config.ca_bundle.clone_from(&operator.git_ca_file);
    config.ssh.key_exchange.clone_from(&operator.git_ssh_key_exchange_algorithms);
    config.ssh.host_keys.clone_from(&operator.git_ssh_host_key_algorithms);
    config.concurrency = operator.git_concurrency;
    config.requests_per_host = operator.git_max_requests_per_host;
    config.rate_per_host =
        Rate { per_second: operator.git_requests_per_second, burst: operator.git_request_burst };
    config.deadlines.min_throughput = operator.git_min_throughput;
    config.deadlines.connect = operator.git_connect_timeout;
    config.deadlines.read = operator.git_read_timeout;
    config.deadlines.refs = operator.git_timeout;
    config.deadlines.fetch = operator.git_fetch_timeout;
    config.metrics = metrics.map(|metrics| Arc::new(GitMetrics::new(metrics)));
    Git::new(config)
}
