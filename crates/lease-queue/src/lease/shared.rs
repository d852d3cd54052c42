//! What a lease and its guards share: the job as last written, and every write to it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::warn;
use windlass_api::{JobState, JobStatus, labels};

use crate::archive::{self, Ending};
use crate::queue::{Inner, queued};
use crate::status;
use crate::store::{Change, Key, Record, StoreError};

/// How often one write is tried when it meets newer versions of the job.
const TRIES: usize = 3;

/// Why something could not be done under a lease.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The lease is lost, or over: nothing may be written any more.
    #[error("the lease on the job is lost")]
    Lost,
    /// The store failed; the lease still holds.
    #[error("failed to write to the job")]
    Store(#[source] StoreError),
}

/// Who holds.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) driver: usize,
    pub(crate) owner: String,
    pub(crate) attempt: u32,
}

/// What a lease and its guards share.
pub(super) struct Shared {
    pub(super) queue: Arc<Inner>,
    pub(super) key: Key,
    pub(super) uid: String,
    pub(super) action: String,
    pub(super) hold: Hold,
    pub(super) began: Instant,
    /// Held for the length of a write, so that renewals and progress do not trip over each other's versions.
    pub(super) current: tokio::sync::Mutex<Current>,
    /// When the last request was sent that was applied: from then on the lease counts.
    pub(super) renewed: Mutex<Instant>,
    pub(super) lost: CancellationToken,
}

/// How far the job is.
pub(super) struct Current {
    pub(super) record: Arc<Record>,
    /// The job has ended: no more progress.
    pub(super) ending: bool,
    /// Filing was tried, so that the job may be in history.
    pub(super) filing: bool,
    /// It is in history.
    pub(super) filed: bool,
}

impl Shared {
    pub(super) fn fence(&self) -> Instant {
        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) + self.queue.config.lease_valid_for()
    }

    /// What is past the fence is lost for good: a renewal that is answered later changes nothing, since others may have
    /// taken the lease for lapsed.
    pub(super) fn valid(&self) -> bool {
        if Instant::now() >= self.fence() {
            self.lose("it was not renewed in time");
        }
        !self.lost.is_cancelled()
    }

    pub(super) fn check(&self) -> Result<(), LeaseError> {
        if self.valid() { Ok(()) } else { Err(LeaseError::Lost) }
    }

    pub(super) fn lose(&self, reason: &str) -> LeaseError {
        if !self.lost.is_cancelled() {
            warn!(job = %self.key, uid = %self.uid, reason, "lost the lease on a job");
            self.lost.cancel();
        }
        LeaseError::Lost
    }

    /// The reaper's holds are nobody's drive.
    pub(super) fn observed(&self, tell: impl FnOnce(&Self, usize)) {
        if self.hold.driver != usize::MAX {
            tell(self, self.hold.driver);
        }
    }

    /// Applies a change to the job: based on our copy, or on a newer one that is still ours. Each write is a renewal too.
    async fn write(
        &self,
        current: &mut Current,
        change: impl Fn(&Record) -> Option<Change>,
    ) -> Result<(), LeaseError> {
        for _ in 0..TRIES {
            self.check()?;
            let Some(change) = change(&current.record) else { return Ok(()) };
            let sent = Instant::now();
            let expected = current.record.precondition();
            match self.queue.store.patch(&self.key, &expected, &change).await {
                Ok(record) => {
                    // An answer that comes past the fence renews nothing.
                    if self.valid() {
                        *self.renewed.lock().unwrap_or_else(PoisonError::into_inner) = sent;
                    }
                    self.queue.schedule().applied(queued(&record), Instant::now());
                    current.record = Arc::new(record);
                    return Ok(());
                }
                Err(StoreError::Conflict) => self.refresh(current).await?,
                Err(StoreError::NotFound) => {
                    self.queue.schedule().deleted(&self.key, &self.uid);
                    return Err(self.lose("the job was deleted"));
                }
                Err(error) => return Err(LeaseError::Store(error)),
            }
        }
        Err(LeaseError::Store(StoreError::Conflict))
    }

    /// Reads the job again and makes sure that it is still ours.
    async fn refresh(&self, current: &mut Current) -> Result<(), LeaseError> {
        match self.queue.store.get(&self.key).await {
            Ok(newest) => {
                let ours = newest.uid == self.uid && newest.owner() == Some(self.hold.owner.as_str());
                self.queue.schedule().applied(queued(&newest), Instant::now());
                if !ours {
                    return Err(self.lose("the job belongs to somebody else"));
                }
                current.record = Arc::new(newest);
                Ok(())
            }
            Err(StoreError::NotFound) => {
                self.queue.schedule().deleted(&self.key, &self.uid);
                Err(self.lose("the job was deleted"))
            }
            Err(error) => Err(LeaseError::Store(error)),
        }
    }

    /// The owner is said again in each write: no matter how a store treats preconditions, a record tells who wrote it.
    fn renewing(&self) -> Change {
        Change::default()
            .set(labels::CLAIM, self.queue.now().as_millisecond().to_string())
            .set(labels::CLAIM_OWNER, self.hold.owner.as_str())
    }

    pub(super) async fn renew(&self) -> Result<(), LeaseError> {
        let mut current = self.current.lock().await;
        self.write(&mut current, |_| Some(self.renewing())).await
    }

    pub(super) async fn progress(&self, status: JobStatus) -> Result<(), LeaseError> {
        let mut current = self.current.lock().await;
        if current.ending {
            return Err(LeaseError::Lost);
        }
        self.write(&mut current, |record| {
            let written = status::progress_updates(&record.status);
            let mut status = status.clone();
            status.progress_updates = written;
            if status.state == JobState::Unset {
                status.state = JobState::Working;
            }
            if status.started == 0 {
                status.started = status::typed(&record.status).started;
            }
            status::patch(&record.status, &status)?;
            status.progress_updates = written + 1;
            Some(self.renewing().status(status::patch(&record.status, &status)))
        })
        .await
    }

    pub(super) async fn try_complete(&self, ending: &Ending) -> Result<(), LeaseError> {
        let mut current = self.current.lock().await;
        current.ending = true;
        if !current.filed {
            self.check()?;
            if !self.queue.store.history_is_durable() {
                self.write_end(&mut current, ending).await?;
            }
            current.filing = true;
            archive::file(&*self.queue.store, &current.record, ending.clone())
                .await
                .map_err(LeaseError::Store)?;
            current.filed = true;
        }
        let mut record = Record::clone(&current.record);
        let removed = archive::remove(&*self.queue.store, &mut record, &self.hold.owner).await;
        current.record = Arc::new(record);
        removed.map_err(LeaseError::Store)
    }

    /// Says in the job itself that it has ended. A store that takes no more than a few words gets those.
    async fn write_end(&self, current: &mut Current, ending: &Ending) -> Result<(), LeaseError> {
        let whole = status::typed(&ending.status);
        let brief = JobStatus {
            state: whole.state,
            started: whole.started,
            finished: whole.finished,
            progress_updates: whole.progress_updates,
            message: crate::progress::cut(&whole.message),
            ..JobStatus::default()
        };
        for status in [whole, brief] {
            let change = |record: &Record| {
                let patch = status::patch(&record.status, &status)?;
                Some(self.renewing().status(Some(patch)))
            };
            match self.write(current, change).await {
                Err(LeaseError::Store(StoreError::Refused(reason))) => {
                    warn!(job = %self.key, reason, "the store refused the end of a job");
                }
                other => return other,
            }
        }
        Ok(())
    }

    pub(super) async fn try_release(&self) -> Result<(), LeaseError> {
        let mut current = self.current.lock().await;
        current.ending = true;
        let attempt = if current.filing { self.hold.attempt } else { self.hold.attempt.saturating_sub(1) };
        self.write(&mut current, |record| {
            let pending = JobStatus {
                state: JobState::Pending,
                progress_updates: status::progress_updates(&record.status),
                ..JobStatus::default()
            };
            let change = Change::default()
                .remove(labels::CLAIM)
                .remove(labels::CLAIM_OWNER)
                .status(status::patch(&record.status, &pending));
            Some(if attempt == 0 {
                change.remove(labels::ATTEMPT)
            } else {
                change.set(labels::ATTEMPT, attempt.to_string())
            })
        })
        .await
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("job", &self.key).field("uid", &self.uid).finish_non_exhaustive()
    }
}
