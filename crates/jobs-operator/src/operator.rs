//! Which tasks the operator consists of.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kube::Api;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_api::{Job, JobState, Repository};
use windlass_launch::Context;
use windlass_lease_queue::kube::KubeStore;
use windlass_lease_queue::{ConfigError, HistoryLimits, Queue, QueueConfig, Store as QueueStore};
use windlass_loki::{HistoryStore, QueueLimits};
use windlass_runtime::{BoxError, EventRecorder, Operator, Registry, Store, Watch, WatchConfig};
use windlass_telemetry::ErrorChain;

use crate::config::JobsConfig;
use crate::deletion::DeletionSignals;
use crate::driver::Driver;
use crate::metrics::JobMetrics;
use crate::notifications::{Notifications, SeenJob};
use crate::orphans::Orphans;
use crate::pull::{Limits, Pull};
use crate::pull_request::PullRequestWorker;
use crate::reaped::ReapedJobs;
use crate::sleep::Sleep;
use crate::tasks::{TaskEnded, Tasks};
use crate::worker::{Worker, Workers};
use crate::write::{Delete, FixFolderMetadata, Migrate, Move, Push};

/// The whole: notifications, drivers, take-over of what was abandoned, pruning of history.
pub const PROVISIONING_JOBS: &str = "provisioning-jobs";
/// Claims and runs, nothing else.
pub const PROVISIONING_JOBQUEUE: &str = "provisioning-jobqueue";

/// The controller that Events name.
const EVENTS_FROM: &str = "windlass.dev/jobs-controller";
/// How often history is looked through at least.
const PRUNE: Duration = Duration::from_mins(5);

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
    /// One of the operator's tasks panicked or ended unasked.
    #[error(transparent)]
    Task(#[from] TaskEnded),
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
    let metrics = JobMetrics::new(&context.metrics);
    let clock = Arc::clone(&context.clock);
    let jobs = KubeStore::new(client.clone()).within(context.scope.namespace());
    let (store, history): (Arc<dyn QueueStore>, _) = match &context.loki {
        None => (Arc::new(jobs), None),
        Some(loki) => {
            let limits = QueueLimits { entries: config.loki_queue_size, ..QueueLimits::default() };
            let (records, writer) = windlass_loki::queue(loki.clone(), limits, metrics.clone());
            (Arc::new(HistoryStore::new(jobs, records)), Some(writer))
        }
    };
    let queue = Queue::observed_by(
        store,
        Arc::new(move || clock.now()),
        QueueConfig {
            lease_expiry: config.lease_expiry,
            renewal: config.lease_renewal,
            max_attempts: config.max_attempts,
            cool_down: config.job_interval,
            max_jobs_per_namespace: config.max_jobs_per_namespace,
            ..QueueConfig::new(config.replica.clone())
        },
        Arc::new(metrics.clone()),
    )
    .map_err(JobsError::Configure)?;

    let jobs: Api<Job> = context.scope.api(client.clone());
    let watch = WatchConfig { resync: Some(config.job_interval), ..WatchConfig::new("jobs") };
    let watch = Watch::<SeenJob>::reading(jobs, watch);
    let store = watch.store();
    let clock = Arc::clone(&context.clock);
    let mut notifications = Notifications::new(queue.clone(), metrics.clone(), clock, config.notifications);
    // Drivers run beside each other on all threads. All end at the shutdown, or together when one of them fails.
    let mut tasks = Tasks::new(shutdown.child_token());
    let stop = tasks.stop().clone();
    tasks.spawn(
        "watch of jobs",
        watch.run(context.health.clone(), stop.clone(), move |event| notifications.handle(event)),
    );
    tasks.spawn(
        "look at all known jobs",
        tick(queue.clone(), store, metrics.clone(), config.job_interval, stop.clone()),
    );
    let (events, writer) =
        EventRecorder::new(EVENTS_FROM, config.replica.clone(), Arc::clone(&context.clock));
    tasks.spawn("writer of Events", writer.run(context.clients.core.clone(), stop.clone()));
    let reaped_jobs = ReapedJobs {
        client: client.clone(),
        events: events.clone(),
        spans: context.spans.clone(),
        clock: Arc::clone(&context.clock),
    };
    if config.processing {
        metrics.drivers(config.drivers);
        let deletions = DeletionSignals::default();
        let repositories: Api<Repository> = context.scope.api(client.clone());
        let watch = Watch::new(repositories, WatchConfig::new("repositories"));
        let signals = deletions.clone();
        tasks.spawn(
            "watch of repositories",
            watch.run(context.health.clone(), stop.clone(), move |event| signals.handle(event)),
        );
        let driver = Driver {
            queue: queue.clone(),
            client,
            workers: workers(context, &config, &metrics),
            clock: Arc::clone(&context.clock),
            metrics,
            deletions,
            events,
            spans: context.spans.clone(),
            timeout: config.max_job_timeout,
        };
        for number in 0..config.drivers {
            tasks.spawn(format!("driver {number}"), driver.clone().run(number, stop.clone()));
        }
    }
    if config.clean_up {
        let (reaper, stop, every) = (queue.clone(), stop.clone(), config.cleanup_interval);
        tasks.spawn("reaper", async move { reaper.run_reaper_for(every, &reaped_jobs, &stop).await });
    }
    match history {
        Some(writer) => tasks.spawn("push of history", writer.run(stop)),
        None if config.clean_up && config.history.any() => {
            let (limits, replica) = (config.history, config.replica.clone());
            tasks.spawn("pruning of history", prune(queue.clone(), limits, replica, stop));
        }
        None => {}
    }
    // Only tasks have it from here on: what they file is pushed until the last of them has ended.
    drop(queue);
    tracing::info!(
        drivers = if config.processing { config.drivers } else { 0 },
        scope = %context.scope,
        lease_expiry_seconds = config.lease_expiry.as_secs(),
        "jobs operator started"
    );
    Ok(tasks.join().await?)
}

fn workers(context: &Context, config: &JobsConfig, metrics: &JobMetrics) -> Workers {
    let pull = Pull {
        provisioning: context.clients.provisioning.clone(),
        core: context.clients.core.clone(),
        clients: context.resources.clone(),
        opener: context.opener.clone(),
        clock: Arc::clone(&context.clock),
        workers: config.sync_workers,
        change_timeout: config.change_timeout,
        limits: Limits {
            incremental_changes: config.max_incremental_changes,
            resources: config.max_resources,
        },
    };
    let mut workers: Vec<Box<dyn Worker>> = vec![
        Box::new(Push(pull.clone())),
        Box::new(Migrate(pull.clone())),
        Box::new(Delete(pull.clone())),
        Box::new(Move(pull.clone())),
        Box::new(FixFolderMetadata(pull.clone())),
        Box::new(Orphans(pull.clone())),
        Box::new(PullRequestWorker {
            pull: pull.clone(),
            public_url: context.settings.operator().provisioning_server_public_url.clone(),
            comment_each: context.settings.operator().pull_request_comment_each,
            metrics: metrics.clone(),
        }),
        Box::new(pull),
    ];
    if config.test_jobs {
        workers.push(Box::new(Sleep));
    }
    workers.into()
}

/// Looks again at every known job, so that nothing depends on a single notification, and reports the queue's size.
async fn tick(
    queue: Queue,
    store: Store<SeenJob>,
    metrics: JobMetrics,
    every: Duration,
    shutdown: CancellationToken,
) {
    let mut interval = tokio::time::interval(every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while shutdown.run_until_cancelled(interval.tick()).await.is_some() {
        queue.tick();
        let jobs = store.list();
        let waiting = jobs.iter().filter(|seen| seen.job.state != JobState::Working);
        metrics.queue_size(waiting.map(|seen| &seen.job.action));
    }
}

/// Deletes the history that there is no room for, now and then, each replica at its own time.
async fn prune(queue: Queue, limits: HistoryLimits, replica: String, shutdown: CancellationToken) {
    let every = limits.max_age.map_or(PRUNE, |age| (age / 4).clamp(Duration::from_secs(1), PRUNE));
    let mut hasher = DefaultHasher::new();
    replica.hash(&mut hasher);
    let first = every * u32::try_from(hasher.finish() % 1000).unwrap_or(0) / 1000;
    let mut interval = tokio::time::interval_at(Instant::now() + first, every);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut failing = HashSet::new();
    while shutdown.run_until_cancelled(interval.tick()).await.is_some() {
        let Some(pruned) = shutdown.run_until_cancelled(queue.prune(limits)).await else { return };
        match pruned {
            Ok(pruned) => {
                failing.clear();
                if pruned.total() > 0 {
                    tracing::info!(count = pruned.total(), "old history deleted");
                }
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
