//! Which tasks the operator consists of: a watch that says which repositories changed, and workers that look at them.

use std::sync::Arc;

use async_trait::async_trait;
use kube::Api;
use tokio_util::sync::CancellationToken;
use windlass_api::{QuotaStatus, Repository};
use windlass_launch::observe_leadership;
use windlass_runtime::{BoxError, LeaderElection, Leadership, Operator, Registry, Watch, WatchConfig};

use crate::lead::{Current, Work};
use crate::metrics::RepositoryMetrics;
use crate::queued::Queued;
use crate::reconcile::Context;

/// Health, syncs and clean-up of repositories.
pub const PROVISIONING_REPO: &str = "provisioning-repo";

/// Adds the operator of this crate to a binary's.
pub fn register(registry: Registry<windlass_launch::Context>) -> Registry<windlass_launch::Context> {
    registry.with(PROVISIONING_REPO, || Box::new(Repositories))
}

/// The operator.
pub struct Repositories;

#[async_trait]
impl Operator<windlass_launch::Context> for Repositories {
    fn name(&self) -> &'static str {
        PROVISIONING_REPO
    }

    async fn run(self: Box<Self>, process: Arc<windlass_launch::Context>) -> Result<(), BoxError> {
        crate::api::serve(&process).await?;
        let settings = process.settings.operator();
        let shutdown = process.supervisor.token().clone();
        let api: Api<Repository> = process.scope.api(process.clients.provisioning.clone());
        let config =
            WatchConfig { resync: Some(settings.resync_interval), ..WatchConfig::new("repositories") };
        let watch = Watch::new(api, config);
        let election = process.election()?;
        let leadership = election.as_ref().map_or_else(Leadership::always, LeaderElection::leadership);
        let meter = process.metrics.meter("repositories");
        if election.is_some() {
            observe_leadership(&meter, &settings.leader_election_name, &leadership);
        }
        let context = Context {
            clients: process.clients.clone(),
            resources: process.resources.clone(),
            sources: process.sources.clone(),
            rules: process.repository_rules.clone(),
            limits: QuotaStatus {
                max_repositories: process.settings.provisioning().max_repositories,
                max_resources_per_repository: process.settings.provisioning().max_resources_per_repository,
                updated_at: 0,
            },
            clock: Arc::clone(&process.clock),
            metrics: RepositoryMetrics::new(&meter, &watch.store()),
            store: watch.store(),
            queued: Arc::new(Queued::default()),
            check_deadline: process.check_deadline,
            min_sync_interval: process.min_sync_interval,
            parallel: settings.parallel_operations,
            cancel: shutdown.clone(),
        };
        let work = Work { context, leadership, workers: settings.worker_count, current: Current::default() };
        let told = work.teller();
        let follow = watch.run(process.health.clone(), shutdown.clone(), move |event| told.tell(event));
        tracing::info!(
            logger = "provisioning-repository-controller",
            workers = settings.worker_count,
            scope = %process.scope,
            leader_election = election.is_some(),
            "repository operator started"
        );
        // The Lease is kept until the last pass has ended.
        let finished = CancellationToken::new();
        let stand = async {
            if let Some(election) = election {
                election.run(process.health.clone(), finished.clone()).await;
            }
        };
        let lead = async {
            work.run(&shutdown).await;
            finished.cancel();
        };
        tokio::join!(follow, lead, stand);
        Ok(())
    }
}
