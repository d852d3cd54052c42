//! Sections as typed values.

mod commit_tracker;

use std::{path::PathBuf, time::Duration};

use secrecy::SecretString;
use windlass_api::{GroupResource, RepositoryType, SyncTarget};

pub use self::commit_tracker::{
    CommitTrackerSettings, ExporterInfoSource, GithubCredentials, HistogramForm, MetricNames, Selection,
    SkippedArtifacts,
};
use crate::{load::Values, value};

/// The section `[grpc_client_authentication]`: how operators authenticate.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    /// System token that is presented to the token exchange.
    pub token: SecretString,
    /// URL of the token exchange; empty when not set.
    pub token_exchange_url: String,
}

impl AuthSettings {
    pub(crate) fn new(values: &Values) -> Self {
        let text = |key| values.text("grpc_client_authentication", key).to_owned();
        Self { token: text("token").into(), token_exchange_url: text("token_exchange_url") }
    }
}

/// Form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For a person on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Pretty,
}

/// The section `[operator]`.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct OperatorSettings {
    /// API server of repositories and jobs; empty when not set.
    pub provisioning_server_url: String,
    /// Public URL of the provisioning server; empty when not set.
    pub provisioning_server_public_url: String,
    /// API server of dashboards: the provisioning one when not set.
    pub dashboards_server_url: String,
    /// API server of folders: the provisioning one when not set.
    pub folders_server_url: String,
    /// Kubeconfig to use instead of the URLs and the token exchange.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig; its current one when not set.
    pub kubeconfig_context: Option<String>,
    /// The one namespace that is watched and worked in; all when not set.
    pub namespace: Option<String>,
    /// Whether any certificate is accepted.
    pub tls_insecure: bool,
    /// Client certificate.
    pub tls_cert_file: Option<PathBuf>,
    /// Key of the client certificate.
    pub tls_key_file: Option<PathBuf>,
    /// Certificates that servers' are checked against.
    pub tls_ca_file: Option<PathBuf>,

    /// How often every object is looked at again.
    pub resync_interval: Duration,
    /// Repositories that are reconciled at a time.
    pub worker_count: usize,
    /// Resources that finalizers work on at a time.
    pub parallel_operations: usize,

    /// Namespace of the Lease; worked out when not set.
    pub leader_election_namespace: Option<String>,
    /// Name of the Lease.
    pub leader_election_name: String,
    /// How long a Lease that does not change is respected.
    pub leader_election_lease_duration: Duration,
    /// How long after its last renewal a leader writes.
    pub leader_election_renew_deadline: Duration,
    /// How often the Lease is renewed and looked at.
    pub leader_election_retry_period: Duration,

    /// Whether `provisioning-jobs` claims and runs jobs.
    pub jobs_processing_enabled: bool,
    /// How often the queue is looked through.
    pub job_interval: Duration,
    /// Jobs that run at a time.
    pub concurrent_drivers: usize,
    /// Changes that one pull applies at a time.
    pub max_sync_workers: usize,
    /// Longest time that a job may run.
    pub max_job_timeout: Duration,
    /// How long a claim that is not renewed keeps a job.
    pub lease_expiry: Duration,
    /// How often a claim is renewed; at most a third of the expiry.
    pub lease_renewal_interval: Duration,
    /// How often a job is claimed before it is given up.
    pub max_attempts: u32,
    /// How often abandoned jobs are looked for.
    pub cleanup_interval: Duration,
    /// How long history is kept; zero for ever.
    pub history_expiration: Duration,

    /// Folder that relative paths of local repositories start from.
    pub home_path: Option<PathBuf>,
    /// Folders that local repositories may be in.
    pub local_permitted_prefixes: Vec<PathBuf>,

    /// Folder of the Git object caches.
    pub git_cache_dir: Option<PathBuf>,
    /// Origins that may be plain http, private or loopback; with what `allowed_git_urls` says.
    pub allowed_git_origins: Vec<String>,
    /// Certificates that Git servers' are checked against beside the system's.
    pub git_ca_file: Option<PathBuf>,
    /// Git transfers at a time.
    pub git_concurrency: usize,
    /// Most bytes of one Git transfer.
    pub git_max_pack_bytes: u64,
    /// Most bytes of one file.
    pub git_max_blob_bytes: u64,
    /// Most files and directories of one repository.
    pub git_max_files: usize,
    /// Longest time until a Git server is connected to.
    pub git_connect_timeout: Duration,
    /// Longest silence of a Git server.
    pub git_read_timeout: Duration,
    /// Longest time of a listing of refs, and of a health check.
    pub git_timeout: Duration,
    /// Longest time of a Git transfer.
    pub git_fetch_timeout: Duration,

    /// Address of metrics and probes; empty for none.
    pub metrics_address: String,
    /// Address of the sub-resources of repositories; empty for none.
    pub repository_api_address: String,
    /// Certificate of that address.
    pub repository_api_cert_file: Option<PathBuf>,
    /// Key of that certificate.
    pub repository_api_key_file: Option<PathBuf>,
    /// Whether that address may go without TLS beyond loopback.
    pub repository_api_plain_http: bool,
    /// Audiences that callers' tokens have to be for.
    pub repository_api_audiences: Vec<String>,
    /// Form of the log lines.
    pub log_format: LogFormat,
    /// Least level that is logged, or directives.
    pub log_level: String,
    /// One of [`TELEMETRY_MODES`](crate::TELEMETRY_MODES).
    pub telemetry_mode: String,
    /// The collector; empty for the one that `OTEL_…` variables name.
    pub telemetry_endpoint: String,
    /// Whether a collector without a scheme is spoken to without TLS.
    pub telemetry_insecure: bool,
}

impl OperatorSettings {
    /// From values that have been checked.
    pub(crate) fn new(values: &Values) -> Self {
        let text = |key| values.text("operator", key);
        let string = |key| text(key).to_owned();
        let some = |key| Some(text(key)).filter(|text| !text.is_empty()).map(str::to_owned);
        let path = |key| some(key).map(PathBuf::from);
        let boolean = |key| value::boolean(text(key)).unwrap_or_default();
        let duration = |key| value::duration(text(key));
        let count = |key| usize::try_from(value::integer(text(key))).unwrap_or_default();
        let bytes = |key| u64::try_from(value::integer(text(key))).unwrap_or_default();
        Self {
            provisioning_server_public_url: string("provisioning_server_public_url"),
            dashboards_server_url: string("dashboards_server_url"),
            folders_server_url: string("folders_server_url"),
            provisioning_server_url: string("provisioning_server_url"),
            kubeconfig: path("kubeconfig"),
            kubeconfig_context: some("kubeconfig_context"),
            namespace: some("namespace"),
            tls_insecure: boolean("tls_insecure"),
            tls_cert_file: path("tls_cert_file"),
            tls_key_file: path("tls_key_file"),
            tls_ca_file: path("tls_ca_file"),
            resync_interval: duration("resync_interval"),
            worker_count: count("worker_count"),
            parallel_operations: count("parallel_operations"),
            leader_election_namespace: some("leader_election_namespace"),
            leader_election_name: string("leader_election_name"),
            leader_election_lease_duration: duration("leader_election_lease_duration"),
            leader_election_renew_deadline: duration("leader_election_renew_deadline"),
            leader_election_retry_period: duration("leader_election_retry_period"),
            jobs_processing_enabled: boolean("jobs_processing_enabled"),
            job_interval: duration("job_interval"),
            concurrent_drivers: count("concurrent_drivers"),
            max_sync_workers: count("max_sync_workers"),
            max_job_timeout: duration("max_job_timeout"),
            lease_expiry: duration("lease_expiry"),
            lease_renewal_interval: duration("lease_renewal_interval"),
            max_attempts: u32::try_from(value::integer(text("max_attempts"))).unwrap_or(1),
            cleanup_interval: duration("cleanup_interval"),
            history_expiration: duration("history_expiration"),
            home_path: path("home_path"),
            local_permitted_prefixes: value::paths(text("local_permitted_prefixes")),
            git_cache_dir: path("git_cache_dir"),
            allowed_git_origins: origins(values),
            git_ca_file: path("git_ca_file"),
            git_concurrency: count("git_concurrency"),
            git_max_pack_bytes: bytes("git_max_pack_bytes"),
            git_max_blob_bytes: bytes("git_max_blob_bytes"),
            git_max_files: count("git_max_files"),
            git_connect_timeout: duration("git_connect_timeout"),
            git_read_timeout: duration("git_read_timeout"),
            git_timeout: duration("git_timeout"),
            git_fetch_timeout: duration("git_fetch_timeout"),
            metrics_address: value::address(text("metrics_address")).unwrap_or_default(),
            repository_api_address: value::address(text("repository_api_address")).unwrap_or_default(),
            repository_api_cert_file: path("repository_api_cert_file"),
            repository_api_key_file: path("repository_api_key_file"),
            repository_api_plain_http: boolean("repository_api_plain_http"),
            repository_api_audiences: value::list(text("repository_api_audiences")),
            log_format: match text("log_format") {
                "pretty" => LogFormat::Pretty,
                "json" => LogFormat::Json,
                _ => LogFormat::Auto,
            },
            log_level: string("log_level"),
            telemetry_mode: string("telemetry_mode"),
            telemetry_endpoint: string("telemetry_endpoint"),
            telemetry_insecure: boolean("telemetry_insecure"),
        }
    }
}

/// Allowed origins, from both keys. A host without a scheme means https.
fn origins(values: &Values) -> Vec<String> {
    let own = value::list(values.text("operator", "allowed_git_origins"));
    let grafana = value::list(values.text("provisioning", "allowed_git_urls"));
    own.into_iter()
        .chain(grafana.into_iter().map(|item| match url::Url::parse(&item) {
            Ok(url) if url.has_host() => url.origin().ascii_serialization(),
            _ => format!("https://{item}"),
        }))
        .filter_map(|item| value::origin(&item))
        .fold(Vec::new(), |mut origins, origin| {
            if !origins.contains(&origin) {
                origins.push(origin);
            }
            origins
        })
}

/// The section `[provisioning]`: what repositories may be.
#[derive(Clone, Debug)]
pub struct ProvisioningSettings {
    /// Types that repositories may have.
    pub repository_types: Vec<RepositoryType>,
    /// Targets that a new repository may have.
    pub allowed_targets: Vec<SyncTarget>,
    /// Most repositories in a namespace; 0 for no limit.
    pub max_repositories: i64,
    /// Kinds that files may become beside folders and dashboards.
    pub resource_kinds: Vec<GroupResource>,
    /// Most resources that a repository may manage; 0 for no limit.
    pub max_resources_per_repository: i64,
    /// Changes beyond which a pull looks at everything; 0 for no limit.
    pub max_incremental_changes: i64,
    /// Shortest time between two looks at a remote.
    pub min_sync_interval: Duration,
    /// Whether repositories may ask for pictures of dashboards.
    pub allow_image_rendering: bool,
    /// Whether one replica works at a time; where the process runs decides when not set.
    pub leader_election: Option<bool>,
}

impl ProvisioningSettings {
    /// From values that have been checked.
    pub(crate) fn new(values: &Values) -> Self {
        let text = |key| values.text("provisioning", key);
        let targets = [SyncTarget::Instance, SyncTarget::Folder, SyncTarget::Folderless];
        let named = value::list(text("allowed_targets"));
        Self {
            repository_types: value::list(text("repository_types"))
                .iter()
                .filter_map(|name| RepositoryType::parse(name))
                .collect(),
            allowed_targets: targets
                .into_iter()
                .filter(|target| named.iter().any(|name| name == target.as_str()))
                .collect(),
            max_repositories: value::integer(text("max_repositories")),
            resource_kinds: value::resources(text("resource_kinds")),
            max_resources_per_repository: value::integer(text("max_resources_per_repository")),
            max_incremental_changes: value::integer(text("max_incremental_changes")),
            min_sync_interval: value::duration(text("min_sync_interval")),
            leader_election: value::switch(text("leader_election")).flatten(),
            allow_image_rendering: value::boolean(text("allow_image_rendering")).unwrap_or_default(),
        }
    }
}
