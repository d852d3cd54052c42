//! What the queue tells whoever counts.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use crate::history::PruneReason;
use crate::store::Record;

/// Called as things happen, on the task that they happen on: must not block. Every method does nothing by default.
pub trait Observer: Send + Sync + 'static {
    /// A driver won a claim. `wait` is the time since the job was created.
    fn claimed(&self, driver: usize, action: &str, wait: Duration) {
        let _ = (driver, action, wait);
    }

    /// A driver's claim met a newer version of the job: somebody else was quicker.
    fn conflict(&self, driver: usize) {
        let _ = driver;
    }

    /// A driver gave a claim back, since another job of the same repository was claimed at the same time.
    fn yielded(&self, driver: usize) {
        let _ = driver;
    }

    /// A driver's claim failed for another reason.
    fn claim_failed(&self, driver: usize) {
        let _ = driver;
    }

    /// A claimed job is now this driver's to run. Followed by exactly one [`Observer::ended`].
    fn started(&self, driver: usize, action: &str) {
        let _ = (driver, action);
    }

    /// The driver's hold on the job is over, `busy` after it began.
    fn ended(&self, driver: usize, action: &str, busy: Duration, end: End) {
        let _ = (driver, action, busy, end);
    }

    /// So many records were deleted from history.
    fn pruned(&self, why: PruneReason, count: u64) {
        let _ = (why, count);
    }

    /// A job whose attempts were used up was failed and filed.
    fn reaped(&self, job: &Record) {
        let _ = job;
    }
}

/// Has something to say of the jobs that are failed and filed since their attempts are used up.
#[async_trait]
pub trait Reaper: Send + Sync {
    /// Annotations for the job's record in history, beside its own.
    fn annotations(&self, job: &Record) -> BTreeMap<String, String> {
        let _ = job;
        BTreeMap::new()
    }

    /// The job is in history and out of the queue.
    async fn reaped(&self, job: &Record) {
        let _ = job;
    }
}

/// Says nothing.
impl Reaper for () {}

/// How a driver's hold on a job came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The job is in history and out of the queue.
    Completed,
    /// It was given back for another replica to run.
    Released,
    /// The lease was lost, or given up without a word.
    Abandoned,
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
