//! The keys of the commit tracker.

use super::{Key, Kind, MANY, key, original, secret};

const CT: &str = "commit_tracker";

/// The section `[commit_tracker]`.
pub(super) const KEYS: &[Key] = &[
    // Which Kustomizations.
    key(
        CT,
        "kustomization",
        Kind::Text,
        "",
        "Name of the one Kustomization that is tracked, in `[operator] namespace` or else `default`. When empty, `kube-manifests-NAMESPACE` if commits are looked up at GitHub, and `kube-manifests-oci-NAMESPACE` if not.",
    ),
    key(
        CT,
        "selector",
        Kind::Text,
        "",
        "Label selector, such as `team=a,tier!=test`: every Kustomization with these labels is tracked, in `[operator] namespace`, or in all.",
    ),
    key(
        CT,
        "all",
        Kind::Bool,
        "false",
        "Whether every Kustomization is tracked, in `[operator] namespace`, or in all.",
    ),
    // Where the tracker keeps what it counted.
    key(
        CT,
        "state_namespace",
        Kind::Namespace,
        "",
        "Namespace of the ConfigMaps that remember what was counted, and of the Lease; when empty the one of the pod or of the kubeconfig's context.",
    ),
    key(
        CT,
        "state_name",
        Kind::Text,
        "flux-commit-tracker",
        "Name of the Lease, and beginning of the names of those ConfigMaps. Replicas need the same one, trackers of other Kustomizations another one.",
    ),
    key(
        CT,
        "show_deleted_for",
        Kind::PositiveDuration,
        "5m",
        "How long the figures of a Kustomization that was deleted stay on `/metrics`. Pushed ones end once the collector took them, and after this time if it does not.",
    ),
    // How commits are found.
    key(
        CT,
        "exporter_info",
        Kind::Choice(&["auto", "none", "oci", "github"]),
        "auto",
        "Where an exporter says which commits it exported. `none`: nowhere, commits are those of the Git repository itself, or what an artifact's annotations say. `oci`: in a layer of the OCI artifact. `github`: in a file of the repository, read at GitHub. `auto`: in the layer for OCI artifacts, and at GitHub for Git repositories if there are credentials for it.",
    ),
    key(
        CT,
        "exporter_info_file",
        Kind::Text,
        "exporter-info.json",
        "Path of the exporter's file in the repository.",
    ),
    key(
        CT,
        "exporter_info_repository",
        Kind::Text,
        "",
        "Repository at GitHub that has the exporter's file, `OWNER/NAME`; when empty the one that the source's URL names.",
    ),
    key(
        CT,
        "exporter_info_media_type",
        Kind::Text,
        "application/vnd.grafana.exporter-info.v1+json",
        "Media type of the exporter's layer in an OCI artifact.",
    ),
    key(
        CT,
        "skipped_artifacts",
        Kind::Choice(&["auto", "always", "never"]),
        "auto",
        "Whether artifacts that Flux skipped are looked for by the tags of the registry, or else in the Git repository that artifacts name. `auto`: unless the payload's `previous_commit`, or tags that are neighbours (`1.4.2`, `1.4.3`), say that there are none; a tag that moves costs one request for the list with each revision, and one for each new tag. `always`: between neighbours, too. `never`: two requests for each revision, and what was skipped may be missing.",
    ),
    key(
        CT,
        "source_secrets",
        Kind::Bool,
        "false",
        "Whether the Secrets that sources name (`spec.secretRef`, `spec.certSecretRef`) are read, for their Git servers and registries. Takes the right to get Secrets.",
    ),
    key(
        CT,
        "allowed_registries",
        Kind::List,
        "",
        "Registries (`host` or `host:port`, separated by `|`) that may be plain http, private or loopback. Git servers: `[operator] allowed_git_origins`.",
    ),
    key(
        CT,
        "max_commits",
        Kind::Integer(1, 1_000_000),
        "10000",
        "Most commits that one revision may bring; of more, the newest are counted.",
    ),
    key(
        CT,
        "max_payload_bytes",
        Kind::Integer(1, MANY),
        "16777216",
        "Most bytes of an exporter's file or layer, and of a registry's manifest.",
    ),
    key(
        CT,
        "questions_at_a_time",
        Kind::Integer(1, 1024),
        "256",
        "Git servers, registries and GitHub are asked this many questions at a time.",
    ),
    // GitHub.
    original(
        secret(key(
            CT,
            "github_token",
            Kind::Text,
            "",
            "Token for GitHub; instead of it the three `github_app` keys.",
        )),
        "GITHUB_TOKEN",
    ),
    original(
        key(
            CT,
            "github_app_id",
            Kind::Text,
            "",
            "Id of the GitHub App to sign in as; the three `github_app` keys go together.",
        ),
        "GITHUB_APP_ID",
    ),
    original(
        secret(key(CT, "github_app_private_key", Kind::Text, "", "Private key of the GitHub App, PEM.")),
        "GITHUB_APP_PRIVATE_KEY",
    ),
    original(
        key(CT, "github_app_installation_id", Kind::Text, "", "Id of the App's installation."),
        "GITHUB_APP_INSTALLATION_ID",
    ),
    key(
        CT,
        "github_api_url",
        Kind::Url,
        "https://api.github.com",
        "API of GitHub; of GitHub Enterprise Server it is `https://HOST/api/v3`.",
    ),
    // What is told.
    key(
        CT,
        "histograms",
        Kind::Choice(&["exponential", "classic"]),
        "exponential",
        "Form in which histograms are pushed by OTLP. `/metrics` shows classic buckets.",
    ),
    key(
        CT,
        "metric_names",
        Kind::Choice(&["code", "readme"]),
        "code",
        "Beginning of the names of metrics: `flux-commit-tracker.` as the original's code has it, or `flux_commit_tracker.` as its documents. `/metrics` shows both alike.",
    ),
    original(
        key(
            CT,
            "metrics_address",
            Kind::Address,
            ":8888",
            "Address that `/metrics` is served on; off when empty.",
        ),
        "METRICS_ADDR",
    ),
    original(
        key(
            CT,
            "health_address",
            Kind::Address,
            ":9440",
            "Address that `/healthz`, `/livez` and `/readyz` are served on; off when empty.",
        ),
        "HEALTH_ADDR",
    ),
];
