//! From the watch of jobs to the queue, with a line of log for each new job.

use std::collections::HashSet;
use std::sync::Arc;

use windlass_api::Job;
use windlass_lease_queue::Queue;
use windlass_lease_queue::kube::{event_applied, event_deleted};
use windlass_runtime::{Clock, Event};

use crate::metrics::JobMetrics;

/// Takes in what the watch sees.
pub(crate) struct Notifications {
    queue: Queue,
    metrics: JobMetrics,
    clock: Arc<dyn Clock>,
    /// Whether each new job is logged: `provisioning-jobs` does, the queue alone does not.
    log: bool,
    /// Jobs that are known, by UID: the watch tells a job again after a reconnection.
    known: HashSet<String>,
    synced: bool,
}

impl Notifications {
    pub(crate) fn new(queue: Queue, metrics: JobMetrics, clock: Arc<dyn Clock>, log: bool) -> Self {
        Self { queue, metrics, clock, log, known: HashSet::new(), synced: false }
    }

    pub(crate) fn handle(&mut self, event: Event<Job>) {
        match event {
            Event::Applied { old, new } => {
                self.queue.observe(event_applied(&new));
                let uid = new.metadata.uid.clone().unwrap_or_default();
                if old.is_none() && self.known.insert(uid) {
                    let created = new.metadata.creation_timestamp.as_ref().map(|time| time.0);
                    let latency = created.map(|created| self.clock.now().duration_since(created));
                    let latency = latency.map(|latency| latency.try_into().unwrap_or_default());
                    self.metrics.notified(if self.synced { "live" } else { "initial" }, latency);
                    self.log_new(&new);
                }
            }
            Event::Deleted(job) => {
                self.known.remove(job.metadata.uid.as_deref().unwrap_or_default());
                self.queue.observe(event_deleted(&job));
            }
            Event::Synced => {
                self.synced = true;
                self.queue.tick();
            }
        }
    }

    fn log_new(&self, job: &Job) {
        if !self.log {
            return;
        }
        tracing::info!(
            logger = "provisioning-job-controller",
            namespace = job.metadata.namespace,
            job = job.metadata.name,
            action = job.spec.action.as_str(),
            repository = job.spec.repository,
            "job create notification received"
        );
    }
}
