//! The flags of `flux-commit-tracker`: those of its original, and those that are new. Each is a setting.

use windlass_launch::{CommonFlags, Listener, Listeners, Needs, Start};

/// Flags of the program; each wins over the variables and the settings file.
#[derive(Clone, Debug, Default, clap::Args)]
#[expect(clippy::doc_markdown, reason = "the comments are the help: variables stand in it as they are typed")]
pub struct TrackerArgs {
    /// Flags that every program which runs an operator takes.
    #[command(flatten)]
    pub common: CommonFlags,
    /// The context of the kubeconfig; without one, the pod's service account is used inside a cluster. [env: KUBE_CONTEXT]
    #[arg(long, value_name = "NAME")]
    pub kube_context: Option<String>,
    /// Where /metrics is served. [env: METRICS_ADDR] [default: :8888]
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_addr: Option<String>,
    /// Where /healthz, /livez and /readyz are served. [env: HEALTH_ADDR] [default: :9440]
    #[arg(long, value_name = "HOST:PORT")]
    pub health_addr: Option<String>,
    /// Where telemetry goes: stdout-logs, stdout-all, stdout-logs+otlp, stdout-all+otlp, or otlp. [env: TELEMETRY_MODE]
    /// [default: stdout-logs]
    #[arg(long, value_name = "MODE")]
    pub telemetry_mode: Option<String>,
    /// The collector, which speaks OTLP. [env: TELEMETRY_ENDPOINT] [default: localhost:4317]
    #[arg(long, value_name = "HOST:PORT")]
    pub telemetry_endpoint: Option<String>,
    /// Speak to the collector without TLS. [env: TELEMETRY_INSECURE] [default: true]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub telemetry_insecure: Option<String>,
    /// The least level that is logged: trace, debug, info, warn or error. [env: LOG_LEVEL] [default: info]
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// The one Kustomization to track. [default: kube-manifests-oci-NAMESPACE, with --exporter-info=github
    /// kube-manifests-NAMESPACE]
    #[arg(long, value_name = "NAME")]
    pub kustomization: Option<String>,
    /// Track every Kustomization with these labels, such as team=a,tier!=test.
    #[arg(long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Track every Kustomization, of --namespace or of all.
    #[arg(long)]
    pub all: bool,
    /// Where an exporter says which commits it exported: auto, none, oci or github. [default: auto]
    #[arg(long, value_name = "WHERE")]
    pub exporter_info: Option<String>,
    /// The exporter's file in the repository. [default: exporter-info.json]
    #[arg(long, value_name = "PATH")]
    pub exporter_info_file: Option<String>,
    /// The repository at GitHub that has that file. [default: the one of the source's URL]
    #[arg(long, value_name = "OWNER/NAME")]
    pub exporter_info_repository: Option<String>,
    /// The media type of the exporter's layer in an artifact.
    #[arg(long, value_name = "TYPE")]
    pub exporter_info_media_type: Option<String>,
    /// How histograms are pushed: exponential or classic. [default: exponential]
    #[arg(long, value_name = "FORM")]
    pub histograms: Option<String>,
    /// How names of metrics begin: code (flux-commit-tracker.) or readme (flux_commit_tracker.). [default: code]
    #[arg(long, value_name = "SPELLING")]
    pub metric_names: Option<String>,
    /// Write nothing to the cluster: what is counted ends with the process. [default: true outside a cluster]
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub observe_only: Option<String>,
    /// Whether /metrics shows what was counted: auto (where it is not pushed), always or never. [default: auto]
    #[arg(long, value_name = "WHEN")]
    pub scrape: Option<String>,
    /// Token for GitHub, of the original's first generation. [env: GITHUB_TOKEN]
    #[arg(long, hide = true, value_name = "TOKEN")]
    pub github_token: Option<String>,
    /// Id of the GitHub App, of the original's first generation. [env: GITHUB_APP_ID]
    #[arg(long, hide = true, value_name = "ID")]
    pub github_app_id: Option<String>,
    /// The App's private key, PEM. [env: GITHUB_APP_PRIVATE_KEY]
    #[arg(long, hide = true, value_name = "PEM")]
    pub github_app_private_key: Option<String>,
    /// Id of the App's installation. [env: GITHUB_APP_INSTALLATION_ID]
    #[arg(long, hide = true, value_name = "ID")]
    pub github_app_installation_id: Option<String>,
    /// Read the Secrets that sources name, for their Git servers and registries.
    #[arg(long)]
    pub source_secrets: bool,
    /// An origin (scheme://host:port) of a Git server that may be plain http, private or local; may be given again.
    #[arg(long, value_name = "ORIGIN")]
    pub allow_git_origin: Vec<String>,
    /// A registry (host or host:port) that may be plain http, private or local; may be given again.
    #[arg(long, value_name = "HOST")]
    pub allow_registry: Vec<String>,
    /// The namespace of the tracker's state and Lease. [default: the pod's, or the context's]
    #[arg(long, value_name = "NAME")]
    pub state_namespace: Option<String>,
}

impl From<TrackerArgs> for Start {
    fn from(args: TrackerArgs) -> Self {
        let set = |given: bool| given.then(|| "true".to_owned());
        let list = |items: Vec<String>| (!items.is_empty()).then(|| items.join("|"));
        let own = |key, value| ("commit_tracker", key, value);
        args.common.start([
            ("operator", "kubeconfig_context", args.kube_context),
            ("operator", "telemetry_mode", args.telemetry_mode),
            ("operator", "telemetry_endpoint", args.telemetry_endpoint),
            ("operator", "telemetry_insecure", args.telemetry_insecure),
            ("operator", "log_level", args.log_level),
            ("operator", "allowed_git_origins", list(args.allow_git_origin)),
            own("metrics_address", args.metrics_addr),
            own("health_address", args.health_addr),
            own("kustomization", args.kustomization),
            own("selector", args.selector),
            own("all", set(args.all)),
            own("exporter_info", args.exporter_info),
            own("exporter_info_file", args.exporter_info_file),
            own("exporter_info_repository", args.exporter_info_repository),
            own("exporter_info_media_type", args.exporter_info_media_type),
            own("histograms", args.histograms),
            own("metric_names", args.metric_names),
            own("observe_only", args.observe_only),
            own("scrape", args.scrape),
            own("github_token", args.github_token),
            own("github_app_id", args.github_app_id),
            own("github_app_private_key", args.github_app_private_key),
            own("github_app_installation_id", args.github_app_installation_id),
            own("source_secrets", set(args.source_secrets)),
            own("allowed_registries", list(args.allow_registry)),
            own("state_namespace", args.state_namespace),
        ])
    }
}

/// What the tracker needs of its process: a Kubernetes API server, and the two addresses of the original.
pub fn needs() -> Needs {
    Needs {
        kubernetes: true,
        listeners: |settings| {
            let tracker = settings.commit_tracker();
            Listeners {
                metrics: Listener {
                    address: tracker.metrics_address.clone(),
                    setting: "--metrics-addr, or METRICS_ADDR,",
                },
                health: Some(Listener {
                    address: tracker.health_address.clone(),
                    setting: "--health-addr, or HEALTH_ADDR,",
                }),
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use windlass_settings::{GithubCredentials, Selection, Settings, Sources};

    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        tracker: TrackerArgs,
    }

    fn settings(arguments: &[&str]) -> Settings {
        let name = crate::FLUX_COMMIT_TRACKER;
        let flags = Start::from(Program::parse_from([&[name], arguments].concat()).tracker).settings;
        let operator = Some(name.to_owned());
        Settings::load(Sources { config: None, env: Vec::new(), flags, operator }).unwrap()
    }

    #[test]
    fn every_flag_of_the_original_is_a_setting() {
        let flags = "--kube-context=kind --metrics-addr=:1 --health-addr=:2 --telemetry-mode=stdout-all+otlp \
            --telemetry-endpoint=collector:4317 --telemetry-insecure=false --log-level=trace --github-app-id=1 \
            --github-app-private-key=k --github-app-installation-id=2";
        let app = settings(&flags.split_whitespace().collect::<Vec<_>>());
        let (operator, tracker) = (app.operator(), app.commit_tracker());
        assert_eq!(operator.kubeconfig_context.as_deref(), Some("kind"));
        assert_eq!((&*tracker.metrics_address, &*tracker.health_address), ("[::]:1", "[::]:2"));
        assert_eq!((&*operator.telemetry_mode, &*operator.log_level), ("stdout-all+otlp", "trace"));
        assert_eq!((&*operator.telemetry_endpoint, operator.telemetry_insecure), ("collector:4317", false));
        assert!(matches!(tracker.github(), Some(GithubCredentials::App { .. })));
        let token = settings(&["--github-token=t"]).commit_tracker().github();
        assert!(matches!(token, Some(GithubCredentials::Token(_))));
    }

    #[test]
    fn outside_a_cluster_nothing_is_written_unless_asked_for() {
        let observes =
            |flags: &[&str]| [false, true].map(|inside| settings(flags).commit_tracker().observes(inside));
        assert_eq!(observes(&[]), [true, false]);
        assert_eq!(observes(&["--observe-only"]), [true; 2]);
        assert_eq!(observes(&["--observe-only=false"]), [false; 2]);
    }

    #[test]
    fn what_is_not_said_is_as_it_was_and_what_is_said_wins() {
        let first = settings(&["--log-level=debug"]);
        assert_eq!(first.operator().telemetry_mode, "stdout-logs");
        assert_eq!(first.commit_tracker().metrics_address, "[::]:8888");
        let flags =
            ["--all", "--namespace=apps", "--allow-registry=a:1", "--metrics-addr=0", "--health-addr=0"];
        let all = settings(&flags);
        let tracker = all.commit_tracker();
        assert_eq!((&*tracker.metrics_address, &*tracker.health_address), ("", ""));
        assert_eq!(tracker.selection(Some("apps")), Selection::All);
        assert_eq!(all.operator().namespace.as_deref(), Some("apps"));
        assert_eq!(tracker.allowed_registries, ["a:1"]);
    }
}
