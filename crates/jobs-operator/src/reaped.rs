//! Jobs whose workers vanished until their attempts were used up: what is told of them, since no driver does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use kube::{Api, Client};
use windlass_api::{JobState, JobStatus, Repository, annotations};
use windlass_lease_queue::{LEASE_EXPIRED, Reaper, Record};
use windlass_runtime::{CallOptions, Clock, EventRecorder};
use windlass_telemetry::{ErrorChain, Spans};

use crate::driver::event_of;
use crate::trace::JobTrace;

/// How long reading the repository may take.
const READ: Duration = Duration::from_secs(15);

/// Tells of jobs that were failed for want of a worker: their record names the trace, which ends, and their repository
/// has an Event.
pub(crate) struct ReapedJobs {
    pub(crate) client: Client,
    pub(crate) events: EventRecorder,
    pub(crate) spans: Spans,
    pub(crate) clock: Arc<dyn Clock>,
}

impl ReapedJobs {
    fn trace<'a>(&self, job: &'a Record) -> JobTrace<'a> {
        let started = job.status["started"].as_i64().filter(|time| *time > 0);
        let started = started.and_then(|time| Timestamp::from_millisecond(time).ok());
        JobTrace {
            record: job,
            attempt: job.attempts(),
            started: started.unwrap_or_else(|| self.clock.now()).max(job.created),
        }
    }
}

#[async_trait]
impl Reaper for ReapedJobs {
    fn annotations(&self, job: &Record) -> BTreeMap<String, String> {
        let id = || (annotations::TRACE_ID.to_owned(), self.trace(job).id().to_string());
        self.spans.is_enabled().then(id).into_iter().collect()
    }

    async fn reaped(&self, job: &Record) {
        let (trace, now) = (self.trace(job), self.clock.now());
        let status = JobStatus {
            state: JobState::Error,
            finished: now.as_millisecond(),
            message: LEASE_EXPIRED.to_owned(),
            ..JobStatus::default()
        };
        let (namespace, name) = (&*job.key.namespace, job.repository());
        self.spans.within(trace.id(), trace.attempt_span(), || {
            tracing::warn!(
                namespace,
                job = job.key.name,
                uid = job.uid,
                action = job.action(),
                repository = name,
                attempt = trace.attempt,
                "failed a job whose worker vanished too often"
            );
        });
        for span in trace.spans(&status, &[], now) {
            self.spans.record(span);
        }
        let api: Api<Repository> = Api::namespaced(self.client.clone(), namespace);
        let options = CallOptions::from(READ);
        let found = options.read(format!("get repository {name:?}"), || api.get_opt(name)).await;
        match (found, event_of(job, &status, None)) {
            (Ok(Some(repository)), Some(note)) => self.events.record(&repository, note),
            (Err(error), _) => tracing::warn!(error = %ErrorChain(&error), "no Event tells of a failed job"),
            _ => {}
        }
    }
}
