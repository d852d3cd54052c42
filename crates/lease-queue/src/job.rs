//! What the queue keeps of a job.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_api::{JobAction, JobState};

use crate::store::{Key, Precondition, Record};

/// What the queue keeps of a job, since there may be many thousands: which one it is, what it excludes, since when it waits
/// and who has claimed it. Whoever claims it is answered the whole [`Record`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedJob {
    /// Where it is.
    pub key: Arc<Key>,
    /// Which of all jobs that ever had this key it is.
    pub uid: Box<str>,
    /// Changes with each write; opaque, though two that are both decimal numbers are taken to be ordered.
    pub version: Box<str>,
    /// When it was created, by the store's clock.
    pub created: Timestamp,
    /// Deletion was asked for and waits for somebody's finalizer.
    pub deleting: bool,
    /// The repository that it is for; empty for none.
    pub repository: Box<str>,
    /// What is to be done.
    pub action: JobAction,
    /// How far it has got.
    pub state: JobState,
    /// Whether somebody holds a claim on it, live or lapsed.
    pub claimed: bool,
    /// The token of the claim's owner. `None` with a claim present means an owner from before tokens.
    pub owner: Option<Box<str>>,
    /// How often it has been claimed and not handed back. A claim by a worker that does not count them is one.
    pub attempts: u32,
}

impl QueuedJob {
    /// What the job excludes: of the jobs with one key, its namespace and repository, one runs at a time. Nothing for a job
    /// that touches no repository: `test`, and one that names none.
    pub fn exclusion(&self) -> Option<Key> {
        self.is_exclusive().then(|| Key::new(&*self.key.namespace, &*self.repository))
    }

    /// Whether there is a repository that it touches.
    pub(crate) fn is_exclusive(&self) -> bool {
        !self.repository.is_empty() && self.action != JobAction::Test
    }

    /// Whether the job and those of this exclusion key exclude each other.
    pub(crate) fn excludes(&self, exclusion: &Key) -> bool {
        self.is_exclusive() && *self.repository == exclusion.name && self.key.namespace == exclusion.namespace
    }

    /// The guard for a write that is based on this version.
    pub fn precondition(&self) -> Precondition {
        Precondition { uid: self.uid.clone().into(), version: self.version.clone().into() }
    }

    /// Whether this copy is known to be older than `other`, a copy of what has the same key.
    pub(crate) fn older_than(&self, other: &Self) -> bool {
        match (self.version.parse::<u128>(), other.version.parse::<u128>()) {
            (Ok(this), Ok(that)) => this < that,
            _ => false,
        }
    }
}

impl From<&Record> for QueuedJob {
    fn from(record: &Record) -> Self {
        Self {
            key: Arc::new(record.key.clone()),
            uid: record.uid.as_str().into(),
            version: record.version.as_str().into(),
            created: record.created,
            deleting: record.deleting,
            repository: record.repository().into(),
            action: JobAction::parse(record.action()),
            state: record.state(),
            claimed: record.claimed(),
            owner: record.owner().map(Into::into),
            attempts: record.attempts(),
        }
    }
}
