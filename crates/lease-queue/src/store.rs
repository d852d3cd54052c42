//! What the queue asks of whatever keeps its records.
//!
//! A store keeps two collections of versioned records: the **queue** (a job is there while it waits or runs) and the
//! **history** (a job is there once it has ended). The only guarantee that the queue builds on is that a guarded write is
//! applied if, and only if, the record still has the expected uid and version. Everything else (late watches, lost
//! answers, repeated requests) it copes with.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::Value;
use windlass_api::{JobAction, JobState, labels};

/// Name of a record: unique in its namespace at any one time, but used again after a deletion.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The tenant.
    pub namespace: String,
    /// The name inside the namespace.
    pub name: String,
}

impl Key {
    /// A key from its two parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One version of a record, as the store holds it.
///
/// `spec` and `status` stay untyped, so that fields which this build does not know survive.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Where it is.
    pub key: Key,
    /// Which of all records that ever had this key it is.
    pub uid: String,
    /// Changes with each write; opaque, though two that are both decimal numbers are taken to be ordered.
    pub version: String,
    /// When it was created, by the store's clock.
    pub created: Timestamp,
    /// Deletion was asked for and waits for somebody's finalizer.
    pub deleting: bool,
    /// Indexed attributes: repository, claim, owner, attempt.
    pub labels: BTreeMap<String, String>,
    /// Other attributes, copied into history.
    pub annotations: BTreeMap<String, String>,
    /// What is to be done.
    pub spec: Value,
    /// How far it has got; `Null` when it was never set.
    pub status: Value,
}

impl Record {
    /// The repository that the job is for: from the spec, or else the label.
    pub fn repository(&self) -> &str {
        self.spec["repository"]
            .as_str()
            .filter(|repository| !repository.is_empty())
            .or_else(|| self.labels.get(labels::REPOSITORY).map(String::as_str))
            .unwrap_or_default()
    }

    /// The action, as written in the spec.
    pub fn action(&self) -> &str {
        self.spec["action"].as_str().unwrap_or_default()
    }

    /// What the job excludes: of the jobs with one key, its namespace and repository, one runs at a time. Nothing for a job
    /// that touches no repository: `test`, and one that names none.
    pub fn exclusion(&self) -> Option<Key> {
        let repository = self.repository();
        let touches = !repository.is_empty() && self.action() != JobAction::Test.as_str();
        touches.then(|| Key::new(&*self.key.namespace, repository))
    }

    /// Whether somebody holds a claim on it, live or lapsed.
    pub fn claimed(&self) -> bool {
        self.labels.get(labels::CLAIM).is_some_and(|claim| !claim.is_empty())
    }

    /// The token of the claim's owner. `None` with a claim present means an owner from before tokens.
    pub fn owner(&self) -> Option<&str> {
        self.labels.get(labels::CLAIM_OWNER).map(String::as_str)
    }

    /// How often it has been claimed and not handed back. A claim by a worker that does not count them is one.
    pub fn attempts(&self) -> u32 {
        let counted = self.labels.get(labels::ATTEMPT).and_then(|attempt| attempt.parse().ok()).unwrap_or(0);
        if self.claimed() { counted.max(1) } else { counted }
    }

    /// How far it has got; nothing for a state that is not known.
    pub fn state(&self) -> JobState {
        JobState::deserialize(&self.status["state"]).unwrap_or_default()
    }

    /// Whether its state is one that no worker leaves again.
    pub fn finished(&self) -> bool {
        self.state().is_finished()
    }

    /// The guard for a write that is based on this version.
    pub fn precondition(&self) -> Precondition {
        Precondition { uid: self.uid.clone(), version: self.version.clone() }
    }
}

/// A record to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRecord {
    /// Where; the name is given by the caller, always.
    pub key: Key,
    /// Indexed attributes.
    pub labels: BTreeMap<String, String>,
    /// Other attributes.
    pub annotations: BTreeMap<String, String>,
    /// What is to be done.
    pub spec: Value,
    /// How far it has got.
    pub status: Value,
}

/// What a record has to be for a write to be applied to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precondition {
    /// The record is the same one.
    pub uid: String,
    /// And nobody has written it since.
    pub version: String,
}

/// A partial write: what is not named stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// Labels to set, or with `None` to remove.
    pub labels: BTreeMap<&'static str, Option<String>>,
    /// JSON merge patch (RFC 7386) of the status.
    pub status: Option<Value>,
}

impl Change {
    /// Sets a label.
    #[must_use]
    pub fn set(mut self, label: &'static str, value: impl Into<String>) -> Self {
        self.labels.insert(label, Some(value.into()));
        self
    }

    /// Removes a label.
    #[must_use]
    pub fn remove(mut self, label: &'static str) -> Self {
        self.labels.insert(label, None);
        self
    }

    /// Merges into the status.
    #[must_use]
    pub fn status(mut self, patch: Option<Value>) -> Self {
        self.status = patch;
        self
    }
}

/// What pruning needs to know of a record of history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Where it is.
    pub key: Key,
    /// Its own uid, not the job's.
    pub uid: String,
    /// The uid of the job, when its label says so.
    pub job_uid: String,
    /// The repository that the job was for, when its label says so.
    pub repository: String,
    /// When the job ended, by the store's clock.
    pub created: Timestamp,
    /// Its size, when it says so.
    pub bytes: Option<u64>,
}

/// A part of a list.
#[derive(Clone, Debug, Default)]
pub struct HistoryPage {
    /// Some of the entries, in no order that matters.
    pub entries: Vec<HistoryEntry>,
    /// Asks for the next page; nothing on the last one.
    pub next: Option<String>,
}

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such record.
    #[error("the record does not exist")]
    NotFound,
    /// There is such a record already.
    #[error("a record of that name exists already")]
    AlreadyExists,
    /// The precondition did not hold.
    #[error("the record was changed by somebody else")]
    Conflict,
    /// It would refuse the same request again.
    #[error("the store refused the record: {0}")]
    Refused(String),
    /// No answer came: the request may or may not have been applied.
    #[error("the store did not answer within {0:?}")]
    Timeout(Duration),
    /// It cannot be reached, or cannot serve just now: the request may or may not have been applied.
    #[error("failed to reach the store")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Whether the same request may succeed later.
    pub fn transient(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Unavailable(_))
    }
}

/// A store of versioned records. Each call ends within a bounded time.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Reads a job.
    async fn get(&self, key: &Key) -> Result<Record, StoreError>;

    /// Reads every job of every namespace that the store looks at.
    async fn list(&self) -> Result<Vec<Record>, StoreError>;

    /// Reads the jobs of a namespace that are claimed. Has to be consistent: a claim that was granted before the request
    /// was sent is in the answer, unless it has ended.
    async fn list_claimed(&self, namespace: &str) -> Result<Vec<Record>, StoreError>;

    /// Applies `change` to a job and answers the record as it is afterwards. [`StoreError::Conflict`] when `expected` does
    /// not hold.
    async fn patch(&self, key: &Key, expected: &Precondition, change: &Change) -> Result<Record, StoreError>;

    /// Deletes a job. [`StoreError::Conflict`] when `expected` does not hold.
    async fn delete(&self, key: &Key, expected: &Precondition) -> Result<(), StoreError>;

    /// Adds a record to history. [`StoreError::AlreadyExists`] when its name is taken.
    async fn history_create(&self, record: NewRecord) -> Result<(), StoreError>;

    /// Whether a record is in history once [`Store::history_create`] has answered, so that [`Store::history_contains`] finds
    /// it. Where it is not, the end of a job is written to the job before it is filed, and whoever claims the job after a
    /// crash goes by that.
    fn history_is_durable(&self) -> bool {
        true
    }

    /// Whether history has a record of that name.
    async fn history_contains(&self, key: &Key) -> Result<bool, StoreError>;

    /// Lists the history of every namespace that the store looks at, page by page: the first one, or the one that `next` of
    /// the last one asks for.
    async fn history_page(&self, next: Option<String>) -> Result<HistoryPage, StoreError>;

    /// Deletes a record of history, if it is still the one of that uid.
    async fn history_delete(&self, key: &Key, uid: &str) -> Result<(), StoreError>;
}

/// Wall-clock time: what is written down for others to read, never what a decision is based on.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

impl<F: Fn() -> Timestamp + Send + Sync + 'static> Clock for F {
    fn now(&self) -> Timestamp {
        self()
    }
}
