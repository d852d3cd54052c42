//! The sections, as typed values.

mod commit_tracker;
mod source;

use std::{path::PathBuf, time::Duration};

use secrecy::SecretString;
use windlass_api::{GroupResource, RepositoryType, SyncTarget};

pub use self::commit_tracker::{
    CommitTrackerSettings, ExporterInfoSource, GithubCredentials, HistogramForm, MetricNames, ObserveOnly,
    Scrape, Selection,
};
pub use self::source::{DigestAlgorithm, SourceSettings};
use crate::{
    SettingError,
    forms::{
        Address, AnyDuration, Bool, Choice, Choices, GitServers, List, MANY, Namespace, Number, Origins,
        Path, Paths, PositiveDuration, Resources, Switch, TelemetryMode, Text, Url, Words,
    },
    section::section,
    values::Merged,
};

/// The operators of repositories and jobs.
const EVERY: &[&str] =
    &["provisioning-jobs", "provisioning-jobqueue", "provisioning-repo", "provisioning-connection"];

/// Every section.
#[derive(Clone, Debug)]
pub(crate) struct Sections {
    pub(crate) auth: AuthSettings,
    pub(crate) operator: OperatorSettings,
    pub(crate) provisioning: ProvisioningSettings,
    pub(crate) commit_tracker: CommitTrackerSettings,
    pub(crate) source: SourceSettings,
}

impl Sections {
    /// All of them, or nothing if a value is wrong: every error is told.
    pub(crate) fn read(values: &Merged, errors: &mut Vec<SettingError>) -> Option<Self> {
        let auth = AuthSettings::read(values, errors);
        let operator = OperatorSettings::read(values, errors);
        let provisioning = ProvisioningSettings::read(values, errors);
        let commit_tracker = CommitTrackerSettings::read(values, errors);
        let source = SourceSettings::read(values, errors);
        Some(Self {
            auth: auth?,
            operator: operator?,
            provisioning: provisioning?,
            commit_tracker: commit_tracker?,
            source: source?,
        })
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

impl Words for LogFormat {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("auto", Self::Auto), ("json", Self::Json), ("pretty", Self::Pretty)]
    }
}

section! {
    /// The section `[grpc_client_authentication]`: how operators authenticate.
    "grpc_client_authentication" => AuthSettings {
        /// System token that is presented to the token exchange. Best given as `$__file{/path}`.
        token: SecretString = Text, "" { secret: true, required_for: EVERY };
        /// URL that exchanges the system token for access tokens, for example `http://localhost:6481/sign/access-token`.
        token_exchange_url: String = Url, "" { required_for: EVERY };
    }
}

section! {
    /// The section `[operator]`.
    "operator" => OperatorSettings {
        // Where the API servers are.
        /// API server of repositories and jobs, for example `https://localhost:6446`.
        provisioning_server_url: String = Url, "" { required_for: EVERY };
        /// Public URL of whatever answers `repositories/{name}/webhook`, which providers call; without it remotes are polled.
        provisioning_server_public_url: String = Url, "";
        /// Whether deliveries of webhooks are accepted that are signed with SHA-1 alone, as very old GitHub Enterprise Servers
        /// do it.
        webhook_accept_sha1: bool = Bool, "false";
        /// API server of dashboards; `provisioning_server_url` when empty.
        dashboards_server_url: String = Url, "";
        /// API server of folders; `provisioning_server_url` when empty.
        folders_server_url: String = Url, "";
        /// Kubeconfig to reach the API server with, instead of the URLs and the token exchange; several files, separated by
        /// `:`, are merged as `kubectl` does. Without it and without `provisioning_server_url`: the variable `KUBECONFIG`,
        /// or else, inside a cluster, the pod's service account.
        kubeconfig: Option<PathBuf> = Path, "";
        /// Context of the kubeconfig to use; its `current-context` when empty.
        kubeconfig_context: Option<String> = Text, "" { original: Some("KUBE_CONTEXT") };
        /// The one namespace that is watched and worked in; all when empty, which takes Roles for the whole cluster.
        namespace: Option<String> = Namespace, "" { original: Some("RUNTIME_NAMESPACE") };
        /// Whether any certificate of the API servers is accepted. For development only; `tls_ca_file` is the better way.
        tls_insecure: bool = Bool, "false";
        /// Client certificate, PEM; goes with `tls_key_file`.
        tls_cert_file: Option<PathBuf> = Path, "";
        /// Key of the client certificate, PEM; goes with `tls_cert_file`.
        tls_key_file: Option<PathBuf> = Path, "";
        /// Certificates that the API servers' are checked against, PEM; the system's when empty.
        tls_ca_file: Option<PathBuf> = Path, "";

        // Watches and workers.
        /// How often every object is looked at again although nothing happened.
        resync_interval: Duration = PositiveDuration, "60s";

        // Grafana's is 1, with which one Git server that answers slowly holds up every other repository's health check.
        /// Repositories that are reconciled at a time.
        worker_count: usize = Number<1, 1024>, "10";
        /// Resources that finalizers work on at a time.
        parallel_operations: usize = Number<1, 1024>, "10";

        // Leader election.
        /// Namespace of the Lease; when empty `namespace`, or else the one of the pod or of the kubeconfig's context.
        leader_election_namespace: Option<String> = Namespace, "";
        /// Name of the Lease. Processes that watch the same namespaces need the same one.
        leader_election_name: String = Text, "windlass-provisioning-repo";
        /// How long a Lease that is not seen to change is respected. Another replica takes over after that time at the
        /// latest.
        leader_election_lease_duration: Duration = PositiveDuration, "15s";
        /// How long after its last renewal a leader writes: less than `leader_election_lease_duration`.
        leader_election_renew_deadline: Duration = PositiveDuration, "10s";
        /// How often the Lease is renewed and looked at: at most half of `leader_election_renew_deadline`.
        leader_election_retry_period: Duration = PositiveDuration, "2s";

        // Jobs.
        /// Whether `provisioning-jobs` claims and runs jobs; otherwise it only reaps abandoned jobs and prunes history.
        jobs_processing_enabled: bool = Bool, "true";
        /// How often the queue is looked through beside notifications; 30s when 0.
        job_interval: Duration = AnyDuration, "30s";
        /// Jobs that one process runs at a time.
        concurrent_drivers: usize = Number<1, 1024>, "3";
        /// Changes that one pull applies at a time.
        max_sync_workers: usize = Number<1, 1024>, "10";
        /// Longest time that a job may run.
        max_job_timeout: Duration = PositiveDuration, "20m";
        /// How long a claim that is not renewed keeps a job. All processes that share a queue need the same value.
        lease_expiry: Duration = PositiveDuration, "60s";
        /// How often a claim is renewed: at most a third of `lease_expiry`, and exactly that when it is not set or 0.
        lease_renewal_interval: Duration = AnyDuration, "20s";
        /// How often a job is claimed before it is given up.
        max_attempts: u32 = Number<1, 1000>, "3";
        /// How often abandoned jobs are looked for.
        cleanup_interval: Duration = PositiveDuration, "1m";
        /// Drivers of one process that the jobs of one namespace may take; when 0 all but one, and at least one.
        max_jobs_per_namespace: usize = Number<0, 1024>, "0";
        /// Whether jobs with the action `test` are taken, which wait and do nothing. For development only.
        enable_test_jobs: bool = Bool, "false";
        /// How long the record of a finished job is kept; 0 for no limit.
        history_max_age: Duration = AnyDuration, "336h";
        /// Most records of finished jobs that are kept for one repository, the newest; 0 for no limit.
        history_max_count: usize = Number<0, MANY>, "100";
        /// Most bytes that the records of finished jobs of one repository may have together, the newest are kept; 0 for no
        /// limit.
        history_max_bytes: u64 = Number<0, MANY>, "1048576";
        /// Grafana's name of `history_max_age`, which it stands for when it is above 0 and that key is not set.
        history_expiration: Duration = AnyDuration, "0s";

        // Local repositories.
        /// Folder that relative paths of local repositories start from.
        home_path: Option<PathBuf> = Path, "";
        /// Whether a change in the folder of a local repository brings its next sync at once, at most every ten
        /// seconds. Without, and where folders cannot be watched, syncs follow the interval.
        local_watch: bool = Bool, "true";
        /// Folders that local repositories may be in; none when empty.
        local_permitted_prefixes: Vec<PathBuf> = Paths, "";

        /// Whether each look at a pull request is a comment of its own, as Grafana's is; without, the one comment is
        /// edited.
        pull_request_comment_each: bool = Bool, "false";

        // Git.
        /// Folder of the Git object caches; one in the system's cache folder when empty.
        git_cache_dir: Option<PathBuf> = Path, "";
        /// Origins (`scheme://host:port`, separated by `|`; http, https, ssh, or socks5 of a proxy) of Git servers and of
        /// proxies that may be plain http, private or loopback.
        allowed_git_origins: Vec<String> = Origins, "";
        /// Certificates that Git servers' are checked against beside the system's, PEM.
        git_ca_file: Option<PathBuf> = Path, "";
        /// Proxy (`http://host:port`, `https://…` or `socks5://…`) that the Git servers of repositories and GitHub's API are
        /// asked through; none when empty. Variables such as `HTTPS_PROXY` are not used for Git.
        git_proxy: Option<String> = Text, "";
        /// User that the proxy is shown; nobody when empty.
        git_proxy_user: String = Text, "";
        /// The user's password.
        git_proxy_password: SecretString = Text, "" { secret: true };
        /// Algorithms that SSH servers are offered for the exchange of keys; the usual ones when empty.
        git_ssh_key_exchange_algorithms: Vec<String> = List, "";
        /// Algorithms of the keys of SSH servers, of those that are known; the usual ones when empty.
        git_ssh_host_key_algorithms: Vec<String> = List, "";
        /// Git transfers at a time, and as many readings beside them.
        git_concurrency: usize = Number<1, 1024>, "8";
        /// Most bytes of one Git transfer, and of one file of an artifact.
        git_max_pack_bytes: u64 = Number<1, MANY>, "1073741824";
        /// Most bytes of one file of a repository. A larger one is not read and not written, and a pull names it; an artifact holds it, but for one of a local repository.
        git_max_file_bytes: u64 = Number<1, MANY>, "10485760";
        /// Least bytes a second of a Git transfer, over any half minute, beneath which it is given up; 0 for no limit.
        git_min_throughput: u64 = Number<0, MANY>, "1024";
        /// Requests to one Git host at a time, so that a slow one does not hold up the others. Where jobs are run and this is
        /// not set, fewer than `concurrent_drivers`, and at least one. A job that gets no turn within `git_timeout` goes back
        /// into the queue.
        git_max_requests_per_host: usize = Number<1, 1024>, "4";
        /// Requests a second to one Git host, and to the API of one that has one, over all repositories; 0 for no limit.
        git_requests_per_second: u32 = Number<0, 100_000>, "100";
        /// Requests to one Git host that may go at once after a time without any.
        git_request_burst: u32 = Number<1, 100_000>, "200";
        /// Most files and directories of one repository.
        git_max_files: usize = Number<1, MANY>, "100000";
        /// Longest time until a Git server is connected to.
        git_connect_timeout: Duration = PositiveDuration, "10s";
        /// Longest silence of a Git server.
        git_read_timeout: Duration = PositiveDuration, "30s";
        /// Longest time of a listing of refs, and of a repository's health check.
        git_timeout: Duration = PositiveDuration, "30s";
        /// Longest time of a Git transfer.
        git_fetch_timeout: Duration = PositiveDuration, "10m";

        // The process.
        /// Address that `/metrics`, `/livez` and `/readyz` are served on; off when empty.
        metrics_address: String = Address, "127.0.0.1:3000";
        /// Address that `windlass serve` serves `/metrics`, `/livez` and `/readyz` on; off when empty.
        serve_metrics_address: String = Address, "";
        /// Address that the repository operator answers `repositories/{name}/jobs`, `/test` and `/resources` on, beside a
        /// Kubernetes API server; off when empty.
        repository_api_address: String = Address, "";
        /// Certificate of `repository_api_address`, PEM; read again when it is renewed.
        repository_api_cert_file: Option<PathBuf> = Path, "";
        /// Key of `repository_api_cert_file`, PEM.
        repository_api_key_file: Option<PathBuf> = Path, "";
        /// Whether `repository_api_address` may be plain http on other addresses than loopback: tokens are sent in the
        /// clear.
        repository_api_plain_http: bool = Bool, "false";
        /// Audiences that callers' tokens have to be for; the API server's own when empty.
        repository_api_audiences: Vec<String> = List, "";
        /// Form of the log lines: `auto` is `pretty` (coloured) on a terminal and `json` elsewhere.
        log_format: LogFormat = Choice, "auto";
        /// Least level that is logged, to the output and to a collector: `error`, `warn`, `info`, `debug`, `trace` in any
        /// case, or directives such as `info,windlass_git=debug`.
        log_level: String = Text, "info" { original: Some("LOG_LEVEL") };
        /// Where logs, traces and metrics go beside `/metrics`: `stdout-logs` (logs on standard output), `stdout-all` (all
        /// three there), `otlp` (all three to a collector), `stdout-logs+otlp`, `stdout-all+otlp`.
        telemetry_mode: String = TelemetryMode, "stdout-logs" { original: Some("TELEMETRY_MODE") };
        /// Collector that speaks OTLP, `host:port` or URL; the `OTEL_EXPORTER_OTLP_…` variables when empty, or
        /// else `localhost:4317`.
        telemetry_endpoint: String = Text, "" { original: Some("TELEMETRY_ENDPOINT") };
        /// Whether a collector whose address has no scheme is spoken to without TLS, unless `OTEL_EXPORTER_OTLP_INSECURE`
        /// is `false`. `OTEL_EXPORTER_OTLP_CERTIFICATE` names its authorities, PEM; `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE`
        /// and `_CLIENT_KEY` say who we are.
        telemetry_insecure: bool = Bool, "true" { original: Some("TELEMETRY_INSECURE") };
    }
}

section! {
    /// The section `[provisioning]`: what repositories may be.
    "provisioning" => ProvisioningSettings {
        /// Types that repositories may have.
        repository_types: Vec<RepositoryType> = Choices, "local|github|githubEnterprise|git|bitbucket|gitlab";
        /// Targets that a new repository may have.
        allowed_targets: Vec<SyncTarget> = Choices, "instance|folder|folderless";
        /// Most repositories in a namespace; 0 for no limit.
        max_repositories: i64 = Number<0, MANY>, "0";
        /// Kinds that files may become beside folders and dashboards, such as `configmaps` or `widgets.example.com`. Both
        /// operators need the same list, and a rule for each kind in their Roles.
        resource_kinds: Vec<GroupResource> = Resources, "";
        /// Most resources that a repository may manage; 0 for no limit.
        max_resources_per_repository: i64 = Number<0, MANY>, "0";
        /// Changes beyond which a pull looks at everything; 0 for no limit.
        max_incremental_changes: i64 = Number<0, MANY>, "0";
        /// Shortest time between two looks at a remote.
        min_sync_interval: Duration = PositiveDuration, "1m";
        /// Time after which a pull compares every file with its object and repairs what was changed or deleted by hand,
        /// also where the repository's own interval is longer; 0 for never. Pulls in between look at what changed in Git.
        full_sync_interval: Duration = AnyDuration, "1h";
        /// Git servers that may be private, in Grafana's form (host, host:port or URL); read beside `allowed_git_origins`.
        allowed_git_urls: Vec<String> = GitServers, "";
        /// Grafana Loki, which then keeps the records of finished jobs in the place of API objects; none when empty. `https`,
        /// or `http` on this machine. Every operator and the API server need the same.
        loki_url: String = Url, "";
        /// User of basic authentication at Loki.
        loki_user: String = Text, "";
        /// Password of `loki_user`. Best given as `$__file{/path}`.
        loki_password: SecretString = Text, "" { secret: true };
        /// Tenant at Loki (`X-Scope-OrgID`); none when empty.
        loki_tenant_id: String = Text, "";
        /// Certificates that Loki's is checked against beside the system's, PEM.
        loki_ca_file: Option<PathBuf> = Path, "";
        /// Whether `loki_url` may be plain http on another machine. Credentials are never sent so.
        loki_plain_http: bool = Bool, "false";
        /// How far back finished jobs are looked for at Loki; not more than its `max_query_length`.
        loki_lookback: Duration = PositiveDuration, "720h";
        /// Records of finished jobs that wait in memory while Loki does not take them, up to 32 MiB; further ones are lost,
        /// and counted.
        loki_queue_size: usize = Number<1, 1_000_000>, "5000";
        /// Whether repositories may ask for pictures of dashboards.
        allow_image_rendering: bool = Bool, "false";
        /// Whether one replica of `provisioning-repo` works at a time and the others stand by. `auto`: on a Kubernetes API
        /// server (a kubeconfig, or the pod's service account), and not over a token exchange, where one process is all
        /// that runs.
        leader_election: Option<bool> = Switch, "auto";
    }
}
