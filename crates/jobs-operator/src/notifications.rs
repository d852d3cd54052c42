//! From the watch of jobs to the queue, with a line of log for each new job.

use std::sync::Arc;

use serde::Deserialize;
use windlass_lease_queue::{Event as QueueEvent, Key, Queue, QueuedJob};
use windlass_runtime::{Clock, Event, ObjectKey, Watched};

use crate::metrics::JobMetrics;

/// A job as the watch has seen it: of each one that waits, no more is in memory than the queue needs.
#[derive(Debug, Deserialize)]
#[serde(from = "QueuedJob")]
pub(crate) struct SeenJob {
    key: Arc<ObjectKey>,
    pub(crate) job: Arc<QueuedJob>,
}

impl From<QueuedJob> for SeenJob {
    fn from(job: QueuedJob) -> Self {
        let Key { namespace, name } = &*job.key;
        Self { key: Arc::new(ObjectKey::new(&**namespace, &**name)), job: Arc::new(job) }
    }
}

impl Watched for SeenJob {
    fn key(&self) -> Arc<ObjectKey> {
        Arc::clone(&self.key)
    }

    fn uid(&self) -> Option<&str> {
        Some(&*self.job.uid).filter(|uid| !uid.is_empty())
    }

    fn version(&self) -> Option<&str> {
        Some(&*self.job.version).filter(|version| !version.is_empty())
    }
}

/// Takes in what the watch sees.
pub(crate) struct Notifications {
    queue: Queue,
    metrics: JobMetrics,
    clock: Arc<dyn Clock>,
    /// Whether each new job is logged: `provisioning-jobs` does, the queue alone does not.
    log: bool,
    synced: bool,
}

impl Notifications {
    pub(crate) fn new(queue: Queue, metrics: JobMetrics, clock: Arc<dyn Clock>, log: bool) -> Self {
        Self { queue, metrics, clock, log, synced: false }
    }

    pub(crate) fn handle(&mut self, event: Event<SeenJob>) {
        match event {
            Event::Applied { old, new } => {
                let job = &new.job;
                self.queue.observe(QueueEvent::Applied(Arc::clone(job)));
                if old.is_none() {
                    let latency = self.clock.now().duration_since(job.created).try_into().unwrap_or_default();
                    self.metrics.notified(if self.synced { "live" } else { "initial" }, latency);
                    self.log_new(job);
                }
            }
            Event::Deleted(seen) => {
                let (key, uid) = (Key::clone(&seen.job.key), (*seen.job.uid).to_owned());
                self.queue.observe(QueueEvent::Deleted { key, uid });
            }
            Event::Synced => {
                self.synced = true;
                self.queue.tick();
            }
        }
    }

    fn log_new(&self, job: &QueuedJob) {
        if !self.log {
            return;
        }
        tracing::info!(
            logger = "provisioning-job-controller",
            namespace = job.key.namespace,
            job = job.key.name,
            action = job.action.as_str(),
            repository = &*job.repository,
            "job create notification received"
        );
    }
}
