//! The section `[source]`.

use std::time::Duration;

use crate::{
    forms::{Address, Bool, Choice, Number, PositiveDuration, Text, Words},
    section::section,
};

/// How digests of artifacts are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DigestAlgorithm {
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
    /// BLAKE3.
    Blake3,
}

impl Words for DigestAlgorithm {
    fn words() -> Vec<(&'static str, Self)> {
        vec![
            ("sha256", Self::Sha256),
            ("sha384", Self::Sha384),
            ("sha512", Self::Sha512),
            ("blake3", Self::Blake3),
        ]
    }
}

section! {
    /// The section `[source]`.
    "source" => SourceSettings {
        /// Folder that artifacts are kept in; made when it is not there. Replicas may share it.
        storage_path: String = Text, "/data";
        /// Address that artifacts are served on.
        storage_address: String = Address, ":9090";
        /// `host`, `host:port` or URL under which consumers reach the artifacts; when empty the address that they are served
        /// on, with this machine's name for all addresses.
        storage_advertised_address: String = Text, "";
        /// How long an artifact stays that is not the current one any more.
        artifact_retention_ttl: Duration = PositiveDuration, "1m";
        /// How many artifacts of one source stay, the current one included.
        artifact_retention_records: usize = Number<1, 1_000>, "2";
        /// How digests of artifacts are made.
        artifact_digest_algorithm: DigestAlgorithm = Choice, "sha256";
        /// Whether the metadata of artifacts has `contentConfigChecksum`, which the status of Flux's older API had.
        content_config_checksum: bool = Bool, "false";
        /// Whether symbolic links that lead to something within the archive are in it; all others are left out, as Flux leaves
        /// all of them out. All replicas have to agree; what there is is packed anew with the next revision.
        keep_symlinks: bool = Bool, "false";
        /// Sources that are worked on at a time.
        concurrent: usize = Number<1, 1_024>, "16";
        /// After this time a source is looked at again that waits for another one. A change of that one makes it sooner.
        requeue_dependency: Duration = PositiveDuration, "30s";
        /// Intervals are this share, in percent, shorter or longer at random.
        interval_jitter_percentage: u32 = Number<0, 99>, "5";
        /// Delay after a first failure; it grows with each one in a row.
        min_retry_delay: Duration = PositiveDuration, "750ms";
        /// Delay after many failures.
        max_retry_delay: Duration = PositiveDuration, "15m";
        /// Branch of a source that names none; when empty the default branch of its repository.
        default_branch: Option<String> = Text, "";
        /// URL that events are posted to, such as Flux's notification controller; nowhere when empty.
        events_address: Option<String> = Text, "";
        /// Label selector, such as `sharding.fluxcd.io/key=a`: only these sources are worked on.
        watch_label_selector: Option<String> = Text, "";
        /// Whether a source is looked at as soon as a Secret changed that it names. That takes the right to list and watch
        /// Secrets; without, a change is noticed at the next interval.
        watch_secrets: bool = Bool, "true";
        /// Label selector: only of Secrets with these labels changes are noticed at once; of all when empty.
        watch_configs_label_selector: Option<String> = Text, "";
        /// Whether one of several replicas is elected to write; the others serve. Without, there may be one.
        leader_election: bool = Bool, "true";
        /// Address that webhooks of `Receiver` objects are taken in at; when empty none are, and no receiver is looked at.
        receiver_address: String = Address, "";
        /// Whether repositories that carry the annotation `windlass.dev/external-artifact` are published as `ExternalArtifact`
        /// objects of the name that it says.
        external_artifacts: bool = Bool, "false";
        /// Name of the Lease; a label selector makes it another one.
        leader_election_name: String = Text, "windlass-source-controller";
        /// Address that `/metrics` is served on; off when empty.
        metrics_address: String = Address, ":8080";
        /// Address that `/healthz`, `/livez` and `/readyz` are served on; off when empty.
        health_address: String = Address, ":9440";
    }
}
