//! The section `[commit_tracker]`.

use std::time::Duration;

use secrecy::SecretString;

use crate::{load::Values, value};

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

/// Whether artifacts that Flux skipped are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkippedArtifacts {
    /// Unless something says that there are none.
    Auto,
    /// Whatever says so.
    Always,
    /// Never.
    Never,
}

/// Form in which histograms are pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistogramForm {
    /// Base-2 exponential buckets.
    Exponential,
    /// The buckets of the original's first releases.
    Classic,
}

/// How the names of metrics begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricNames {
    /// `flux-commit-tracker.`, as the original's code has it.
    Code,
    /// `flux_commit_tracker.`, as the original's documents have it.
    Readme,
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

/// The section `[commit_tracker]`.
#[derive(Clone, Debug)]
pub struct CommitTrackerSettings {
    /// Which Kustomizations are tracked.
    pub selection: Selection,
    /// Namespace of the state and of the Lease; the client's own when not set.
    pub state_namespace: Option<String>,
    /// Name of the Lease, and beginning of the names of the state.
    pub state_name: String,
    /// How long figures of deleted Kustomizations are shown.
    pub show_deleted_for: Duration,
    /// Where an exporter says which commits it exported.
    pub exporter_info: ExporterInfoSource,
    /// Path of the exporter's file in the repository.
    pub exporter_info_file: String,
    /// Repository at GitHub that has the file, `OWNER/NAME`; the source's own when not set.
    pub exporter_info_repository: Option<String>,
    /// Media type of the exporter's layer.
    pub exporter_info_media_type: String,
    /// Whether artifacts that Flux skipped are looked for.
    pub skipped_artifacts: SkippedArtifacts,
    /// Whether the Secrets of sources are read.
    pub source_secrets: bool,
    /// Registries that may be plain http, private or loopback.
    pub allowed_registries: Vec<String>,
    /// Most commits that one revision may bring.
    pub max_commits: usize,
    /// Most bytes of a payload or manifest.
    pub max_payload_bytes: u64,
    /// Questions that are asked at a time.
    pub questions_at_a_time: usize,
    /// How GitHub is asked; not at all when not set.
    pub github: Option<GithubCredentials>,
    /// API of GitHub.
    pub github_api_url: String,
    /// Form of pushed histograms.
    pub histograms: HistogramForm,
    /// How the names of metrics begin.
    pub metric_names: MetricNames,
    /// Address of `/metrics`; off when empty.
    pub metrics_address: String,
    /// Address of the probes; off when empty.
    pub health_address: String,
}

impl CommitTrackerSettings {
    /// From values that have been checked.
    pub(crate) fn new(values: &Values) -> Self {
        let text = |key| values.text("commit_tracker", key);
        let string = |key| text(key).to_owned();
        let some = |key| Some(string(key)).filter(|text| !text.is_empty());
        let boolean = |key| value::boolean(text(key)).unwrap_or_default();
        let number = |key| value::integer(text(key));
        let address = |key| value::address(text(key)).unwrap_or_default();
        let exporter_info = match text("exporter_info") {
            "none" => ExporterInfoSource::None,
            "oci" => ExporterInfoSource::Oci,
            "github" => ExporterInfoSource::Github,
            _ => ExporterInfoSource::Auto,
        };
        let github = github(values);
        let at_github = match exporter_info {
            ExporterInfoSource::Github => true,
            ExporterInfoSource::Auto => github.is_some(),
            ExporterInfoSource::None | ExporterInfoSource::Oci => false,
        };
        Self {
            selection: selection(values, at_github),
            state_namespace: some("state_namespace"),
            state_name: string("state_name"),
            show_deleted_for: value::duration(text("show_deleted_for")),
            exporter_info,
            exporter_info_file: string("exporter_info_file"),
            exporter_info_repository: some("exporter_info_repository"),
            exporter_info_media_type: string("exporter_info_media_type"),
            skipped_artifacts: match text("skipped_artifacts") {
                "always" => SkippedArtifacts::Always,
                "never" => SkippedArtifacts::Never,
                _ => SkippedArtifacts::Auto,
            },
            source_secrets: boolean("source_secrets"),
            allowed_registries: value::list(text("allowed_registries")),
            max_commits: usize::try_from(number("max_commits")).unwrap_or(1),
            max_payload_bytes: u64::try_from(number("max_payload_bytes")).unwrap_or(1),
            questions_at_a_time: usize::try_from(number("questions_at_a_time")).unwrap_or(1),
            github,
            github_api_url: string("github_api_url"),
            histograms: match text("histograms") {
                "classic" => HistogramForm::Classic,
                _ => HistogramForm::Exponential,
            },
            metric_names: match text("metric_names") {
                "readme" => MetricNames::Readme,
                _ => MetricNames::Code,
            },
            metrics_address: address("metrics_address"),
            health_address: address("health_address"),
        }
    }
}

fn selection(values: &Values, at_github: bool) -> Selection {
    let text = |key| values.text("commit_tracker", key);
    if value::boolean(text("all")).unwrap_or_default() {
        return Selection::All;
    }
    if !text("selector").is_empty() {
        return Selection::Labels(text("selector").to_owned());
    }
    let namespace = Some(values.text("operator", "namespace")).filter(|name| !name.is_empty());
    let namespace = namespace.unwrap_or("default").to_owned();
    let name = match text("kustomization") {
        "" if at_github => format!("kube-manifests-{namespace}"),
        "" => format!("kube-manifests-oci-{namespace}"),
        name => name.to_owned(),
    };
    Selection::One { namespace, name }
}

fn github(values: &Values) -> Option<GithubCredentials> {
    let text = |key| values.text("commit_tracker", key).to_owned();
    let (token, id) = (text("github_token"), text("github_app_id"));
    if !token.is_empty() {
        return Some(GithubCredentials::Token(token.into()));
    }
    (!id.is_empty()).then(|| GithubCredentials::App {
        id,
        private_key: text("github_app_private_key").into(),
        installation: text("github_app_installation_id"),
    })
}
