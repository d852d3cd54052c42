//! The section `[commit_tracker]`.

use std::time::Duration;

use secrecy::SecretString;

use crate::{
    forms::{Address, Bool, Choice, List, MANY, Namespace, Number, PositiveDuration, Text, Url, Words},
    section::section,
};

/// Which Kustomizations are tracked, within the namespace that is watched or all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// One, by name.
    One {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Those with labels.
    Labels(String),
    /// All.
    All,
}

/// Where an exporter says which commits it exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExporterInfoSource {
    /// In the layer of OCI artifacts, and at GitHub for Git repositories if there are credentials for it.
    Auto,
    /// Nowhere.
    None,
    /// In a layer of the OCI artifact.
    Oci,
    /// In a file of the repository, read at GitHub.
    Github,
}

impl Words for ExporterInfoSource {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("auto", Self::Auto), ("none", Self::None), ("oci", Self::Oci), ("github", Self::Github)]
    }
}

/// Whether nothing is written to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObserveOnly {
    /// Outside a cluster.
    Auto,
    /// Nowhere is anything written.
    True,
    /// What was counted is kept in the cluster.
    False,
}

impl Words for ObserveOnly {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("auto", Self::Auto), ("true", Self::True), ("false", Self::False)]
    }
}

/// Whether `/metrics` shows what was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scrape {
    /// Where it is not pushed.
    Auto,
    /// Also where it is pushed.
    Always,
    /// Never.
    Never,
}

impl Words for Scrape {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)]
    }
}

/// Form in which histograms are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramForm {
    /// Base-2 exponential buckets.
    Exponential,
    /// The buckets of the original's first releases.
    Classic,
}

impl Words for HistogramForm {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("exponential", Self::Exponential), ("classic", Self::Classic)]
    }
}

/// How the names of metrics begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricNames {
    /// `flux-commit-tracker.`, as the original's code has it.
    Code,
    /// `flux_commit_tracker.`, as the original's documents have it.
    Readme,
}

impl Words for MetricNames {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("code", Self::Code), ("readme", Self::Readme)]
    }
}

/// How GitHub is asked.
#[derive(Clone, Debug)]
pub enum GithubCredentials {
    /// With a token.
    Token(SecretString),
    /// As an installation of an App.
    App {
        /// The App's id.
        id: String,
        /// Its private key, PEM.
        private_key: SecretString,
        /// The installation's id.
        installation: String,
    },
}

section! {
    /// The section `[commit_tracker]`.
    "commit_tracker" => CommitTrackerSettings {
        // Which Kustomizations.
        /// Name of the one Kustomization that is tracked, in `[operator] namespace` or else `default`. When empty,
        /// `kube-manifests-NAMESPACE` if `exporter_info` is `github`, and `kube-manifests-oci-NAMESPACE` if not.
        kustomization: Option<String> = Text, "";
        /// Label selector, such as `team=a,tier!=test`: every Kustomization with these labels is tracked, in `[operator]
        /// namespace`, or in all.
        selector: Option<String> = Text, "";
        /// Whether every Kustomization is tracked, in `[operator] namespace`, or in all.
        all: bool = Bool, "false";

        // Where the tracker keeps what it counted.
        /// Whether nothing is written to the cluster, neither a ledger nor a Lease: what is counted ends with the process,
        /// and replicas count the same. `auto`: outside a cluster, so that a tracker on somebody's machine takes nothing
        /// from the one that runs in the cluster.
        observe_only: ObserveOnly = Choice, "auto";
        /// Namespace of the `ConfigMap`s that remember what was counted, and of the Lease; when empty the one of the pod or
        /// of the kubeconfig's context.
        state_namespace: Option<String> = Namespace, "";
        /// Name of the Lease, and beginning of the names of those `ConfigMap`s. Replicas need the same one, trackers of other
        /// Kustomizations another one.
        state_name: String = Text, "flux-commit-tracker";
        /// How long the figures of a Kustomization that was deleted stay on `/metrics`. Pushed ones end once the collector
        /// took them, and after a day, or this time if it is longer, if it does not.
        show_deleted_for: Duration = PositiveDuration, "5m";
        /// Where an exporter says which commits it exported. `none`: nowhere, commits are those of the Git repository itself,
        /// or what an artifact's annotations say. `oci`: in a layer of the OCI artifact. `github`: in a file of the
        /// repository, read at GitHub. `auto`: in the layer for OCI artifacts, and at GitHub for Git repositories if there
        /// are credentials for it.
        exporter_info: ExporterInfoSource = Choice, "auto";
        /// Path of the exporter's file in the repository.
        exporter_info_file: String = Text, "exporter-info.json";
        /// Repository at GitHub that has the exporter's file, `OWNER/NAME`; when empty the one that the source's URL names.
        exporter_info_repository: Option<String> = Text, "";
        /// Media type of the exporter's layer in an OCI artifact.
        exporter_info_media_type: String = Text, "application/vnd.grafana.exporter-info.v1+json";
        /// Whether the Secrets that sources name (`spec.secretRef`, `spec.certSecretRef`) are read, for their Git servers
        /// and registries. Takes the right to get Secrets.
        source_secrets: bool = Bool, "false";
        /// Registries (`host` or `host:port`, separated by `|`) that may be plain http, private or loopback. Git servers:
        /// `[operator] allowed_git_origins`.
        allowed_registries: Vec<String> = List, "";
        /// Most commits that one revision may bring; of more, the newest are counted.
        max_commits: usize = Number<1, 1_000_000>, "10000";
        /// Most bytes of an exporter's file or layer, and of a registry's manifest.
        max_payload_bytes: u64 = Number<1, MANY>, "16777216";
        /// Git servers, registries and GitHub are asked this many questions at a time.
        questions_at_a_time: usize = Number<1, 1024>, "256";

        // GitHub.
        /// Token for GitHub; instead of it the three `github_app` keys.
        github_token: Option<SecretString> = Text, "" { secret: true, original: Some("GITHUB_TOKEN") };
        /// Id of the GitHub App to sign in as; the three `github_app` keys go together.
        github_app_id: Option<String> = Text, "" { original: Some("GITHUB_APP_ID") };
        /// Private key of the GitHub App, PEM.
        github_app_private_key: Option<SecretString> = Text, "" { secret: true, original: Some("GITHUB_APP_PRIVATE_KEY") };
        /// Id of the App's installation.
        github_app_installation_id: Option<String> = Text, "" { original: Some("GITHUB_APP_INSTALLATION_ID") };
        /// API of GitHub; of GitHub Enterprise Server it is `https://HOST/api/v3`.
        github_api_url: String = Url, "https://api.github.com";
        // What is exported.
        /// Form in which histograms are pushed by OTLP. `/metrics` shows classic buckets.
        histograms: HistogramForm = Choice, "exponential";
        /// Beginning of the names of metrics: `flux-commit-tracker.` as the original's code has it, or
        /// `flux_commit_tracker.` as its documents. `/metrics` shows both alike.
        metric_names: MetricNames = Choice, "code";
        /// Whether `/metrics` shows what was counted. `auto`: where it is not pushed by OTLP; whoever collects both ways would
        /// sum it twice. `always`, `never`: whatever is pushed. What the process tells of itself is always shown.
        scrape: Scrape = Choice, "auto";
        /// Address that `/metrics` is served on; off when empty or `0`.
        metrics_address: String = Address, ":8888" { original: Some("METRICS_ADDR") };
        /// Address that `/healthz`, `/livez` and `/readyz` are served on; off when empty or `0`.
        health_address: String = Address, ":9440" { original: Some("HEALTH_ADDR") };
    }
}

impl CommitTrackerSettings {
    /// Which Kustomizations are tracked, of a namespace or of all.
    pub fn selection(&self, namespace: Option<&str>) -> Selection {
        if self.all {
            return Selection::All;
        }
        if let Some(labels) = &self.selector {
            return Selection::Labels(labels.clone());
        }
        let namespace = namespace.unwrap_or("default").to_owned();
        let name = match &self.kustomization {
            Some(name) => name.clone(),
            None if self.exporter_info == ExporterInfoSource::Github => format!("kube-manifests-{namespace}"),
            None => format!("kube-manifests-oci-{namespace}"),
        };
        Selection::One { namespace, name }
    }

    /// Whether nothing is written to the cluster, for a process in one or outside.
    pub fn observes(&self, in_cluster: bool) -> bool {
        match self.observe_only {
            ObserveOnly::Auto => !in_cluster,
            ObserveOnly::True => true,
            ObserveOnly::False => false,
        }
    }

    /// Whether `/metrics` shows what was counted, where it is pushed or not.
    pub fn is_scraped(&self, is_pushed: bool) -> bool {
        match self.scrape {
            Scrape::Auto => !is_pushed,
            Scrape::Always => true,
            Scrape::Never => false,
        }
    }

    /// How GitHub is asked; not at all when nothing is set.
    pub fn github(&self) -> Option<GithubCredentials> {
        if let Some(token) = &self.github_token {
            return Some(GithubCredentials::Token(token.clone()));
        }
        Some(GithubCredentials::App {
            id: self.github_app_id.clone()?,
            private_key: self.github_app_private_key.clone()?,
            installation: self.github_app_installation_id.clone()?,
        })
    }
}
