//! Which tasks the operator consists of: a watch that says which repositories changed, and workers that look at them.

use std::sync::Arc;

use async_trait::async_trait;
use kube::Api;
use windlass_api::Repository;
use windlass_runtime::{
    BackoffPolicy, BoxError, Event, KeyedQueue, ObjectKey, Operator, Registry, Watch, WatchConfig, run_keyed,
};

use crate::metrics::RepositoryMetrics;
use crate::queued::Queued;
use crate::reconcile::{Context, reconcile};

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
        let settings = process.settings.operator();
        let shutdown = process.supervisor.token().clone();
        let api: Api<Repository> = process.scope.api(process.clients.provisioning.clone());
        let config =
            WatchConfig { resync: Some(settings.resync_interval), ..WatchConfig::new("repositories") };
        let watch = Watch::new(api, config);
        let context = Arc::new(Context {
            clients: process.clients.clone(),
            resources: process.resources.clone(),
            sources: process.sources.clone(),
            rules: process.repository_rules.clone(),
            clock: Arc::clone(&process.clock),
            metrics: RepositoryMetrics::new(&process.metrics.meter("repositories"), &watch.store()),
            store: watch.store(),
            queued: Queued::default(),
            check_deadline: process.check_deadline,
            min_sync_interval: process.min_sync_interval,
            parallel: settings.parallel_operations,
            cancel: shutdown.clone(),
        });
        let queue = KeyedQueue::new(BackoffPolicy::OBJECT);
        let changed = queue.clone();
        let gone_from = Arc::clone(&context);
        let follow = watch.run(process.health.clone(), shutdown.clone(), move |event| match event {
            Event::Applied { old, new } => {
                // Told again by a resync: whether anything is due is a question of time, which the queue keeps.
                if !old.is_some_and(|old| Arc::ptr_eq(&old, &new)) {
                    changed.add(ObjectKey::of(&*new));
                }
            }
            Event::Deleted(gone) => {
                let key = ObjectKey::of(&*gone);
                changed.forget(&key);
                gone_from.queued.forget(&key);
            }
            Event::Synced => {}
        });
        let work = run_keyed(queue, settings.worker_count, shutdown, move |key| {
            reconcile(Arc::clone(&context), key)
        });
        tracing::info!(
            logger = "provisioning-repository-controller",
            workers = settings.worker_count,
            scope = %process.scope,
            "repository operator started"
        );
        tokio::join!(follow, work);
        Ok(())
    }
}
