//! One job from claim to history. Grafana: `jobs/driver.go`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kube::Api;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{HealthErrorKind, Job, JobState, Repository, labels};
use windlass_lease_queue::progress::{Failure, Progress, Recorder, ResourceAction, ResourceResult, Windows};
use windlass_lease_queue::{Claimed, Lease, Queue, Record, kube as records};
use windlass_runtime::{Clock, ObjectKey, deadline};
use windlass_telemetry::ErrorChain;

use crate::departures::Departures;
use crate::metrics::JobMetrics;
use crate::patience::while_held;
use crate::worker::{JobContext, JobError, Workers};

/// How long a worker may take to end by itself once its time is up: it still says in the repository's status what it
/// came to, under the deadlines of its calls.
const GRACE: Duration = Duration::from_secs(30);
/// How often a running job's progress is written: Grafana waits five seconds between results, which leaves a reader of a
/// bar guessing; one small write a second for a running job is cheap here.
const PROGRESS: Windows = Windows { message: Duration::from_millis(500), record: Duration::from_secs(1) };
/// How long reading the repository may take.
const READ: Duration = Duration::from_secs(15);

/// Takes jobs from the queue and runs them, one at a time.
#[derive(Clone)]
pub(crate) struct Driver {
    pub(crate) queue: Queue,
    pub(crate) client: kube::Client,
    pub(crate) workers: Workers,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: JobMetrics,
    pub(crate) departures: Departures,
    /// The most time that one job may take.
    pub(crate) timeout: Duration,
}

/// How the work on a job came to its end.
enum End {
    /// The worker is done; the text says why it failed.
    Finished(Result<(), String>),
    /// The lease is lost: somebody else runs the job, or will.
    LeaseLost,
    /// It was cut short, and is to be run again from the start; the text says why.
    GivenBack(&'static str),
}

/// Why the work on a job did not succeed.
enum WorkError {
    /// The lease did not hold at the moment of a write.
    LeaseLost,
    /// The text for the job's status.
    Failed(String),
}

impl From<String> for WorkError {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl Driver {
    /// Runs jobs until `shutdown`. `number` tells the drivers of a process apart.
    pub(crate) async fn run(self, number: usize, shutdown: CancellationToken) {
        while let Some(claimed) = self.queue.next(number, &shutdown).await {
            let record = claimed.record();
            let span = tracing::info_span!(
                "job",
                logger = "provisioning-jobqueue-controller",
                namespace = record.key.namespace,
                job = record.key.name,
                action = record.action(),
                repository = record.repository(),
                attempt = claimed.lease().attempt(),
            );
            self.process(claimed, &shutdown).instrument(span).await;
        }
    }

    async fn process(&self, claimed: Claimed, shutdown: &CancellationToken) {
        let (record, lease) = claimed.into_parts();
        let started = self.clock.now();
        tracing::info!("job started");
        let recorder = Recorder::new(started.as_millisecond());
        let progress = Progress::with_windows(recorder, Arc::new(lease.guard()), PROGRESS);
        let end = self.work(&record, &lease, &progress, shutdown).await;
        let outcome = match end {
            End::Finished(outcome) => outcome,
            End::LeaseLost => {
                tracing::warn!("the job's lease was lost; whoever claims it next runs it again");
                return;
            }
            End::GivenBack(why) => {
                match lease.release().await {
                    Ok(()) => tracing::info!(why, "job given back"),
                    Err(error) => tracing::warn!(why, error = %ErrorChain(&error), "job not given back"),
                }
                return;
            }
        };
        let status = progress.finish(outcome, self.clock.now().as_millisecond());
        self.metrics.finished(record.action(), &status);
        let (state, message) = (status.state, status.message.clone());
        let took = self.clock.now().duration_since(started).as_secs_f64();
        match lease.complete(status).await {
            Ok(()) if state == JobState::Error => {
                tracing::warn!(state = state.as_str(), message, duration_seconds = took, "job finished");
            }
            Ok(()) => {
                tracing::info!(state = state.as_str(), message, duration_seconds = took, "job finished");
            }
            Err(error) => {
                tracing::warn!(state = state.as_str(), error = %ErrorChain(&error), "job finished, but was not filed");
            }
        }
    }

    /// Runs the worker beside everything that may end it. Whichever comes first, the worker is dropped then: it writes
    /// nothing more.
    async fn work(
        &self,
        record: &Record,
        lease: &Lease,
        progress: &Progress,
        shutdown: &CancellationToken,
    ) -> End {
        let lost = lease.lost();
        let cancel = lost.child_token();
        let _stop = cancel.clone().drop_guard();
        let departure = self.departures.of(ObjectKey::new(&*record.key.namespace, record.repository()));
        let work =
            AssertUnwindSafe(Box::pin(self.dispatch(record, lease, progress, cancel.clone()))).catch_unwind();
        tokio::select! {
            biased;
            () = lost.cancelled() => End::LeaseLost,
            () = shutdown.cancelled() => End::GivenBack("the process ends"),
            () = departure.seen() => End::Finished(Err("the repository is being deleted".to_owned())),
            result = in_time(work, self.timeout, &cancel) => match result {
                _ if lost.is_cancelled() => End::LeaseLost,
                Err(TimeIsUp) => End::Finished(Err(format!(
                    "context deadline exceeded: the job took longer than max_job_timeout = {:?}", self.timeout
                ))),
                Ok(Err(panic)) => {
                    tracing::error!(panic = panic_text(&*panic), "a worker panicked");
                    End::Finished(Err("the worker failed unexpectedly; the log says where".to_owned()))
                }
                // It stopped because the lease ran late. The lease was renewed after all: nobody else has the job.
                Ok(Ok(Err(WorkError::LeaseLost))) => End::GivenBack("its lease was renewed too late to go on"),
                Ok(Ok(Err(WorkError::Failed(why)))) => End::Finished(Err(why)),
                Ok(Ok(Ok(()))) => End::Finished(Ok(())),
            },
        }
    }

    /// Finds the repository and the worker, and runs it.
    async fn dispatch(
        &self,
        record: &Record,
        lease: &Lease,
        progress: &Progress,
        cancel: CancellationToken,
    ) -> Result<(), WorkError> {
        let job: Job = records::job(record).map_err(|error| format!("the job is not understood: {error}"))?;
        let Some(worker) = self.workers.iter().find(|worker| worker.supports(&job.spec.action)) else {
            let action = record.action();
            return Err(format!("no workers were registered to handle the job (action {action:?})").into());
        };
        let repository = self.repository(record, lease).await?;
        if repository.metadata.deletion_timestamp.is_some() {
            progress.final_message("the repository is being deleted, nothing was done");
            return Ok(());
        }
        if let Some(why) = reason_to_skip(&repository) {
            let skipped = ResourceResult::new("", "", "", ResourceAction::Ignored);
            progress.record(&skipped.failed(Failure::warning("Skipped", why)));
            return Ok(());
        }
        let context =
            JobContext { job, repository, progress: progress.clone(), lease: lease.guard(), cancel };
        worker.run(&context).await.map_err(|error| match error {
            JobError::LeaseLost => WorkError::LeaseLost,
            error => WorkError::Failed(ErrorChain(&error).to_string()),
        })
    }

    async fn repository(&self, record: &Record, lease: &Lease) -> Result<Repository, WorkError> {
        let name = record.repository();
        let api: Api<Repository> = Api::namespaced(self.client.clone(), &record.key.namespace);
        let guard = lease.guard();
        let read = while_held(&guard, || deadline(READ, format!("get repository {name:?}"), api.get(name)));
        match read.await {
            Ok(repository) => Ok(repository),
            Err(error) if error.is_not_found() => {
                Err(format!("failed to get repository '{name}': it does not exist").into())
            }
            Err(_late) if !lease.valid() => Err(WorkError::LeaseLost),
            Err(error) => Err(ErrorChain(&error).to_string().into()),
        }
    }
}

/// The work did not end in its time.
struct TimeIsUp;

/// Runs `work` for at most `limit`; then tells it to stop, and lets it end for [`GRACE`].
async fn in_time<T>(
    work: impl Future<Output = T>,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<T, TimeIsUp> {
    let mut work = std::pin::pin!(work);
    if let Ok(ended) = tokio::time::timeout(limit, &mut work).await {
        return Ok(ended);
    }
    cancel.cancel();
    let _ = tokio::time::timeout(GRACE, work).await;
    Err(TimeIsUp)
}

/// Why a job of this repository is not even tried.
fn reason_to_skip(repository: &Repository) -> Option<String> {
    let marked = repository.metadata.labels.as_ref().and_then(|marks| marks.get(labels::PENDING_DELETE));
    if marked.is_some_and(|value| value == "true") {
        return Some("the repository's namespace is being deleted".to_owned());
    }
    let health = &repository.status.health;
    let ready = conditions::find(&repository.status.conditions, types::READY)?;
    let refused = health.checked != 0
        && !health.healthy
        && health.error == Some(HealthErrorKind::Health)
        && ready.reason == reasons::AUTHENTICATION_FAILED
        && ready.observed_generation == repository.metadata.generation;
    refused.then(|| format!("the repository refuses its token: {}", ready.message))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}
