//! What access to Git works under.

use std::path::PathBuf;
use std::sync::Arc;

use windlass_http_client::Rate;

use crate::metrics::GitMetrics;
use crate::{Deadlines, Limits, SshAlgorithms, UrlPolicy};

/// What a [`Git`](crate::Git) works under.
#[derive(Clone, Debug)]
pub struct GitConfig {
    /// Where object caches live, one folder each. Everything in it can be deleted while nothing runs.
    pub cache_dir: PathBuf,
    /// Which URLs may be used, and which addresses connected to.
    pub policy: UrlPolicy,
    /// How much is accepted.
    pub limits: Limits,
    /// How long is waited.
    pub deadlines: Deadlines,
    /// Blocking calls at a time: as many transfers, and beside them as many readings.
    pub concurrency: usize,
    /// Requests to one host (scheme, name and port) at a time: a slow one cannot take all transfers.
    pub requests_per_host: usize,
    /// Requests to one host a second.
    pub rate_per_host: Rate,
    /// PEM certificates that are trusted beside the system's.
    pub ca_bundle: Option<PathBuf>,
    /// What SSH servers are offered.
    pub ssh: SshAlgorithms,
    /// Where it is told what remotes cost, if that is wanted.
    pub metrics: Option<Arc<GitMetrics>>,
}

impl GitConfig {
    /// The defaults: public https only, 4 transfers at a time and as many requests to a host.
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            policy: UrlPolicy::default(),
            limits: Limits::default(),
            deadlines: Deadlines::default(),
            concurrency: 4,
            requests_per_host: 4,
            rate_per_host: Rate::UNLIMITED,
            ca_bundle: None,
            ssh: SshAlgorithms::default(),
            metrics: None,
        }
    }
}
