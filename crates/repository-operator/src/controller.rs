//! What every pass uses.

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use tokio_util::sync::CancellationToken;
use windlass_api::repositories::RepositoryRules;
use windlass_api::{Job, QuotaStatus, Repository};
use windlass_auth::ApiClients;
use windlass_repository::Opener;
use windlass_resources::Clients;
use windlass_runtime::{CallOptions, Clock, EventRecorder, Store};

use crate::folders::Folders;
use crate::memory::Memory;
use crate::metrics::RepositoryMetrics;
use crate::timing::Timing;

/// Calls to the API. What does not succeed is tried again by the next pass.
pub(crate) const CALL: CallOptions = CallOptions::new(Duration::from_secs(15));

/// The clients, settings and memory of a process's passes over repositories.
#[derive(Clone)]
pub(crate) struct Controller {
    /// They write while this process leads only.
    pub(crate) clients: ApiClients,
    pub(crate) resources: Clients,
    pub(crate) opener: Opener,
    pub(crate) rules: RepositoryRules,
    /// How many there may be; when that was looked up is not filled in.
    pub(crate) limits: QuotaStatus,
    pub(crate) timing: Timing,
    /// The URL that providers reach this server at; empty when there is none.
    pub(crate) public_url: String,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) store: Store<Repository>,
    pub(crate) metrics: RepositoryMetrics,
    pub(crate) events: EventRecorder,
    pub(crate) memory: Arc<Memory>,
    /// Of the term that goes on; none while this process stands by, or where settings say so.
    pub(crate) folders: Option<Arc<Folders>>,
    /// The most time that a check may take.
    pub(crate) check_deadline: Duration,
    /// Requests at a time while resources are removed or released.
    pub(crate) parallel: usize,
    /// Cancelled when passes shall stop.
    pub(crate) cancel: CancellationToken,
}

impl Controller {
    /// The repositories of the namespace that this one is in.
    pub(crate) fn repositories(&self, repository: &Repository) -> Api<Repository> {
        Api::namespaced(self.clients.provisioning.clone(), namespace(repository))
    }

    /// The jobs of the namespace that this repository is in.
    pub(crate) fn jobs(&self, repository: &Repository) -> Api<Job> {
        Api::namespaced(self.clients.provisioning.clone(), namespace(repository))
    }
}

pub(crate) fn name(repository: &Repository) -> &str {
    repository.metadata.name.as_deref().unwrap_or_default()
}

pub(crate) fn namespace(repository: &Repository) -> &str {
    repository.metadata.namespace.as_deref().unwrap_or_default()
}
