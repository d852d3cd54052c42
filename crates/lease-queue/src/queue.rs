//! The queue as one replica sees it: what comes in, what is claimed next, what is cleaned up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};
use windlass_api::{JobState, labels};

use crate::archive::{self, Ending};
use crate::config::{ConfigError, QueueConfig};
use crate::history::{self, HistoryLimits, Pruned, StoreTime};
use crate::job::QueuedJob;
use crate::lease::{Hold, Lease, LeaseError};
use crate::observer::{Observer, Reaper, Unobserved};
use crate::peers::Peers;
use crate::schedule::{Candidate, Pick, Schedule};
use crate::status;
use crate::store::{Change, Clock, Key, Record, Store, StoreError};

/// What a job is filed with whose worker vanished too often. Others key on the exact text.
pub const LEASE_EXPIRED: &str = "Job failed due to lease expiry - worker may have crashed or lost connection";

/// One replica's end of a queue. Cheap to clone; clones share what they know.
#[derive(Clone)]
pub struct Queue {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Arc<QueueConfig>,
    pub(crate) observer: Arc<dyn Observer>,
    schedule: Mutex<Schedule>,
    store_time: Mutex<StoreTime>,
    changed: Notify,
}

/// Something that a watch of the store has seen.
#[derive(Clone, Debug)]
pub enum Event {
    /// A job was created or written.
    Applied(Arc<QueuedJob>),
    /// A job is gone.
    Deleted {
        /// Where it was.
        key: Key,
        /// Which one it was.
        uid: String,
    },
}

impl Event {
    /// The event that a job was created or written.
    pub fn applied(job: impl Into<QueuedJob>) -> Self {
        Self::Applied(Arc::new(job.into()))
    }
}

/// A job that is this driver's to run, with the lease on it.
#[derive(Debug)]
pub struct Claimed {
    record: Arc<Record>,
    lease: Lease,
}

impl Claimed {
    /// The job as it was when the claim was granted.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The job and its lease apart.
    pub fn into_parts(self) -> (Arc<Record>, Lease) {
        (self.record, self.lease)
    }
}

impl Queue {
    /// A replica's end of the queue in `store`. It knows of no job before [`Queue::observe`] or [`Queue::relist`].
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        config: QueueConfig,
    ) -> Result<Self, ConfigError> {
        Self::observed_by(store, clock, config, Arc::new(Unobserved))
    }

    /// The same, telling `observer` what happens.
    pub fn observed_by(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        config: QueueConfig,
        observer: Arc<dyn Observer>,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let config = Arc::new(config);
        let schedule = Mutex::new(Schedule::new(Arc::clone(&config)));
        let (store_time, changed) = (Mutex::default(), Notify::new());
        let inner = Inner { store, clock, config, observer, schedule, store_time, changed };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Takes in what a watch has seen. Late, repeated and missing events cost time, never correctness.
    pub fn observe(&self, event: Event) {
        match event {
            Event::Applied(job) => {
                let (mut schedule, now) = (self.inner.schedule(), Instant::now());
                schedule.told(&job, now);
                schedule.applied(job, now);
            }
            Event::Deleted { key, uid } => self.inner.schedule().deleted(&key, &uid),
        }
        self.inner.changed.notify_waiters();
    }

    /// Takes in the whole queue: a job that is not among `records` is gone.
    pub fn resync(&self, records: Vec<Record>) {
        let jobs = records.into_iter().map(|record| Arc::new(QueuedJob::from(&record))).collect();
        self.inner.schedule().replace_all(jobs, Instant::now());
        self.tick();
    }

    /// Reads the whole queue from the store.
    pub async fn relist(&self) -> Result<(), StoreError> {
        let records = self.inner.store.list().await?;
        self.resync(records);
        Ok(())
    }

    /// Looks again at every job that is known, those included whose claims failed too often. To be called periodically.
    pub fn tick(&self) {
        self.inner.schedule().tick(Instant::now());
        self.inner.changed.notify_waiters();
    }

    /// How many known jobs wait, and how many are claimed by anybody.
    pub fn depth(&self) -> (usize, usize) {
        self.inner.schedule().depth()
    }

    /// How long a claim holds that is not renewed.
    pub fn lease_expiry(&self) -> Duration {
        self.inner.config.lease_expiry
    }

    #[cfg(test)]
    pub(crate) fn into_inner(self) -> Arc<Inner> {
        self.inner
    }

    /// The next job for a driver to run, or `None` once `stop` is cancelled.
    ///
    /// `driver` is a number for the [`Observer`]. A claim that is under way is carried through after `stop`, and given
    /// back. A caller that drops the future instead may leave a claim behind; this replica then takes it up again at
    /// once, others when it has lapsed.
    pub async fn next(&self, driver: usize, stop: &CancellationToken) -> Option<Claimed> {
        loop {
            let changed = self.inner.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if stop.is_cancelled() {
                return None;
            }
            let pick = self.inner.schedule().pick(Instant::now());
            let until = match pick {
                Pick::Claim(candidate) => {
                    let Some(claimed) = self.claim(driver, candidate).await else { continue };
                    if !stop.is_cancelled() {
                        return Some(claimed);
                    }
                    if let Err(error) = claimed.lease.release().await {
                        warn!(job = %claimed.record.key, %error, "failed to give a claim back at shutdown");
                    }
                    return None;
                }
                Pick::Wait(until) => Some(until),
                Pick::Idle => None,
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                () = &mut changed => {}
                () = sleep_until(until) => {}
            }
        }
    }

    /// One try to claim `candidate`: one write, from our copy of it.
    async fn claim(&self, driver: usize, candidate: Candidate) -> Option<Claimed> {
        let inner = &self.inner;
        let record = &candidate.record;
        let mut attempt = ClaimAttempt { inner, record, sent: None };
        if candidate.stale {
            match inner.store.get(&record.key).await {
                Ok(newest) => inner.schedule().refreshed(queued(&newest), Instant::now()),
                Err(StoreError::NotFound) => inner.schedule().deleted(&record.key, &record.uid),
                Err(error) => self.claim_failed(driver, record, &error),
            }
            return None;
        }

        let owner = Peers::token(&inner.config.replica);
        let number = if candidate.unanswered {
            record.attempts.max(1)
        } else {
            (record.attempts + 1).min(inner.config.max_attempts)
        };
        let change = self.claim_change(record, &owner, number);
        let sent = Instant::now();
        inner.schedule().sending(&owner, sent);
        attempt.sent = Some(owner.clone());
        let answer = inner.store.patch(&record.key, &record.precondition(), &change).await;
        match answer {
            Ok(claimed) => {
                attempt.sent = None;
                let wait = inner.now().duration_since(record.created).try_into().unwrap_or(Duration::ZERO);
                inner.observer.claimed(driver, record.action.as_str(), wait);
                debug!(job = %record.key, uid = %record.uid, attempt = number, driver, "claimed a job");
                // Whoever claimed it before may have run it, under a claim of ours that was not answered too.
                let first = record.attempts == 0;
                let lease =
                    Lease::start(Arc::clone(inner), Hold { driver, owner, attempt: number }, claimed, sent);
                drop(attempt);
                self.after_claim(lease, first).await
            }
            Err(StoreError::Conflict) => {
                attempt.sent = None;
                inner.observer.conflict(driver);
                inner.schedule().conflict(record, Instant::now());
                None
            }
            Err(StoreError::NotFound) => {
                attempt.sent = None;
                inner.schedule().deleted(&record.key, &record.uid);
                None
            }
            Err(error) => {
                if !error.transient() {
                    attempt.sent = None;
                }
                self.claim_failed(driver, record, &error);
                None
            }
        }
    }

    fn claim_failed(&self, driver: usize, record: &QueuedJob, error: &StoreError) {
        warn!(job = %record.key, %error, "failed to claim a job");
        self.inner.observer.claim_failed(driver);
        self.inner.schedule().failed(record, Instant::now());
    }

    fn claim_change(&self, job: &QueuedJob, owner: &str, number: u32) -> Change {
        let now = self.inner.now();
        let change = Change::default()
            .set(labels::CLAIM, now.as_millisecond().to_string())
            .set(labels::CLAIM_OWNER, owner)
            .set(labels::ATTEMPT, number.to_string());
        if job.state.is_finished() { change } else { change.status(Some(status::claimed(now))) }
    }

    /// What has to be looked at before a claimed job may run: whether an earlier attempt has ended it already, and whether
    /// another job of the same repository runs.
    async fn after_claim(&self, lease: Lease, first: bool) -> Option<Claimed> {
        let record = lease.record().await;
        let outcome = if record.finished() {
            info!(job = %record.key, "filing a job that had ended but was left in the queue");
            lease.complete_as(record.status.clone()).await
        } else {
            match self.obstacle(&record, first).await {
                Ok(None) => return Some(Claimed { record, lease }),
                Ok(Some(Obstacle::Ended)) => {
                    info!(job = %record.key, "removing a job that is in history already");
                    lease.discard().await
                }
                Ok(Some(Obstacle::Excluded(other))) => {
                    debug!(job = %record.key, other = %other.key, "giving a job back since another of its repository runs");
                    self.inner.observer.yielded(lease.driver());
                    let pause = self.inner.schedule().yields(&queued(&record), &queued(&other));
                    lease.release_for(pause).await
                }
                Err(error) => {
                    warn!(job = %record.key, %error, "failed to look whether a job may run");
                    lease.release().await
                }
            }
        };
        if let Err(error) = outcome {
            warn!(job = %record.key, %error, "failed to settle a job that was claimed again");
        }
        None
    }

    /// Why a claimed job may not run.
    async fn obstacle(&self, record: &Record, first: bool) -> Result<Option<Obstacle>, StoreError> {
        if !first {
            match self.inner.store.history_contains(&archive::history_key(record)).await {
                Ok(true) => return Ok(Some(Obstacle::Ended)),
                // Nothing is kept there.
                Ok(false) | Err(StoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.excluded_by(record).await?.map(|other| Obstacle::Excluded(Box::new(other))))
    }

    /// Another job of the exclusion key of `record` that may be worked on. To be asked once `record` is claimed: of two
    /// replicas that claim two such jobs at the same time, the one that reads later sees the other's claim, so that at
    /// most one of them goes on.
    async fn excluded_by(&self, record: &Record) -> Result<Option<Record>, StoreError> {
        let Some(exclusion) = record.exclusion() else { return Ok(None) };
        let claimed = self.inner.store.list_claimed(&exclusion.namespace).await?;
        let (schedule, now) = (self.inner.schedule(), Instant::now());
        let mut others = claimed.into_iter().filter(|other| other.uid != record.uid);
        Ok(others.find(|other| {
            other.claimed()
                && other.exclusion().as_ref() == Some(&exclusion)
                && !schedule.has_lapsed(&queued(other), now)
        }))
    }

    /// Fails and files each job whose attempts are used up and whose last lease has lapsed. Answers how many.
    pub async fn reap(&self) -> usize {
        self.reap_for(&()).await
    }

    async fn reap_for(&self, reaper: &dyn Reaper) -> usize {
        let exhausted = self.inner.schedule().exhausted(Instant::now());
        let mut count = 0;
        for record in exhausted {
            match self.reap_one(&record, reaper).await {
                Ok(Some(job)) => {
                    count += 1;
                    self.inner.observer.reaped(&job);
                    reaper.reaped(&job).await;
                }
                Ok(None) => debug!(job = %record.key, "somebody else has seen to the job"),
                Err(error) => warn!(job = %record.key, %error, "failed to reap a job"),
            }
        }
        count
    }

    /// Takes the job over, so that its last owner can write to it no more, files it, removes it.
    async fn reap_one(&self, job: &QueuedJob, reaper: &dyn Reaper) -> Result<Option<Record>, LeaseError> {
        let inner = &self.inner;
        let owner = Peers::token(&inner.config.replica);
        let now = inner.now().as_millisecond();
        let change =
            Change::default().set(labels::CLAIM, now.to_string()).set(labels::CLAIM_OWNER, owner.as_str());
        let sent = Instant::now();
        let taken = match inner.store.patch(&job.key, &job.precondition(), &change).await {
            Ok(taken) => taken,
            Err(StoreError::NotFound) => {
                inner.schedule().deleted(&job.key, &job.uid);
                return Ok(None);
            }
            Err(StoreError::Conflict) => {
                // Our copy may be one that the watch never replaced: read it, or the reaper would trip over it for ever.
                match inner.store.get(&job.key).await {
                    Ok(newest) => inner.schedule().refreshed(queued(&newest), Instant::now()),
                    Err(StoreError::NotFound) => inner.schedule().deleted(&job.key, &job.uid),
                    Err(error) => return Err(LeaseError::Store(error)),
                }
                return Ok(None);
            }
            Err(error) => return Err(LeaseError::Store(error)),
        };
        let status = if taken.finished() {
            // Its last worker had come to an end, and vanished before it filed the job.
            taken.status.clone()
        } else {
            let mut failed = status::typed(&taken.status);
            failed.state = JobState::Error;
            LEASE_EXPIRED.clone_into(&mut failed.message);
            failed.finished = now;
            failed.progress = 0.0;
            status::merged(&taken.status, &failed)
        };
        let hold = Hold { driver: usize::MAX, owner, attempt: job.attempts };
        let annotations = reaper.annotations(&taken);
        let lease = Lease::start(Arc::clone(inner), hold, taken.clone(), sent);
        lease.complete_as(Ending { status, annotations }).await.map(|()| Some(taken))
    }

    /// Reaps whenever there is something to reap, looking at least `every` so often, until `stop` is cancelled. `reaper` is
    /// told of each job.
    pub async fn run_reaper_for(&self, every: Duration, reaper: &dyn Reaper, stop: &CancellationToken) {
        loop {
            self.reap_for(reaper).await;
            let next = self.inner.schedule().next_exhausted();
            let now = Instant::now();
            // At least a second apart, so that a job that cannot be reaped does not keep the store busy.
            let until =
                next.unwrap_or(now + every).clamp(now + Duration::from_secs(1).min(every), now + every);
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(until) => {}
            }
        }
    }

    /// Deletes from history what `limits` leave no room for. Any number of replicas may do so at the same time.
    pub async fn prune(&self, limits: HistoryLimits) -> Result<Pruned, StoreError> {
        let queued = self.inner.schedule().uids();
        let pruned = history::prune(&*self.inner.store, limits, &self.inner.store_time, &queued).await;
        for (why, count) in pruned.counts() {
            self.inner.observer.pruned(why, count);
        }
        pruned.into_result()
    }
}

pub(crate) fn queued(record: &Record) -> Arc<QueuedJob> {
    Arc::new(record.into())
}

/// Why a claimed job may not run.
enum Obstacle {
    /// It is in history.
    Ended,
    /// Another job of its exclusion key is claimed.
    Excluded(Box<Record>),
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("config", &self.inner.config).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn schedule(&self) -> MutexGuard<'_, Schedule> {
        // Nothing in there is left half done by a panic that would not be seen again at the next write.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn wake(&self) {
        self.changed.notify_waiters();
    }
}

/// A claim under way. However it ends, also by being dropped, the schedule hears of it.
struct ClaimAttempt<'a> {
    inner: &'a Inner,
    record: &'a QueuedJob,
    /// The token of a claim that was sent and not answered.
    sent: Option<String>,
}

impl Drop for ClaimAttempt<'_> {
    fn drop(&mut self) {
        let mut schedule = self.inner.schedule();
        if let Some(owner) = &self.sent {
            schedule.unanswered(&self.record.uid, owner);
        }
        schedule.settle(&self.record.key, Instant::now());
        drop(schedule);
        self.inner.wake();
    }
}

async fn sleep_until(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}
