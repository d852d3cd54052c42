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
}

impl From<SourceArgs> for Start {
    fn from(args: SourceArgs) -> Self {
        let origins = (!args.allow_git_origin.is_empty()).then(|| args.allow_git_origin.join("|"));
        let only_own = args.watch_all_namespaces.as_deref() == Some("false");
        let namespace = std::env::var("RUNTIME_NAMESPACE").ok().filter(|_| only_own);
        let form = args.log_encoding.map(|form| if form == "console" { "pretty".to_owned() } else { form });
        let own = |key, value| ("source", key, value);
        args.common.start([
            ("operator", "namespace", namespace),
            ("operator", "log_level", args.log_level),
            ("operator", "log_format", form),
            ("operator", "allowed_git_origins", origins),
            ("operator", "git_ssh_key_exchange_algorithms", args.ssh_kex_algos),
            ("operator", "git_ssh_host_key_algorithms", args.ssh_hostkey_algos),
            own("metrics_address", args.metrics_addr),
            own("health_address", args.health_addr),
            own("receiver_address", args.receiver_addr),
            own("external_artifacts", args.external_artifacts),
            own("events_address", args.events_addr),
            own("storage_path", args.storage_path),
            own("storage_address", args.storage_addr),
            own("storage_advertised_address", args.storage_adv_addr),
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
        ])
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
        ];
        let start = Start::from(Program::parse_from(arguments).source);
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
