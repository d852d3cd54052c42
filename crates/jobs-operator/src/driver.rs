//! One job from claim to history. Grafana: `jobs/driver.go`.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Api, Resource as _};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{
    HealthErrorKind, Job, JobResourceSummary, JobState, JobStatus, Repository, annotations, labels,
};
use windlass_lease_queue::progress::{Failure, Progress, Recorder, ResourceAction, ResourceResult, Windows};
use windlass_lease_queue::{Claimed, Lease, LeaseGuard, Queue, Record, kube as records};
use windlass_runtime::{Clock, EventRecorder, EventType, Note, ObjectKey};
use windlass_telemetry::{ErrorChain, Spans};

use crate::deletion::DeletionSignals;
use crate::metrics::JobMetrics;
use crate::reasons::SKIPPED;
use crate::trace::JobTrace;
use crate::worker::{
    JobContext, JobError, RepositoryNeed, StopReason, StopRequest, Worker, Workers, call_options,
};

/// How long a worker may take to stop once it is asked to: its writes that are under way are awaited, each of which has a
/// deadline of its own. Less than the time that a process leaves its tasks, so that the job is still given back.
const GRACE: Duration = Duration::from_secs(25);
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
    pub(crate) deletions: DeletionSignals,
    pub(crate) events: EventRecorder,
    pub(crate) spans: Spans,
    /// The most time that one job may take.
    pub(crate) timeout: Duration,
}

/// What becomes of a job whose worker has ended.
#[derive(Debug)]
enum Conclusion {
    /// It is filed; the text says why it failed.
    Complete(Result<(), String>),
    /// It was cut short, or found its repository's host busy, and is given back to be run again from the start.
    Release,
    /// It is left to whoever claims it next: the lease is lost, or will lapse.
    Abandon,
}

/// What a worker, or what precedes it, came to.
type Work = Result<(), WorkError>;

/// Why the work on a job did not succeed.
#[derive(Debug)]
enum WorkError {
    /// The lease did not hold at the moment of a call.
    LeaseLost,
    /// Others have the places that the repository's host has, and did not leave one in time.
    HostBusy,
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
            let attempt = claimed.lease().attempt();
            let started = self.clock.now();
            let trace = JobTrace { record, attempt, started };
            let make = || {
                tracing::info_span!(
                    "job",
                    logger = "provisioning-jobqueue-controller",
                    namespace = record.key.namespace,
                    job = record.key.name,
                    action = record.action(),
                    repository = record.repository(),
                    attempt,
                )
            };
            // The process's own spans and lines are part of the job's trace.
            let span = self.spans.within(trace.id(), trace.attempt_span(), make);
            self.process(claimed, started, &shutdown).instrument(span).await;
        }
    }

    async fn process(&self, claimed: Claimed, started: Timestamp, shutdown: &CancellationToken) {
        let (record, lease) = claimed.into_parts();
        tracing::info!("job started");
        let recorder = Recorder::new(started.as_millisecond());
        let progress = Progress::with_windows(recorder, Arc::new(lease.guard()), PROGRESS);
        let repository = OnceLock::new();
        match self.work(&record, &lease, &progress, &repository, shutdown).await {
            Conclusion::Complete(outcome) => {
                let status = progress.finish(outcome, self.clock.now().as_millisecond());
                let recorder = progress.recorder();
                self.metrics.finished(record.action(), &status, &recorder);
                let note = event_of(&record, &status, recorder.revision());
                if let (Some(repository), Some(note)) = (repository.into_inner(), note) {
                    self.events.record_about(repository, note);
                }
                let trace = JobTrace { record: &record, attempt: lease.attempt(), started };
                self.complete(lease, status, &recorder, &trace).await;
            }
            Conclusion::Release => match lease.release().await {
                Ok(()) => tracing::info!("job given back"),
                Err(error) => tracing::warn!(error = %ErrorChain(&error), "job not given back"),
            },
            Conclusion::Abandon => {
                tracing::warn!(
                    "the job's lease was lost, or is left to lapse; whoever claims it next runs it again"
                );
            }
        }
    }

    async fn complete(&self, lease: Lease, status: JobStatus, recorder: &Recorder, trace: &JobTrace<'_>) {
        let (state, message) = (status.state, status.message.clone());
        let took = self.clock.now().duration_since(trace.started).as_secs_f64();
        let revision = recorder.revision().map(|revision| (annotations::REVISION, revision.to_owned()));
        let id = self.spans.is_enabled().then(|| (annotations::TRACE_ID, trace.id().to_string()));
        let notes = revision.into_iter().chain(id).map(|(name, value)| (name.to_owned(), value)).collect();
        let told = self.spans.is_enabled().then(|| status.clone());
        let ended = lease.complete_with(status, notes).await;
        if let Some(status) = told {
            let spans = trace.spans(&status, recorder.phases(), self.clock.now());
            for span in spans {
                self.spans.record(span);
            }
        }
        match ended {
            Ok(()) if state == JobState::Error => {
                tracing::warn!(
                    state = state.as_str(),
                    outcome = message,
                    duration_seconds = took,
                    "job finished"
                );
            }
            Ok(()) => {
                tracing::info!(
                    state = state.as_str(),
                    outcome = message,
                    duration_seconds = took,
                    "job finished"
                );
            }
            Err(error) => {
                tracing::warn!(state = state.as_str(), error = %ErrorChain(&error), "job finished, but was not filed");
            }
        }
    }

    /// Runs the worker beside everything that may stop it. A worker that is asked to stop has [`GRACE`] to do so.
    async fn work(
        &self,
        record: &Record,
        lease: &Lease,
        progress: &Progress,
        repository: &OnceLock<ObjectReference>,
        shutdown: &CancellationToken,
    ) -> Conclusion {
        let (job, worker) = match self.worker(record) {
            Ok(found) => found,
            Err(text) => return Conclusion::Complete(Err(text)),
        };
        let (lost, stop) = (lease.lost(), StopRequest::default());
        let deletion = (worker.needs() == RepositoryNeed::Present)
            .then(|| self.deletions.subscribe(ObjectKey::new(&*record.key.namespace, record.repository())));
        let deleted = async {
            match &deletion {
                Some(signal) => signal.received().await,
                None => std::future::pending().await,
            }
        };
        let work = self.dispatch(job, worker, lease.guard(), progress, repository, stop.clone());
        let mut work = Box::pin(AssertUnwindSafe(work).catch_unwind());
        let reason = tokio::select! {
            biased;
            ended = &mut work => return self.conclude(ended, None, lease),
            () = lost.cancelled() => StopReason::LeaseLost,
            () = shutdown.cancelled() => StopReason::Shutdown,
            () = deleted => StopReason::RepositoryDeleted,
            () = tokio::time::sleep(self.timeout) => StopReason::TimeUp,
        };
        tracing::debug!(?reason, "asking the worker to stop");
        stop.ask(reason);
        match tokio::time::timeout(GRACE, &mut work).await {
            Ok(ended) => self.conclude(ended, Some(reason), lease),
            Err(_elapsed) => {
                tracing::error!(
                    worker = worker.name(),
                    ?reason,
                    grace_seconds = GRACE.as_secs(),
                    "a worker did not stop when it was asked to and was aborted"
                );
                // What it holds is free again; a write of it may still be under way: nobody else may begin before a lease
                // would have lapsed.
                drop(work);
                if matches!(reason, StopReason::LeaseLost | StopReason::Shutdown) {
                    return Conclusion::Abandon;
                }
                tokio::select! {
                    biased;
                    () = lost.cancelled() => Conclusion::Abandon,
                    () = shutdown.cancelled() => Conclusion::Abandon,
                    () = tokio::time::sleep(self.queue.lease_expiry()) => {
                        Conclusion::Complete(Err(self.stopped_text(reason)))
                    }
                }
            }
        }
    }

    /// What becomes of the job, given what its worker came to and why it was asked to stop.
    fn conclude(
        &self,
        ended: Result<Work, Box<dyn std::any::Any + Send>>,
        stopped: Option<StopReason>,
        lease: &Lease,
    ) -> Conclusion {
        if let Err(panic) = &ended {
            tracing::error!(panic = panic_text(&**panic), "a worker panicked");
        }
        if !lease.valid() {
            return Conclusion::Abandon;
        }
        match (ended, stopped) {
            (Err(_panic), _) => {
                Conclusion::Complete(Err("the worker failed unexpectedly; the log says where".to_owned()))
            }
            // It was done before it was asked, or none the less.
            (Ok(Ok(())), _) => Conclusion::Complete(Ok(())),
            (Ok(Err(WorkError::LeaseLost)), _) | (_, Some(StopReason::LeaseLost)) => Conclusion::Abandon,
            (_, Some(StopReason::Shutdown)) | (Ok(Err(WorkError::HostBusy)), None) => Conclusion::Release,
            (_, Some(reason)) => Conclusion::Complete(Err(self.stopped_text(reason))),
            (Ok(Err(WorkError::Failed(why))), None) => Conclusion::Complete(Err(why)),
        }
    }

    /// What the status of a job says that was stopped.
    fn stopped_text(&self, reason: StopReason) -> String {
        match reason {
            StopReason::TimeUp => format!(
                "context deadline exceeded: the job took longer than max_job_timeout = {:?}",
                self.timeout
            ),
            StopReason::RepositoryDeleted => "the repository is being deleted".to_owned(),
            StopReason::LeaseLost => "job aborted due to lease expiry".to_owned(),
            StopReason::Shutdown => "the process ended".to_owned(),
        }
    }

    /// The job of a record, and who runs it.
    fn worker(&self, record: &Record) -> Result<(Job, &dyn Worker), String> {
        let mut job = records::job(record).map_err(|error| format!("the job is not understood: {error}"))?;
        record.repository().clone_into(&mut job.spec.repository);
        let worker = self.workers.iter().find(|worker| worker.supports(&job.spec.action));
        match worker {
            Some(worker) => Ok((job, &**worker)),
            None => {
                let action = record.action();
                Err(format!("no workers were registered to handle the job (action {action:?})"))
            }
        }
    }

    /// Reads the repository and, if it is as the worker needs it, runs the worker.
    async fn dispatch(
        &self,
        job: Job,
        worker: &dyn Worker,
        lease: LeaseGuard,
        progress: &Progress,
        regarding: &OnceLock<ObjectReference>,
        stop: StopRequest,
    ) -> Work {
        let read = self.repository(&job, &lease);
        let repository = stop.token().run_until_cancelled(read).await;
        let repository = repository.unwrap_or_else(|| Err(JobError::Stopped.to_string().into()))?;
        if let Some(repository) = &repository {
            let _ = regarding.set(repository.object_ref(&()));
        }
        if worker.needs() == RepositoryNeed::Present {
            let Some(repository) = &repository else {
                return Err(JobError::NoRepository { name: job.spec.repository }.to_string().into());
            };
            if repository.metadata.deletion_timestamp.is_some() {
                progress.final_message("the repository is being deleted, nothing was done");
                return Ok(());
            }
            if let Some(why) = reason_to_skip(repository) {
                let skipped = ResourceResult::new("", "", "", ResourceAction::Ignored);
                progress.record(&skipped.failed(Failure::warning(SKIPPED, why)));
                return Ok(());
            }
        }
        let context = JobContext { job, repository, progress: progress.clone(), lease, stop };
        worker.run(&context).await.map_err(|error| match error {
            JobError::LeaseLost => WorkError::LeaseLost,
            error if error.is_host_busy() => WorkError::HostBusy,
            error => WorkError::Failed(ErrorChain(&error).to_string()),
        })
    }

    /// The job's repository, if there is one.
    async fn repository(&self, job: &Job, lease: &LeaseGuard) -> Result<Option<Repository>, WorkError> {
        let name = &*job.spec.repository;
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Repository> = Api::namespaced(self.client.clone(), namespace);
        let options = call_options(lease, READ);
        let read = options.read(format!("get repository {name:?}"), || api.get_opt(name)).await;
        read.map_err(|error| ErrorChain(&error).to_string().into())
    }
}

/// The Event of a repository whose job ended; nothing for one that found nothing to do and nothing to complain of.
pub(crate) fn event_of(record: &Record, status: &JobStatus, revision: Option<&str>) -> Option<Note> {
    let job = format!("job {} ({})", record.key.name, record.action());
    let with = |details: &[String]| {
        let details = details.iter().filter(|detail| **detail != status.message);
        std::iter::once(&status.message).chain(details).map(String::as_str).collect::<Vec<_>>().join("; ")
    };
    let sum = |count: fn(&JobResourceSummary) -> i64| status.summary.iter().map(count).sum::<i64>();
    let (created, updated, deleted) =
        (sum(|kind| kind.create), sum(|kind| kind.update), sum(|kind| kind.delete));
    let (kind, reason, text) = match status.state {
        JobState::Error => {
            (EventType::Warning, "JobFailed", format!("{job} failed: {}", with(&status.errors)))
        }
        JobState::Warning => {
            let text = format!("{job} ended with warnings: {}", with(&status.warnings));
            (EventType::Warning, "JobWarned", text)
        }
        _ if created + updated + deleted > 0 => {
            let at = revision.map(|revision| format!(" at {revision}")).unwrap_or_default();
            let text =
                format!("{job} created {created}, updated {updated} and deleted {deleted} resources{at}");
            (EventType::Normal, "JobSucceeded", text)
        }
        _ => return None,
    };
    Some(Note { kind, reason: reason.to_owned(), action: "RunJob".to_owned(), text })
}

/// Why a job of this repository is not even tried.
fn reason_to_skip(repository: &Repository) -> Option<String> {
    let marked = repository.metadata.labels.as_ref().and_then(|marks| marks.get(labels::PENDING_DELETE));
    if marked.is_some_and(|value| value == "true") {
        return Some("the repository's namespace is being deleted".to_owned());
    }
    let health = &repository.status.health;
    let ready = conditions::find(&repository.status.conditions, types::READY)?;
    let current = health.checked != 0
        && !health.healthy
        && health.error == Some(HealthErrorKind::Health)
        && ready.observed_generation == repository.metadata.generation;
    match ready.reason.as_str() {
        reasons::AUTHENTICATION_FAILED if current => {
            Some(format!("the repository refuses its token: {}", ready.message))
        }
        // Where no admission keeps them apart, the operator of repositories says who has to wait.
        reasons::PATH_CONFLICT | reasons::QUOTA_EXCEEDED if current => {
            Some(format!("the repository waits for others: {}", ready.message))
        }
        _ => None,
    }
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

#[cfg(test)]
mod tests;
