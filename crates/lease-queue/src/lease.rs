//! The right to run one job, for as long as it is kept up.
//!
//! Three things guard it. The *record*: each write carries the job's uid and the version it is based on, so that a write
//! from before a take-over is refused. The *fence*: the holder counts, on its own monotonic clock and from before it sent
//! the renewal, a little less time than anybody who watches waits for; what is past the fence is lost, even if no request
//! could be made. The *watch*: a newer version under another owner ends the lease at once.

mod shared;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBuilder, Retryable as _};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};
use windlass_api::JobStatus;

pub(crate) use self::shared::Hold;
pub use self::shared::LeaseError;
use self::shared::{Current, Shared};
use crate::archive::{self, Ending};
use crate::observer::End;
use crate::queue::{Inner, queued};
use crate::status;
use crate::store::Record;

#[cfg(test)]
mod tests;

/// So many renewals in a row may fail.
const RENEWAL_FAILURES: u32 = 3;
/// Between tries to end a job, or to give it back, while the store is out of reach.
const BACKOFF: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(100))
    .with_max_delay(Duration::from_secs(5));
/// So often it is tried again to give a job back, whose lease lapses in the end.
const RELEASE_RETRIES: usize = 3;

/// The right to run a job. Renewed in the background until it is completed, released, lost or dropped. Dropping it without
/// a word leaves the claim to lapse.
#[derive(Debug)]
pub struct Lease {
    shared: Arc<Shared>,
    renewal: JoinHandle<()>,
    end: End,
    /// How long this replica leaves the job alone, unless it has ended.
    pause: Duration,
}

/// What a worker needs of a lease. Cheap to clone; outlives the lease without keeping it up.
#[derive(Clone, Debug)]
pub struct LeaseGuard {
    shared: Arc<Shared>,
}

impl Lease {
    /// Takes up a claim that was granted: `record` is the store's answer to the request sent at `sent`.
    pub(crate) fn start(queue: Arc<Inner>, hold: Hold, record: Record, sent: Instant) -> Self {
        let lost = CancellationToken::new();
        let now = Instant::now();
        queue.schedule().hold(queued(&record), &hold.owner, lost.clone(), now);
        let shared = Arc::new(Shared {
            key: record.key.clone(),
            uid: record.uid.clone(),
            action: record.action().to_owned(),
            hold,
            began: now,
            current: tokio::sync::Mutex::new(Current {
                record: Arc::new(record),
                ending: false,
                filing: false,
                filed: false,
            }),
            renewed: Mutex::new(sent),
            lost,
            queue,
        });
        shared.observed(|shared, driver| shared.queue.observer.started(driver, &shared.action));
        let renewal = tokio::spawn(keep(Arc::clone(&shared)));
        let pause = shared.queue.config.cool_down;
        Self { shared, renewal, end: End::Abandoned, pause }
    }

    /// What a worker, or several, may have of it.
    pub fn guard(&self) -> LeaseGuard {
        LeaseGuard { shared: Arc::clone(&self.shared) }
    }

    /// Cancelled when the lease is lost or over; the worker stops before its next write.
    pub fn lost(&self) -> CancellationToken {
        self.shared.lost.clone()
    }

    /// Whether the lease still holds at this moment. To be asked before each write to something else than the job: after
    /// a pause of the process it knows what [`Lease::lost`] has not been told yet.
    pub fn valid(&self) -> bool {
        self.shared.valid()
    }

    /// Which attempt at the job this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.shared.hold.attempt
    }

    pub(crate) fn driver(&self) -> usize {
        self.shared.hold.driver
    }

    /// The job as last written under this lease.
    pub async fn record(&self) -> Arc<Record> {
        Arc::clone(&self.shared.current.lock().await.record)
    }

    /// Writes the job's status. See [`LeaseGuard::progress`].
    pub async fn progress(&self, status: JobStatus) -> Result<(), LeaseError> {
        self.shared.progress(status).await
    }

    /// Ends the job: files it with `status`, then takes it out of the queue. The count of writes is filled in, and the
    /// times where they are missing. While the store is out of reach and the lease
    /// holds, it is tried again.
    ///
    /// [`LeaseError::Lost`]: somebody else runs the job, or has ended it. [`LeaseError::Store`]: the claim will lapse, and
    /// whoever takes it over finds out whether the job was filed.
    pub async fn complete(self, status: JobStatus) -> Result<(), LeaseError> {
        self.complete_with(status, BTreeMap::new()).await
    }

    /// [`Lease::complete`] with annotations for the record in history, beside the job's own.
    pub async fn complete_with(
        self,
        mut status: JobStatus,
        annotations: BTreeMap<String, String>,
    ) -> Result<(), LeaseError> {
        let record = self.record().await;
        status.progress_updates = status::progress_updates(&record.status) + 1;
        if status.started == 0 {
            status.started = status::typed(&record.status).started;
        }
        if status.finished == 0 {
            status.finished = self.shared.queue.now().as_millisecond();
        }
        let status = status::merged(&record.status, &status);
        self.complete_as(Ending { status, annotations }).await
    }

    /// [`Lease::complete`] with a status that is already whole.
    pub(crate) async fn complete_as(mut self, ending: impl Into<Ending>) -> Result<(), LeaseError> {
        let ending = ending.into();
        let shared = Arc::clone(&self.shared);
        let until = Instant::now() + shared.queue.config.complete_for;
        let mut delays = BACKOFF.without_max_times().build();
        loop {
            let error = match shared.try_complete(&ending).await {
                Ok(()) => break,
                Err(LeaseError::Store(error)) if error.transient() => error,
                Err(error) => return Err(error),
            };
            let Some(delay) = delays.next().filter(|delay| Instant::now() + *delay < until) else {
                return Err(LeaseError::Store(error));
            };
            warn!(job = %shared.key, %error, "failed to end the job, will try again");
            tokio::select! {
                biased;
                () = shared.lost.cancelled() => {
                    // In history it has ended, whoever removes it.
                    if shared.current.lock().await.filed {
                        break;
                    }
                    return Err(LeaseError::Lost);
                }
                () = tokio::time::sleep(delay) => {}
            }
        }
        self.completed();
        Ok(())
    }

    /// Takes the job out of the queue without filing it: an earlier attempt did.
    pub(crate) async fn discard(mut self) -> Result<(), LeaseError> {
        self.shared.check()?;
        let mut current = self.shared.current.lock().await;
        let mut record = Record::clone(&current.record);
        archive::remove(&*self.shared.queue.store, &mut record, &self.shared.hold.owner)
            .await
            .map_err(LeaseError::Store)?;
        current.ending = true;
        drop(current);
        self.completed();
        Ok(())
    }

    /// Gives the job back, so that another replica can claim it at once. The attempt does not count, unless the job may
    /// already be in history. This replica leaves the job alone for a while.
    pub async fn release(mut self) -> Result<(), LeaseError> {
        let release = || self.shared.try_release();
        release
            .retry(BACKOFF.with_max_times(RELEASE_RETRIES))
            .sleep(tokio::time::sleep)
            .when(|error| matches!(error, LeaseError::Store(error) if error.transient()))
            .notify(|error, _| {
                warn!(job = %self.shared.key, %error, "failed to give the job back, will try again");
            })
            .await?;
        self.end = End::Released;
        Ok(())
    }

    /// [`Lease::release`] with another time for which this replica leaves the job alone.
    pub(crate) async fn release_for(mut self, pause: Duration) -> Result<(), LeaseError> {
        self.pause = pause;
        self.release().await
    }

    fn completed(&mut self) {
        self.end = End::Completed;
        self.shared.queue.schedule().deleted(&self.shared.key, &self.shared.uid);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewal.abort();
        let shared = &self.shared;
        shared.lost.cancel();
        let pause = (self.end != End::Completed).then_some(self.pause);
        shared.queue.schedule().unhold(&shared.uid, pause, Instant::now());
        shared.queue.wake();
        shared.observed(|shared, driver| {
            shared.queue.observer.ended(driver, &shared.action, shared.began.elapsed(), self.end);
        });
    }
}

impl LeaseGuard {
    /// See [`Lease::lost`].
    pub fn lost(&self) -> CancellationToken {
        self.shared.lost.clone()
    }

    /// See [`Lease::valid`].
    pub fn valid(&self) -> bool {
        self.shared.valid()
    }

    /// Writes the job's status and renews the lease with it. An empty state is taken for `working`, and the time of the
    /// start and the count of writes are filled in. Writes that say nothing new are not made.
    pub async fn progress(&self, status: JobStatus) -> Result<(), LeaseError> {
        self.shared.progress(status).await
    }
}

/// Keeps a lease up until it is lost or aborted.
async fn keep(shared: Arc<Shared>) {
    let config = Arc::clone(&shared.queue.config);
    let mut failures = 0;
    let mut tried = shared.began;
    loop {
        let renewed = *shared.renewed.lock().unwrap_or_else(PoisonError::into_inner);
        // A progress write renews too. After a failure the next tries come sooner, so that all of them fit before the fence.
        let due = if failures == 0 { renewed + config.renewal } else { tried + config.renewal * 3 / 4 };
        let fence = shared.fence();
        if Instant::now() >= fence {
            shared.lose("it was not renewed in time");
            return;
        }
        if Instant::now() < due {
            tokio::select! {
                biased;
                () = shared.lost.cancelled() => return,
                () = tokio::time::sleep_until(due.min(fence)) => continue,
            }
        }
        tried = Instant::now();
        let renewal = tokio::select! {
            biased;
            () = shared.lost.cancelled() => return,
            renewal = shared.renew() => renewal,
            // It may have moved: a progress write that was under way renews as well.
            () = tokio::time::sleep_until(fence) => continue,
        };
        match renewal {
            Ok(()) => {
                debug!(job = %shared.key, "renewed the lease on a job");
                failures = 0;
            }
            Err(LeaseError::Lost) => return,
            Err(LeaseError::Store(error)) => {
                failures += 1;
                warn!(job = %shared.key, %error, failures, "failed to renew the lease on a job");
                if failures >= RENEWAL_FAILURES {
                    shared.lose("its renewal failed too often");
                    return;
                }
            }
        }
    }
}
