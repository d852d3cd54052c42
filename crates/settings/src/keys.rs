//! All keys, and which others are accepted.

use crate::{
    key::Key,
    sections::{AuthSettings, CommitTrackerSettings, OperatorSettings, ProvisioningSettings, SourceSettings},
};

/// The operator that also reads the variables of grafana/flux-commit-tracker.
pub const COMMIT_TRACKER: &str = "flux-commit-tracker";

/// The operators that run jobs.
pub(crate) const JOBS: [&str; 2] = ["provisioning-jobs", "provisioning-jobqueue"];

/// Keys that are accepted so that a file written for Grafana starts, and mean nothing here.
pub(crate) const UNUSED: &[(&str, &[&str])] = &[
    ("grpc_client_authentication", &["token_namespace"]),
    ("operator", &["folders_api_version", "jobs_enabled", "jobqueue_enabled"]),
    ("provisioning", &["disable_controllers"]),
    (
        "secrets_manager",
        &[
            "grpc_server_address",
            "grpc_server_use_tls",
            "grpc_server_tls_ca_file",
            "grpc_server_tls_server_name",
            "grpc_server_tls_skip_verify",
            "grpc_client_load_balancing",
        ],
    ),
    ("unified_storage", &["grpc_address", "grpc_index_address", "allow_insecure", "audiences"]),
];

/// Every key that means something, by section.
pub(crate) fn keys() -> impl Iterator<Item = &'static Key> {
    [
        AuthSettings::KEYS,
        OperatorSettings::KEYS,
        ProvisioningSettings::KEYS,
        CommitTrackerSettings::KEYS,
        SourceSettings::KEYS,
    ]
    .into_iter()
    .flatten()
}

/// The key of this name.
pub(crate) fn find(section: &str, key: &str) -> Option<&'static Key> {
    keys().find(|known| known.section == section && known.name == key)
}

/// Whether a key is accepted and means nothing.
pub(crate) fn is_unused(section: &str, key: &str) -> bool {
    UNUSED.iter().any(|(known, keys)| *known == section && keys.contains(&key))
}

/// Whether an unknown key in a section is an error.
pub(crate) fn is_owned(section: &str) -> bool {
    section == "windlass" || section.starts_with("windlass.") || keys().any(|key| key.section == section)
}

/// The known key of a section that is most like a name, if any is like it at all.
pub(crate) fn nearest(section: &str, name: &str) -> Option<&'static str> {
    keys()
        .filter(|known| known.section == section)
        .map(|known| (strsim::jaro_winkler(known.name, &name.to_ascii_lowercase()), known.name))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, key)| key)
}
