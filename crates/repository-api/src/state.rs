//! What the handlers share.

use std::sync::Arc;

use kube::Client;
use windlass_api::jobs::JobRules;
use windlass_api::repositories::RepositoryRules;
use windlass_auth::Authorizer;
use windlass_loki::Loki;
use windlass_repository::Opener;
use windlass_resources::Clients;
use windlass_telemetry::Spans;

use crate::webhook::WebhookMetrics;

/// The largest body that is read, in bytes. Grafana's connectors read as much of a job.
pub const BODY_LIMIT: usize = 1024 * 1024;

/// The largest file that is taken or answered, in bytes. Grafana's connectors take as much.
pub const FILE_LIMIT: usize = 5 * 1024 * 1024;

/// Everything that answering needs.
#[derive(Clone)]
pub struct RepositoryApi {
    /// Repositories and jobs.
    pub provisioning: Client,
    /// Secrets that repositories refer to.
    pub core: Client,
    /// Where managed resources are.
    pub resources: Clients,
    /// How a repository's files are reached.
    pub opener: Opener,
    /// Where the records of finished jobs are; API objects when there is none.
    pub loki: Option<Loki>,
    /// What a repository may say.
    pub repository_rules: RepositoryRules,
    /// What a job may say.
    pub job_rules: JobRules,
    /// What callers may do.
    pub access: Arc<dyn Authorizer>,
    /// Whether deliveries of webhooks are accepted that are signed with SHA-1 alone.
    pub accept_sha1: bool,
    /// What is counted of deliveries, where that is wanted.
    pub webhook_metrics: Option<WebhookMetrics>,
    /// Where the spans of deliveries are told.
    pub spans: Spans,
    /// The one namespace that is answered for; all of them when there is none.
    pub namespace: Option<String>,
}
