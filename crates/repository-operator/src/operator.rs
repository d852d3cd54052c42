//! Which tasks the operator consists of: a watch that says which repositories changed, and workers that look at them.

use std::sync::Arc;

use async_trait::async_trait;
use kube::Api;
use tokio_util::sync::CancellationToken;
use windlass_api::{QuotaStatus, Repository};
use windlass_launch::observe_leadership;
use windlass_runtime::{
    BoxError, EventRecorder, LeaderElection, Leadership, Operator, Registry, TermQueue, Watch, WatchConfig,
};

use crate::connections::{self, Connections, ConnectionsOperator, PROVISIONING_CONNECTION};
use crate::controller::Controller;
use crate::lead::{Forwarder, Work};
use crate::memory::Memory;
use crate::metrics::{METER, RepositoryMetrics};
use crate::secrets::{self, SecretChange};
use crate::timing::Timing;

/// Health, syncs and clean-up of repositories.
pub const PROVISIONING_REPO: &str = "provisioning-repo";

/// Who reports the Events.
const REPORTER: &str = "windlass.dev/repository-controller";

/// Adds the operators of this crate to a binary's.
pub fn register(registry: Registry<windlass_launch::Context>) -> Registry<windlass_launch::Context> {
    registry
        .with(PROVISIONING_REPO, || Box::new(Repositories))
        .with(PROVISIONING_CONNECTION, || Box::new(ConnectionsOperator))
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
        let meter = process.metrics.meter(METER);
        if election.is_some() {
            observe_leadership(&meter, &settings.leader_election_name, &leadership);
        }
        let (events, event_writer) =
            EventRecorder::new(REPORTER, process.replica.as_str(), Arc::clone(&process.clock));
        let provisioning = process.settings.provisioning();
        let queue = TermQueue::default();
        let controller = Controller {
            clients: process.clients.clone(),
            resources: process.resources.clone(),
            opener: process.opener.clone(),
            rules: process.repository_rules.clone(),
            limits: QuotaStatus {
                max_repositories: provisioning.max_repositories,
                max_resources_per_repository: provisioning.max_resources_per_repository,
                updated_at: 0,
            },
            timing: Timing {
                min_sync: process.min_sync_interval,
                full_sync: provisioning.full_sync_interval,
                max_repositories: provisioning.max_repositories,
            },
            public_url: settings.provisioning_server_public_url.clone(),
            clock: Arc::clone(&process.clock),
            metrics: RepositoryMetrics::new(
                &process.metrics,
                &watch.store(),
                &queue,
                &events,
                Arc::clone(&process.clock),
            ),
            events,
            store: watch.store(),
            memory: Arc::new(Memory::default()),
            folders: None,
            check_deadline: process.check_deadline,
            parallel: settings.parallel_operations,
            cancel: shutdown.clone(),
        };
        let connection_watch = connections::watch(&process);
        let connections = Arc::new(Connections::new(&process, connection_watch.store(), watch.store()));
        let work = Work {
            connections: Arc::clone(&connections),
            controller,
            leadership,
            workers: settings.worker_count,
            queue,
            watch_folders: settings.local_watch,
        };
        let (forwarder, of_connections) = (work.forwarder(), work.forwarder());
        let (keys, of_secrets) = (Arc::clone(&connections), work.forwarder());
        let (seen, references) = (Arc::clone(&connections), connections);
        let follow = watch.run(process.health.clone(), shutdown.clone(), move |event| {
            references.repository_seen(&event);
            forwarder.forward(event);
        });
        let connection_store = connection_watch.store();
        let follow_connections =
            connection_watch.run(process.health.clone(), shutdown.clone(), move |event| {
                seen.connection_seen(&event);
                if connection_store.is_synced() {
                    of_connections.connection_changed(&event);
                }
            });
        let follow_secrets = follow_secrets(&process, of_secrets, keys);
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
        let write_events = event_writer.run(process.clients.core.clone(), finished.clone());
        tokio::join!(follow, follow_connections, follow_secrets, lead, stand, write_events);
        Ok(())
    }
}

/// Has what names a Secret that changed looked at with it, until the process is told to stop.
fn follow_secrets(
    process: &windlass_launch::Context,
    repositories: Forwarder,
    connections: Arc<Connections>,
) -> impl Future<Output = ()> {
    let watch = secrets::watch(process);
    let known = watch.store();
    watch.run(process.health.clone(), process.supervisor.token().clone(), move |event| {
        let Some(change) = SecretChange::of(&event, &known) else { return };
        repositories.secret_changed(&change);
        for connection in connections.secret_changed(&change) {
            repositories.tokens_wanted(&connection, false);
        }
    })
}
