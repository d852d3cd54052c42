//! Which tasks the operator consists of.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::Api;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_api::{Job, JobState, Repository};
use windlass_launch::Context;
use windlass_lease_queue::kube::KubeStore;
use windlass_lease_queue::{ConfigError, Queue, QueueConfig};
use windlass_runtime::{BoxError, Operator, Registry, Store, Watch, WatchConfig};
use windlass_telemetry::ErrorChain;

use crate::config::JobsConfig;
use crate::departures::Departures;
use crate::driver::Driver;
use crate::metrics::JobMetrics;
use crate::notifications::Notifications;
use crate::pull::{Limits, Pull};
use crate::sleep::Sleep;
use crate::worker::{Worker, Workers};

/// The whole: notifications, drivers, take-over of what was abandoned, pruning of history.
pub const PROVISIONING_JOBS: &str = "provisioning-jobs";
/// Claims and runs, nothing else.
pub const PROVISIONING_JOBQUEUE: &str = "provisioning-jobqueue";

/// Adds the operators of this crate to a binary's.
pub fn register(registry: Registry<Context>) -> Registry<Context> {
    registry
        .with(PROVISIONING_JOBS, || Box::new(Jobs { name: PROVISIONING_JOBS }))
        .with(PROVISIONING_JOBQUEUE, || Box::new(Jobs { name: PROVISIONING_JOBQUEUE }))
}

/// Why the operator could not be started.
#[derive(Debug, thiserror::Error)]
pub enum JobsError {
    /// The lease's times do not fit together.
    #[error("failed to set up the job queue")]
    Configure(#[source] ConfigError),
}

/// The operator under one of its names.
pub struct Jobs {
    name: &'static str,
}

#[async_trait]
impl Operator<Context> for Jobs {
    fn name(&self) -> &'static str {
        self.name
    }

    async fn run(self: Box<Self>, context: Arc<Context>) -> Result<(), BoxError> {
        let config = JobsConfig::of(&context, self.name);
        run(&context, config).await.map_err(Into::into)
    }
}

/// Runs until the context's shutdown; then gives running jobs back.
async fn run(context: &Context, config: JobsConfig) -> Result<(), JobsError> {
    let shutdown = context.supervisor.token().clone();
    let client = context.clients.provisioning.clone();
    let metrics = JobMetrics::new(&context.metrics.meter("jobs"));
    let clock = Arc::clone(&context.clock);
    let queue = Queue::observed_by(
        Arc::new(KubeStore::new(client.clone()).within(context.scope.namespace())),
        Arc::new(move || clock.now()),
        QueueConfig {
            lease_expiry: config.lease_expiry,
            renewal: config.lease_renewal,
            max_attempts: config.max_attempts,
            cool_down: config.job_interval,
            ..QueueConfig::new(config.replica.clone())
        },
        Arc::new(metrics.clone()),
    )
    .map_err(JobsError::Configure)?;

    let jobs: Api<Job> = context.scope.api(client.clone());
    let watch =
        Watch::new(jobs, WatchConfig { resync: Some(config.job_interval), ..WatchConfig::new("jobs") });
    let store = watch.store();
    let mut notifications = Notifications::new(queue.clone(), metrics.clone(), config.notifications);
    // Drivers run beside each other on all threads; dropping the set ends whatever is left.
    let mut tasks = JoinSet::new();
    tasks
        .spawn(watch.run(context.health.clone(), shutdown.clone(), move |event| notifications.handle(event)));
    tasks.spawn(tick(queue.clone(), store, metrics.clone(), config.job_interval, shutdown.clone()));
    if config.processing {
        metrics.drivers(config.drivers);
        let departures = Departures::default();
        let repositories: Api<Repository> = context.scope.api(client.clone());
        let watch = Watch::new(repositories, WatchConfig::new("repositories"));
        let told = departures.clone();
        tasks.spawn(watch.run(context.health.clone(), shutdown.clone(), move |event| told.handle(event)));
        let driver = Driver {
            queue: queue.clone(),
            client,
            workers: workers(context, &config),
            clock: Arc::clone(&context.clock),
            metrics,
            departures,
            timeout: config.max_job_timeout,
        };
        for number in 0..config.drivers {
            tasks.spawn(driver.clone().run(number, shutdown.clone()));
        }
    }
    if config.clean_up {
        let (reaper, stop, every) = (queue.clone(), shutdown.clone(), config.cleanup_interval);
        tasks.spawn(async move { reaper.run_reaper(every, &stop).await });
        if let Some(expiration) = config.history_expiration {
            tasks.spawn(prune(queue, expiration, shutdown.clone()));
        }
    }
    tracing::info!(
        drivers = if config.processing { config.drivers } else { 0 },
        scope = %context.scope,
        lease_expiry_seconds = config.lease_expiry.as_secs(),
        "jobs operator started"
    );
    // One that ends before the shutdown ends the others: the supervisor reports this operator then.
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
        if !shutdown.is_cancelled() {
            break;
        }
    }
    Ok(())
}

fn workers(context: &Context, config: &JobsConfig) -> Workers {
    let pull = Pull {
        provisioning: context.clients.provisioning.clone(),
        core: context.clients.core.clone(),
        clients: context.resources.clone(),
        sources: context.sources.clone(),
        clock: Arc::clone(&context.clock),
        workers: config.sync_workers,
        change_timeout: config.change_timeout,
        limits: Limits {
            incremental_changes: config.max_incremental_changes,
            resources: config.max_resources,
        },
    };
    let workers: Vec<Box<dyn Worker>> = vec![Box::new(pull), Box::new(Sleep)];
    workers.into()
}

/// Looks again at every known job, so that nothing depends on a single notification, and reports the queue's size.
async fn tick(
    queue: Queue,
    store: Store<Job>,
    metrics: JobMetrics,
    every: Duration,
    shutdown: CancellationToken,
) {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while shutdown.run_until_cancelled(interval.tick()).await.is_some() {
        queue.tick();
        let jobs = store.list();
        let waiting = jobs.iter().filter(|job| !matches!(job.status.state, JobState::Working));
        metrics.queue_size(waiting.map(|job| job.spec.action.as_str().to_owned()));
    }
}

/// Deletes history that is older than `expiration`, a few times in that time.
async fn prune(queue: Queue, expiration: Duration, shutdown: CancellationToken) {
    let every = (expiration / 4).clamp(Duration::from_secs(1), Duration::from_mins(5));
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut failing = HashSet::new();
    while shutdown.run_until_cancelled(interval.tick()).await.is_some() {
        match queue.prune(expiration, None).await {
            Ok(0) => failing.clear(),
            Ok(count) => {
                failing.clear();
                tracing::info!(count, "old history deleted");
            }
            // The same words are said once, until it works again.
            Err(error) => {
                let text = ErrorChain(&error).to_string();
                if failing.insert(text.clone()) {
                    tracing::warn!(error = text, "history is not pruned");
                }
            }
        }
    }
}
