//! The flags of `source-controller`: those of Flux's, each a setting, so that its Deployment needs another image alone.

use windlass_launch::{CommonFlags, Listener, Listeners, Needs, Start};

/// Flags of the program; each wins over the variables and the settings file.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SourceArgs {
    /// Flags that every program which runs an operator takes.
    #[command(flatten)]
    pub common: CommonFlags,
    /// Where /metrics is served. [default: :8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_addr: Option<String>,
    /// Where /healthz, /livez and /readyz are served. [default: :9440]
    #[arg(long, value_name = "HOST:PORT")]
    pub health_addr: Option<String>,
    /// Where webhooks of `Receiver` objects are taken in, such as :9292. [default: nowhere]
    #[arg(long, value_name = "HOST:PORT")]
    pub receiver_addr: Option<String>,
    /// Whether annotated repositories are published as `ExternalArtifact` objects. [default: false]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub external_artifacts: Option<String>,
    /// Where events are posted to.
    #[arg(long, value_name = "URL")]
    pub events_addr: Option<String>,
    /// The folder of the artifacts. [default: /data]
    #[arg(long, value_name = "FOLDER")]
    pub storage_path: Option<String>,
    /// Where artifacts are served. [default: :9090]
    #[arg(long, value_name = "HOST:PORT")]
    pub storage_addr: Option<String>,
    /// Where consumers reach them. [default: this machine's name]
    #[arg(long, value_name = "HOST")]
    pub storage_adv_addr: Option<String>,
    /// Whether artifacts' metadata has `contentConfigChecksum`, as Flux's older API had it. [default: false]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub content_config_checksum: Option<String>,
    /// Sources that are worked on at a time. [default: 16]
    #[arg(long, value_name = "NUMBER")]
    pub concurrent: Option<String>,
    /// After this time a source is looked at again that waits for another. [default: 30s]
    #[arg(long, value_name = "DURATION")]
    pub requeue_dependency: Option<String>,
    /// How long an artifact stays that was replaced. [default: 1m]
    #[arg(long, value_name = "DURATION")]
    pub artifact_retention_ttl: Option<String>,
    /// How many artifacts of a source stay. [default: 2]
    #[arg(long, value_name = "NUMBER")]
    pub artifact_retention_records: Option<String>,
    /// How digests are made: sha256, sha384, sha512 or blake3. [default: sha256]
    #[arg(long, value_name = "NAME")]
    pub artifact_digest_algo: Option<String>,
    /// Intervals vary by this share. [default: 5]
    #[arg(long, value_name = "PERCENT")]
    pub interval_jitter_percentage: Option<String>,
    /// Delay after a first failure. [default: 750ms]
    #[arg(long, value_name = "DURATION")]
    pub min_retry_delay: Option<String>,
    /// Delay after many failures. [default: 15m]
    #[arg(long, value_name = "DURATION")]
    pub max_retry_delay: Option<String>,
    /// Whether one of several replicas is elected to write. [default: true]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub enable_leader_election: Option<String>,
    /// Only sources with these labels are worked on.
    #[arg(long, value_name = "LABELS")]
    pub watch_label_selector: Option<String>,
    /// Only of Secrets with these labels changes are noticed at once.
    #[arg(long, value_name = "LABELS")]
    pub watch_configs_label_selector: Option<String>,
    /// Whether a source is looked at as soon as a Secret changed that it names. [default: true]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub watch_secrets: Option<String>,
    /// Whether sources of all namespaces are worked on, or those of `RUNTIME_NAMESPACE`. [default: true]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub watch_all_namespaces: Option<String>,
    /// The least level that is logged: trace, debug, info, warn or error. [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// The form of log lines: json or console. [default: json]
    #[arg(long, value_name = "FORM")]
    pub log_encoding: Option<String>,
    /// Algorithms that SSH servers are offered for the exchange of keys, separated by commas. [default: the usual ones]
    #[arg(long, value_name = "NAMES")]
    pub ssh_kex_algos: Option<String>,
    /// Algorithms of SSH servers' keys that are taken, separated by commas. [default: the usual ones]
    #[arg(long, value_name = "NAMES")]
    pub ssh_hostkey_algos: Option<String>,
    /// An origin (scheme://host:port) of a Git server that may be plain http, private or local; may be given again.
    #[arg(long, value_name = "ORIGIN")]
    pub allow_git_origin: Vec<String>,
    /// How long a Lease is good for that is not renewed.
    #[arg(long, value_name = "DURATION")]
    pub leader_election_lease_duration: Option<String>,
    /// How long the leader tries to renew it.
    #[arg(long, value_name = "DURATION")]
    pub leader_election_renew_deadline: Option<String>,
    /// How often it is tried for.
    #[arg(long, value_name = "DURATION")]
    pub leader_election_retry_period: Option<String>,
    #[command(flatten)]
    ignored_flags: IgnoredFlags,
}

/// Flags of Flux's for what there is not here, or goes by itself. They are taken, so that its Deployment needs another image
/// alone, and told in a line of log each.
#[derive(Clone, Debug, Default, clap::Args)]
struct IgnoredFlags {
    #[arg(long, hide = true)]
    helm_index_max_size: Option<String>,
    #[arg(long, hide = true)]
    helm_chart_max_size: Option<String>,
    #[arg(long, hide = true)]
    helm_chart_file_max_size: Option<String>,
    #[arg(long, hide = true)]
    helm_cache_max_size: Option<String>,
    #[arg(long, hide = true)]
    helm_cache_ttl: Option<String>,
    #[arg(long, hide = true)]
    helm_cache_purge_interval: Option<String>,
    #[arg(long, hide = true)]
    token_cache_max_size: Option<String>,
    #[arg(long, hide = true)]
    token_cache_max_duration: Option<String>,
    #[arg(long, hide = true)]
    default_service_account: Option<String>,
    #[arg(long, hide = true)]
    kube_api_qps: Option<String>,
    #[arg(long, hide = true)]
    kube_api_burst: Option<String>,
    #[arg(long, hide = true)]
    feature_gates: Option<String>,
    #[arg(long, hide = true, num_args = 0..=1, default_missing_value = "true")]
    leader_election_release_on_cancel: Option<String>,
}

impl IgnoredFlags {
    /// A line for each that was given.
    fn notices(&self) -> Vec<String> {
        let helm = "charts are not made here";
        let tokens = "tokens of Apps are kept for as long as they are good";
        let clouds = "identities of clouds are not known here";
        let calls = "calls are not throttled by a rate";
        let all = [
            ("helm-index-max-size", &self.helm_index_max_size, helm),
            ("helm-chart-max-size", &self.helm_chart_max_size, helm),
            ("helm-chart-file-max-size", &self.helm_chart_file_max_size, helm),
            ("helm-cache-max-size", &self.helm_cache_max_size, helm),
            ("helm-cache-ttl", &self.helm_cache_ttl, helm),
            ("helm-cache-purge-interval", &self.helm_cache_purge_interval, helm),
            ("token-cache-max-size", &self.token_cache_max_size, tokens),
            ("token-cache-max-duration", &self.token_cache_max_duration, tokens),
            ("default-service-account", &self.default_service_account, clouds),
            ("kube-api-qps", &self.kube_api_qps, calls),
            ("kube-api-burst", &self.kube_api_burst, calls),
            ("feature-gates", &self.feature_gates, "there are none"),
            (
                "leader-election-release-on-cancel",
                &self.leader_election_release_on_cancel,
                "the Lease is always given back",
            ),
        ];
        let given = all.into_iter().filter(|(_, value, _)| value.is_some());
        given.map(|(flag, _, why)| format!("--{flag} changes nothing: {why}")).collect()
    }
}

impl From<SourceArgs> for Start {
    fn from(args: SourceArgs) -> Self {
        // As Flux's reads them where no flag is given.
        let or = |flag: Option<String>, name: &str| {
            flag.or_else(|| std::env::var(name).ok().filter(|value| !value.is_empty()))
        };
        let origins = (!args.allow_git_origin.is_empty()).then(|| args.allow_git_origin.join("|"));
        let only_own = args.watch_all_namespaces.as_deref() == Some("false");
        let namespace = std::env::var("RUNTIME_NAMESPACE").ok().filter(|_| only_own);
        let form = args.log_encoding.map(|form| if form == "console" { "pretty".to_owned() } else { form });
        let own = |key, value| ("source", key, value);
        let start = args.common.start([
            ("operator", "namespace", namespace),
            ("operator", "log_level", args.log_level),
            ("operator", "log_format", form),
            ("operator", "allowed_git_origins", origins),
            ("operator", "git_ssh_key_exchange_algorithms", args.ssh_kex_algos),
            ("operator", "git_ssh_host_key_algorithms", args.ssh_hostkey_algos),
            own("metrics_address", or(args.metrics_addr, "METRICS_ADDR")),
            own("health_address", args.health_addr),
            own("receiver_address", args.receiver_addr),
            own("external_artifacts", args.external_artifacts),
            own("events_address", or(args.events_addr, "EVENTS_ADDR")),
            own("storage_path", or(args.storage_path, "STORAGE_PATH")),
            own("storage_address", or(args.storage_addr, "STORAGE_ADDRESS")),
            own("storage_advertised_address", or(args.storage_adv_addr, "STORAGE_ADV_ADDR")),
            own("concurrent", args.concurrent),
            own("requeue_dependency", args.requeue_dependency),
            own("artifact_retention_ttl", args.artifact_retention_ttl),
            own("artifact_retention_records", args.artifact_retention_records),
            own("artifact_digest_algorithm", args.artifact_digest_algo),
            own("content_config_checksum", args.content_config_checksum),
            own("interval_jitter_percentage", args.interval_jitter_percentage),
            own("min_retry_delay", args.min_retry_delay),
            own("max_retry_delay", args.max_retry_delay),
            own("leader_election", args.enable_leader_election),
            own("watch_label_selector", args.watch_label_selector),
            own("watch_configs_label_selector", args.watch_configs_label_selector),
            own("watch_secrets", args.watch_secrets),
            ("operator", "leader_election_lease_duration", args.leader_election_lease_duration),
            ("operator", "leader_election_renew_deadline", args.leader_election_renew_deadline),
            ("operator", "leader_election_retry_period", args.leader_election_retry_period),
        ]);
        Self { notices: args.ignored_flags.notices(), ..start }
    }
}

/// What the operator needs of its process: a Kubernetes API server, and the two addresses of Flux's.
pub fn needs() -> Needs {
    Needs {
        kubernetes: true,
        listeners: |settings| {
            let source = settings.source();
            Listeners {
                metrics: Listener {
                    address: source.metrics_address.clone(),
                    setting: "--metrics-addr, or [source] metrics_address,",
                },
                health: Some(Listener {
                    address: source.health_address.clone(),
                    setting: "--health-addr, or [source] health_address,",
                }),
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use windlass_settings::{Settings, Sources};

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        source: SourceArgs,
    }

    #[test]
    fn the_arguments_of_fluxs_deployment_are_settings() {
        let arguments = [
            "source-controller",
            "--events-addr=http://notification-controller.flux-system.svc.cluster.local./",
            "--watch-all-namespaces=true",
            "--log-level=info",
            "--log-encoding=json",
            "--enable-leader-election",
            "--storage-path=/data",
            "--storage-adv-addr=source-controller.flux-system.svc.cluster.local.",
            "--concurrent=10",
            "--requeue-dependency=5s",
            "--ssh-kex-algos=curve25519-sha256,ecdh-sha2-nistp256",
            "--ssh-hostkey-algos=ssh-ed25519",
            "--leader-election-lease-duration=35s",
            "--leader-election-release-on-cancel",
            "--kube-api-qps=50",
            "--feature-gates=CacheSecretsAndConfigMaps=true",
            "--helm-cache-max-size=0",
        ];
        let start = Start::from(Program::parse_from(arguments).source);
        assert_eq!(start.notices.len(), 4, "{:#?}", start.notices);
        assert!(start.notices.iter().any(|it| it.starts_with("--kube-api-qps changes nothing")));
        let operator = Some(crate::SOURCE_CONTROLLER.to_owned());
        let settings =
            Settings::load(Sources { config: None, env: Vec::new(), flags: start.settings, operator })
                .unwrap();
        let source = settings.source();
        assert_eq!(source.storage_advertised_address, "source-controller.flux-system.svc.cluster.local.");
        assert_eq!((source.concurrent, source.leader_election), (10, true));
        assert_eq!((&*source.metrics_address, &*source.health_address), ("[::]:8080", "[::]:9440"));
        assert_eq!(settings.operator().namespace, None);
        let exchange = ["curve25519-sha256", "ecdh-sha2-nistp256"];
        assert_eq!(settings.operator().git_ssh_key_exchange_algorithms, exchange);
        assert_eq!(settings.operator().git_ssh_host_key_algorithms, ["ssh-ed25519"]);
    }
}
