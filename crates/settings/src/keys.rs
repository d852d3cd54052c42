//! The table of every key.

mod commit_tracker;

/// Sections in which an unknown key is an error. Sections whose name begins with `windlass` are ours as well.
pub const OWNED_SECTIONS: [&str; 4] =
    ["operator", "grpc_client_authentication", "provisioning", "commit_tracker"];

/// Whether an unknown key in a section is an error.
pub(crate) fn is_owned(section: &str) -> bool {
    OWNED_SECTIONS.contains(&section) || section == "windlass" || section.starts_with("windlass.")
}

/// One key of the configuration.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// Section of the ini file.
    pub section: &'static str,
    /// Name inside the section.
    pub key: &'static str,
    /// What the value has to look like.
    pub kind: Kind,
    /// Value when nothing says otherwise.
    pub default: &'static str,
    /// What the value does.
    pub description: &'static str,
    /// Whether the value is never shown.
    pub secret: bool,
    /// Operators that do not start without a value.
    pub required_for: &'static [&'static str],
    /// Whether the key is only accepted, so that an existing file starts.
    pub unused: bool,
    /// The variable by which grafana/flux-commit-tracker knows it. It is read where [`COMMIT_TRACKER`] is what runs.
    pub original: Option<&'static str>,
}

impl Key {
    /// The environment variable that overrides the key.
    pub fn variable(&self) -> String {
        variable(self.section, self.key)
    }
}

/// `GF_<SECTION>_<KEY>`, with `.` and `-` as `_`.
pub(crate) fn variable(section: &str, key: &str) -> String {
    format!("GF_{section}_{key}").to_ascii_uppercase().replace(['.', '-'], "_")
}

/// What a value has to look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`, in any of the spellings that Grafana reads.
    Bool,
    /// A whole number from the first to the second.
    Integer(i64, i64),
    /// A duration as Go writes it, not below zero.
    Duration,
    /// A duration above zero.
    PositiveDuration,
    /// A path; empty for none.
    Path,
    /// Paths, separated by `|`.
    Paths,
    /// Texts, separated by `|` (or commas, which Grafana uses for some).
    List,
    /// An http or https URL; empty for none.
    Url,
    /// Origins `scheme://host:port`, separated by `|`.
    Origins,
    /// `host:port`; empty for none.
    Address,
    /// `auto`, or a truth value.
    Switch,
    /// A name that Kubernetes takes for a namespace; empty for none.
    Namespace,
    /// One of some words.
    Choice(&'static [&'static str]),
    /// Resources with their groups that repositories may write, separated by `|`.
    Resources,
    /// Some of some words, separated by `|`.
    Choices(&'static [&'static str]),
}

/// The operator that also reads the variables of grafana/flux-commit-tracker.
pub const COMMIT_TRACKER: &str = "flux-commit-tracker";
const JOBS: &str = "provisioning-jobs";
const QUEUE: &str = "provisioning-jobqueue";
const REPO: &str = "provisioning-repo";
const EVERY: &[&str] = &[JOBS, QUEUE, REPO];
const MANY: i64 = 1 << 40;

const fn key(
    section: &'static str,
    key: &'static str,
    kind: Kind,
    default: &'static str,
    description: &'static str,
) -> Key {
    Key {
        section,
        key,
        kind,
        default,
        description,
        secret: false,
        required_for: &[],
        unused: false,
        original: None,
    }
}

const fn required(mut key: Key, operators: &'static [&'static str]) -> Key {
    key.required_for = operators;
    key
}

const fn secret(mut key: Key) -> Key {
    key.secret = true;
    key
}

const fn original(mut key: Key, variable: &'static str) -> Key {
    key.original = Some(variable);
    key
}

const fn unused(section: &'static str, name: &'static str, kind: Kind, default: &'static str) -> Key {
    let mut key =
        key(section, name, kind, default, "Accepted so that a file written for Grafana starts; not used.");
    key.unused = true;
    key
}

/// The telemetry modes, as the telemetry crate names them.
pub const TELEMETRY_MODES: [&str; 5] =
    ["stdout-logs", "stdout-all", "stdout-logs+otlp", "stdout-all+otlp", "otlp"];

/// Types of repositories, as the wire names them.
pub(crate) const REPOSITORY_TYPES: &[&str] =
    &["local", "github", "githubEnterprise", "git", "bitbucket", "gitlab"];
/// Targets of repositories, as the wire names them.
pub(crate) const TARGETS: &[&str] = &["instance", "folder", "folderless"];

const AUTH: &str = "grpc_client_authentication";
const OP: &str = "operator";
const PROV: &str = "provisioning";

/// Every key, by section.
pub const KEYS: &[Key] = &joined();

const fn joined() -> [Key; COMMON.len() + commit_tracker::KEYS.len()] {
    let mut all = [COMMON[0]; COMMON.len() + commit_tracker::KEYS.len()];
    let mut index = 0;
    while index < all.len() {
        all[index] =
            if index < COMMON.len() { COMMON[index] } else { commit_tracker::KEYS[index - COMMON.len()] };
        index += 1;
    }
    all
}

/// The keys of the sections that are not one operator's own.
const COMMON: &[Key] = &[
    secret(required(
        key(
            AUTH,
            "token",
            Kind::Text,
            "",
            "System token that is presented to the token exchange. Best given as `$__file{/path}`.",
        ),
        EVERY,
    )),
    required(
        key(
            AUTH,
            "token_exchange_url",
            Kind::Url,
            "",
            "URL that exchanges the system token for access tokens, for example `http://localhost:6481/sign/access-token`.",
        ),
        EVERY,
    ),
    unused(AUTH, "token_namespace", Kind::Text, ""),
    // Where the API servers are.
    required(
        key(
            OP,
            "provisioning_server_url",
            Kind::Url,
            "",
            "API server of repositories and jobs, for example `https://localhost:6446`.",
        ),
        EVERY,
    ),
    key(
        OP,
        "provisioning_server_public_url",
        Kind::Url,
        "",
        "Public URL of the provisioning server, which providers' webhooks call; without it remotes are polled.",
    ),
    key(
        OP,
        "dashboards_server_url",
        Kind::Url,
        "",
        "API server of dashboards; `provisioning_server_url` when empty.",
    ),
    key(
        OP,
        "folders_server_url",
        Kind::Url,
        "",
        "API server of folders; `provisioning_server_url` when empty.",
    ),
    unused(OP, "folders_api_version", Kind::Text, ""),
    key(
        OP,
        "kubeconfig",
        Kind::Path,
        "",
        "Kubeconfig to reach the API server with, instead of the URLs and the token exchange; several files, separated by `:`, are merged as `kubectl` does. Without it and without `provisioning_server_url`: the variable `KUBECONFIG`, or else, inside a cluster, the pod's service account.",
    ),
    original(
        key(
            OP,
            "kubeconfig_context",
            Kind::Text,
            "",
            "Context of the kubeconfig to use; its `current-context` when empty.",
        ),
        "KUBE_CONTEXT",
    ),
    original(
        key(
            OP,
            "namespace",
            Kind::Namespace,
            "",
            "The one namespace that is watched and worked in; all when empty, which takes Roles for the whole cluster.",
        ),
        "RUNTIME_NAMESPACE",
    ),
    key(
        OP,
        "tls_insecure",
        Kind::Bool,
        "false",
        "Whether any certificate of the API servers is accepted. For development only; `tls_ca_file` is the better way.",
    ),
    key(OP, "tls_cert_file", Kind::Path, "", "Client certificate, PEM; goes with `tls_key_file`."),
    key(OP, "tls_key_file", Kind::Path, "", "Key of the client certificate, PEM; goes with `tls_cert_file`."),
    key(
        OP,
        "tls_ca_file",
        Kind::Path,
        "",
        "Certificates that the API servers' are checked against, PEM; the system's when empty.",
    ),
    // Watches and workers.
    key(
        OP,
        "resync_interval",
        Kind::PositiveDuration,
        "60s",
        "How often every object is looked at again although nothing happened.",
    ),
    // Grafana's is 1, with which one Git server that answers slowly holds up every other repository's health check.
    key(OP, "worker_count", Kind::Integer(1, 1024), "10", "Repositories that are reconciled at a time."),
    key(
        OP,
        "parallel_operations",
        Kind::Integer(1, 1024),
        "10",
        "Resources that finalizers work on at a time.",
    ),
    // Leader election.
    key(
        OP,
        "leader_election_namespace",
        Kind::Namespace,
        "",
        "Namespace of the Lease; when empty `namespace`, or else the one of the pod or of the kubeconfig's context.",
    ),
    key(
        OP,
        "leader_election_name",
        Kind::Text,
        "windlass-provisioning-repo",
        "Name of the Lease. Processes that watch the same namespaces need the same one.",
    ),
    key(
        OP,
        "leader_election_lease_duration",
        Kind::PositiveDuration,
        "15s",
        "How long a Lease that is not seen to change is respected. Another replica takes over after that time at the latest.",
    ),
    key(
        OP,
        "leader_election_renew_deadline",
        Kind::PositiveDuration,
        "10s",
        "How long after its last renewal a leader writes: less than `leader_election_lease_duration`.",
    ),
    key(
        OP,
        "leader_election_retry_period",
        Kind::PositiveDuration,
        "2s",
        "How often the Lease is renewed and looked at: at most half of `leader_election_renew_deadline`.",
    ),
    // Jobs.
    unused(OP, "jobs_enabled", Kind::Bool, "true"),
    unused(OP, "jobqueue_enabled", Kind::Bool, "true"),
    key(
        OP,
        "jobs_processing_enabled",
        Kind::Bool,
        "true",
        "Whether `provisioning-jobs` claims and runs jobs; otherwise it only reaps abandoned jobs and prunes history.",
    ),
    key(
        OP,
        "job_interval",
        Kind::Duration,
        "30s",
        "How often the queue is looked through beside notifications; 30s when 0.",
    ),
    key(OP, "concurrent_drivers", Kind::Integer(1, 1024), "3", "Jobs that one process runs at a time."),
    key(OP, "max_sync_workers", Kind::Integer(1, 1024), "10", "Changes that one pull applies at a time."),
    key(OP, "max_job_timeout", Kind::PositiveDuration, "20m", "Longest time that a job may run."),
    key(
        OP,
        "lease_expiry",
        Kind::PositiveDuration,
        "60s",
        "How long a claim that is not renewed keeps a job. All processes that share a queue need the same value.",
    ),
    key(
        OP,
        "lease_renewal_interval",
        Kind::Duration,
        "20s",
        "How often a claim is renewed: at most a third of `lease_expiry`, and exactly that when it is not set or 0.",
    ),
    key(OP, "max_attempts", Kind::Integer(1, 1000), "3", "How often a job is claimed before it is given up."),
    key(OP, "cleanup_interval", Kind::PositiveDuration, "1m", "How often abandoned jobs are looked for."),
    key(
        OP,
        "history_expiration",
        Kind::Duration,
        "0s",
        "How long the record of a finished job is kept; 0 for ever.",
    ),
    // Local repositories.
    key(OP, "home_path", Kind::Path, "", "Folder that relative paths of local repositories start from."),
    key(
        OP,
        "local_permitted_prefixes",
        Kind::Paths,
        "",
        "Folders that local repositories may be in; none when empty.",
    ),
    // Git.
    key(
        OP,
        "git_cache_dir",
        Kind::Path,
        "",
        "Folder of the Git object caches; one in the system's cache folder when empty.",
    ),
    key(
        OP,
        "allowed_git_origins",
        Kind::Origins,
        "",
        "Origins (`scheme://host:port`, separated by `|`) of Git servers that may be plain http, private or loopback.",
    ),
    key(
        OP,
        "git_ca_file",
        Kind::Path,
        "",
        "Certificates that Git servers' are checked against beside the system's, PEM.",
    ),
    key(
        OP,
        "git_concurrency",
        Kind::Integer(1, 1024),
        "8",
        "Git transfers at a time, and as many readings beside them.",
    ),
    key(OP, "git_max_pack_bytes", Kind::Integer(1, MANY), "1073741824", "Most bytes of one Git transfer."),
    key(OP, "git_max_blob_bytes", Kind::Integer(1, MANY), "10485760", "Most bytes of one file."),
    key(
        OP,
        "git_max_files",
        Kind::Integer(1, MANY),
        "100000",
        "Most files and directories of one repository.",
    ),
    key(
        OP,
        "git_connect_timeout",
        Kind::PositiveDuration,
        "10s",
        "Longest time until a Git server is connected to.",
    ),
    key(OP, "git_read_timeout", Kind::PositiveDuration, "30s", "Longest silence of a Git server."),
    key(
        OP,
        "git_timeout",
        Kind::PositiveDuration,
        "30s",
        "Longest time of a listing of refs, and of a repository's health check.",
    ),
    key(OP, "git_fetch_timeout", Kind::PositiveDuration, "10m", "Longest time of a Git transfer."),
    // The process.
    key(
        OP,
        "metrics_address",
        Kind::Address,
        "127.0.0.1:3000",
        "Address that `/metrics`, `/livez` and `/readyz` are served on; off when empty.",
    ),
    key(
        OP,
        "repository_api_address",
        Kind::Address,
        "",
        "Address that the repository operator answers `repositories/{name}/jobs`, `/test` and `/resources` on, beside a Kubernetes API server; off when empty.",
    ),
    key(
        OP,
        "repository_api_cert_file",
        Kind::Text,
        "",
        "Certificate of `repository_api_address`, PEM; read again when it is renewed.",
    ),
    key(OP, "repository_api_key_file", Kind::Text, "", "Key of `repository_api_cert_file`, PEM."),
    key(
        OP,
        "repository_api_plain_http",
        Kind::Bool,
        "false",
        "Whether `repository_api_address` may be plain http on other addresses than loopback: tokens are sent in the clear.",
    ),
    key(
        OP,
        "repository_api_audiences",
        Kind::List,
        "",
        "Audiences that callers' tokens have to be for; the API server's own when empty.",
    ),
    key(
        OP,
        "log_format",
        Kind::Choice(&["auto", "json", "pretty"]),
        "auto",
        "Form of the log lines: `auto` is `pretty` (coloured) on a terminal and `json` elsewhere.",
    ),
    original(
        key(
            OP,
            "log_level",
            Kind::Text,
            "info",
            "Least level that is logged, to the output and to a collector: `error`, `warn`, `info`, `debug`, `trace` in any case, or directives such as `info,windlass_git=debug`.",
        ),
        "LOG_LEVEL",
    ),
    original(
        key(
            OP,
            "telemetry_mode",
            Kind::Choice(&TELEMETRY_MODES),
            "stdout-logs",
            "Where logs, traces and metrics go beside `/metrics`: `stdout-logs` (logs on standard output), `stdout-all` (all three there), `otlp` (all three to a collector), `stdout-logs+otlp`, `stdout-all+otlp`.",
        ),
        "TELEMETRY_MODE",
    ),
    original(
        key(
            OP,
            "telemetry_endpoint",
            Kind::Text,
            "",
            "Collector that speaks OTLP over gRPC, `host:port` or URL; the `OTEL_EXPORTER_OTLP_…` variables when empty, or else `localhost:4317`.",
        ),
        "TELEMETRY_ENDPOINT",
    ),
    original(
        key(
            OP,
            "telemetry_insecure",
            Kind::Bool,
            "true",
            "Whether a collector whose address has no scheme is spoken to without TLS, unless `OTEL_EXPORTER_OTLP_INSECURE` is `false`. `OTEL_EXPORTER_OTLP_CERTIFICATE` names its authorities, PEM; `OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE` and `_CLIENT_KEY` say who we are.",
        ),
        "TELEMETRY_INSECURE",
    ),
    // What repositories may be.
    key(
        PROV,
        "repository_types",
        Kind::Choices(REPOSITORY_TYPES),
        "local|github|githubEnterprise|git|bitbucket|gitlab",
        "Types that repositories may have.",
    ),
    key(
        PROV,
        "allowed_targets",
        Kind::Choices(TARGETS),
        "instance|folder|folderless",
        "Targets that a new repository may have.",
    ),
    key(
        PROV,
        "max_repositories",
        Kind::Integer(0, MANY),
        "0",
        "Most repositories in a namespace; 0 for no limit.",
    ),
    key(
        PROV,
        "resource_kinds",
        Kind::Resources,
        "",
        "Kinds that files may become beside folders and dashboards, such as `configmaps` or `widgets.example.com`. Both operators need the same list, and a rule for each kind in their Roles.",
    ),
    key(
        PROV,
        "max_resources_per_repository",
        Kind::Integer(0, MANY),
        "0",
        "Most resources that a repository may manage; 0 for no limit.",
    ),
    key(
        PROV,
        "max_incremental_changes",
        Kind::Integer(0, MANY),
        "0",
        "Changes beyond which a pull looks at everything; 0 for no limit.",
    ),
    key(
        PROV,
        "min_sync_interval",
        Kind::PositiveDuration,
        "1m",
        "Shortest time between two looks at a remote.",
    ),
    key(
        PROV,
        "allowed_git_urls",
        Kind::List,
        "",
        "Git servers that may be private, in Grafana's form (host, host:port or URL); read beside `allowed_git_origins`.",
    ),
    key(
        PROV,
        "allow_image_rendering",
        Kind::Bool,
        "false",
        "Whether repositories may ask for pictures of dashboards.",
    ),
    key(
        PROV,
        "leader_election",
        Kind::Switch,
        "auto",
        "Whether one replica of `provisioning-repo` works at a time and the others stand by. `auto`: on a Kubernetes API server (a kubeconfig, or the pod's service account), and not over a token exchange, where one process is all that runs.",
    ),
    unused(PROV, "disable_controllers", Kind::Bool, "false"),
    unused(PROV, "loki_url", Kind::Text, ""),
    unused(PROV, "loki_user", Kind::Text, ""),
    secret(unused(PROV, "loki_password", Kind::Text, "")),
    unused(PROV, "loki_tenant_id", Kind::Text, ""),
    // What Grafana's operators need and ours do not.
    unused("secrets_manager", "grpc_server_address", Kind::Text, ""),
    unused("secrets_manager", "grpc_server_use_tls", Kind::Bool, "true"),
    unused("secrets_manager", "grpc_server_tls_ca_file", Kind::Path, ""),
    unused("secrets_manager", "grpc_server_tls_server_name", Kind::Text, ""),
    unused("secrets_manager", "grpc_server_tls_skip_verify", Kind::Bool, "false"),
    unused("secrets_manager", "grpc_client_load_balancing", Kind::Bool, "false"),
    unused("unified_storage", "grpc_address", Kind::Text, ""),
    unused("unified_storage", "grpc_index_address", Kind::Text, ""),
    unused("unified_storage", "allow_insecure", Kind::Bool, "false"),
    unused("unified_storage", "audiences", Kind::List, ""),
];

/// Position of a key in the table.
pub(crate) fn position(section: &str, key: &str) -> Option<usize> {
    KEYS.iter().position(|known| known.section == section && known.key == key)
}

/// The known key of a section that is most like a name, if any is like it at all.
pub(crate) fn nearest(section: &str, name: &str) -> Option<&'static str> {
    KEYS.iter()
        .filter(|known| known.section == section)
        .map(|known| (strsim::jaro_winkler(known.key, &name.to_ascii_lowercase()), known.key))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, key)| key)
}
