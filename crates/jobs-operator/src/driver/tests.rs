use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use futures::future::BoxFuture;
use kube::api::ListParams;
use tokio::task::JoinHandle;
use windlass_api::{HistoricJob, JobAction, JobSpec};
use windlass_apiserver::ApiServer;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_lease_queue::QueueConfig;
use windlass_lease_queue::kube::{KubeStore, insert};
use windlass_runtime::SystemClock;

use super::*;

type Run = Box<dyn for<'a> Fn(&'a JobContext) -> BoxFuture<'a, Result<(), JobError>> + Send + Sync>;

/// A worker of `test` jobs that does what the test says.
struct Scripted {
    needs: RepositoryNeed,
    run: Run,
}

#[async_trait]
impl Worker for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn supports(&self, action: &JobAction) -> bool {
        *action == JobAction::Test
    }

    fn needs(&self) -> RepositoryNeed {
        self.needs
    }

    async fn run(&self, context: &JobContext) -> Result<(), JobError> {
        (self.run)(context).await
    }
}

/// One job, and the process that runs it.
struct World {
    client: kube::Client,
    queue: Queue,
    job: Job,
    shutdown: CancellationToken,
}

impl World {
    async fn new() -> Self {
        let store = in_memory(&StoreOptions::default()).unwrap();
        let key = secrecy::SecretBox::new(Box::new([7; 32]));
        let server =
            ApiServer::builder(store).crds(windlass_api::crds::all()).sealing_key(&key).build().unwrap();
        let client = server.client_for_tests();
        let spec = serde_json::json!({"action": "test", "repository": "gone", "test": {"duration": "1s"}});
        let spec: JobSpec = serde_json::from_value(spec).unwrap();
        let job = insert(&client, "default", "gone", spec, BTreeMap::new()).await.unwrap();
        let store = Arc::new(KubeStore::new(client.clone()));
        let queue = Queue::new(store, Arc::new(Timestamp::now), QueueConfig::new("one")).unwrap();
        queue.relist().await.unwrap();
        Self { client, queue, job, shutdown: CancellationToken::new() }
    }

    /// Starts a driver with this worker.
    fn drive(&self, needs: RepositoryNeed, run: Run) -> JoinHandle<()> {
        let worker: Box<dyn Worker> = Box::new(Scripted { needs, run });
        let metrics = windlass_telemetry::Metrics::new().unwrap();
        let driver = Driver {
            queue: self.queue.clone(),
            client: self.client.clone(),
            workers: vec![worker].into(),
            clock: Arc::new(SystemClock),
            metrics: JobMetrics::new(&metrics),
            deletions: DeletionSignals::default(),
            events: EventRecorder::new("windlass.dev/test", "one", Arc::new(SystemClock)).0,
            spans: windlass_telemetry::Spans::disabled(),
            timeout: Duration::from_mins(20),
        };
        tokio::spawn(driver.run(0, self.shutdown.clone()))
    }

    /// What became of the job.
    async fn ended(&self) -> HistoricJob {
        let history: Api<HistoricJob> = Api::namespaced(self.client.clone(), "default");
        for _ in 0..1_800 {
            if let Some(found) = history.list(&ListParams::default()).await.unwrap().items.pop() {
                return found;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("the job did not end within half an hour");
    }

    /// The job in the queue.
    async fn queued(&self) -> Job {
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), "default");
        jobs.get(self.job.metadata.name.as_deref().unwrap()).await.unwrap()
    }
}

fn is_claimed(job: &Job) -> bool {
    job.metadata.labels.as_ref().is_some_and(|marks| marks.contains_key(labels::CLAIM))
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_asked_to_stop_is_awaited_before_its_job_is_given_back() {
    let world = World::new().await;
    let (running, writes) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let (started, written) = (running.clone(), Arc::clone(&writes));
    let driver = world.drive(
        RepositoryNeed::Any,
        Box::new(move |context| {
            let (started, written) = (started.clone(), Arc::clone(&written));
            Box::pin(async move {
                started.cancel();
                context.cancel().cancelled().await;
                assert_eq!(context.stop.reason(), Some(StopReason::Shutdown));
                // A write that is under way.
                tokio::time::sleep(Duration::from_secs(20)).await;
                assert!(context.lease.valid(), "the job is not given back yet");
                written.fetch_add(1, Ordering::SeqCst);
                Err(JobError::Stopped)
            })
        }),
    );
    running.cancelled().await;
    world.shutdown.cancel();
    driver.await.unwrap();
    assert_eq!(writes.load(Ordering::SeqCst), 1);
    let job = world.queued().await;
    assert!(!is_claimed(&job) && job.status.state == JobState::Pending, "{job:?}");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_finds_its_host_busy_is_given_back_and_ends_when_it_is_not() {
    let world = World::new().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let _driver = world.drive(
        RepositoryNeed::Any,
        Box::new(move |_context| {
            let is_first = counted.fetch_add(1, Ordering::SeqCst) == 0;
            Box::pin(async move {
                if is_first {
                    let busy = windlass_git::GitError::HostBusy { host: "git.example.org".to_owned() };
                    return Err(JobError::Repository { what: "find the branch", source: busy.into() });
                }
                Ok(())
            })
        }),
    );
    assert_eq!(world.ended().await.status.state, JobState::Success);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_stop_is_aborted_and_its_claim_is_left_to_lapse() {
    let world = World::new().await;
    let running = CancellationToken::new();
    let started = running.clone();
    let driver = world.drive(
        RepositoryNeed::Any,
        Box::new(move |_context| {
            started.cancel();
            Box::pin(std::future::pending())
        }),
    );
    running.cancelled().await;
    world.shutdown.cancel();
    tokio::time::timeout(Duration::from_mins(1), driver).await.expect("it is aborted").unwrap();
    assert!(is_claimed(&world.queued().await), "a write of it may still be under way");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_end_in_time_keeps_its_job_until_no_write_of_it_arrives() {
    let world = World::new().await;
    let began = tokio::time::Instant::now();
    let free = CancellationToken::new();
    let held = free.clone();
    let _driver = world.drive(
        RepositoryNeed::Any,
        Box::new(move |_context| {
            let held = held.clone();
            Box::pin(async move {
                let _guard = held.drop_guard();
                std::future::pending().await
            })
        }),
    );
    tokio::time::sleep(Duration::from_mins(20) + GRACE + Duration::from_secs(10)).await;
    assert!(free.is_cancelled(), "what the worker held is free");
    let status = world.ended().await.status;
    assert!(status.message.contains("max_job_timeout"), "{status:?}");
    let awaited = Duration::from_mins(20) + GRACE + world.queue.lease_expiry();
    assert!(began.elapsed() >= awaited, "{:?} of {awaited:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_done_when_it_is_asked_to_stop_has_completed_its_job() {
    let world = World::new().await;
    let shutdown = world.shutdown.clone();
    let driver = world.drive(
        RepositoryNeed::Any,
        Box::new(move |context| {
            shutdown.cancel();
            Box::pin(async move {
                context.cancel().cancelled().await;
                context.progress.revision("abc");
                Ok(())
            })
        }),
    );
    driver.await.unwrap();
    let record = world.ended().await;
    assert_eq!(record.status.state, JobState::Success);
    assert_eq!(record.metadata.annotations.unwrap()[annotations::REVISION], "abc");
}

#[tokio::test(start_paused = true)]
async fn a_worker_says_whether_it_needs_the_repository() {
    let world = World::new().await;
    let run = || -> Run {
        Box::new(|context| {
            assert!(context.repository.is_none() && context.repository().is_err());
            Box::pin(async { Ok(()) })
        })
    };
    let _driver = world.drive(RepositoryNeed::Any, run());
    assert_eq!(world.ended().await.status.state, JobState::Success);

    let world = World::new().await;
    let _driver = world.drive(RepositoryNeed::Present, run());
    let status = world.ended().await.status;
    assert_eq!(
        (status.state, status.message.as_str()),
        (JobState::Error, "failed to get repository 'gone': it does not exist")
    );
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_panics_fails_its_job_with_a_record() {
    let world = World::new().await;
    let driver = world.drive(RepositoryNeed::Any, Box::new(|_context| panic!("out of the blue")));
    let status = world.ended().await.status;
    assert_eq!(status.state, JobState::Error);
    assert!(status.message.contains("failed unexpectedly"), "{status:?}");
    assert!(!driver.is_finished(), "the driver takes the next job");
}

#[tokio::test(start_paused = true)]
async fn a_create_asks_the_lease_before_each_try() {
    let world = World::new().await;
    let claimed = world.queue.next(0, &world.shutdown).await.unwrap();
    let mut lease = Some(claimed.into_parts().1);
    let options = call_options(&lease.as_ref().unwrap().guard(), Duration::from_secs(1));
    let mut tries = 0;
    let outcome = options.write("create a thing", || {
        tries += 1;
        if tries == 2 {
            lease.take();
        }
        std::future::pending::<kube::Result<()>>()
    });
    outcome.await.unwrap_err();
    assert_eq!(tries, 2, "no try without a lease");
}
