//! One replica, its store, and what tests ask of them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use windlass_api::{JobState, JobStatus};
use windlass_lease_queue::{
    Change, Claimed, HistoryPage, Key, NewRecord, Precondition, Queue, QueueConfig, Record, Store, StoreError,
};

use crate::store::{Client, Server, now};

/// The name of a call, and how it fails.
type Failing = (&'static str, fn() -> StoreError);

/// A store that counts what is asked of it, and can be made to fail.
pub(crate) struct Counting {
    inner: Arc<dyn Store>,
    calls: Mutex<Vec<&'static str>>,
    /// Every call of that name fails.
    failing: Mutex<Option<Failing>>,
    /// Nothing can be looked up in its history.
    volatile: bool,
}

impl Counting {
    pub(crate) fn new(server: &Arc<Server>) -> Arc<Self> {
        let inner = Client::reliable(server);
        Arc::new(Self { inner, calls: Mutex::default(), failing: Mutex::default(), volatile: false })
    }

    /// One whose history cannot be looked up.
    pub(crate) fn volatile(server: &Arc<Server>) -> Arc<Self> {
        let inner = Client::reliable(server);
        Arc::new(Self { inner, calls: Mutex::default(), failing: Mutex::default(), volatile: true })
    }

    pub(crate) fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) fn fail(&self, call: &'static str, how: fn() -> StoreError) {
        *self.failing.lock().unwrap() = Some((call, how));
    }

    pub(crate) fn heal(&self) {
        *self.failing.lock().unwrap() = None;
    }

    fn called(&self, call: &'static str) -> Result<(), StoreError> {
        self.calls.lock().unwrap().push(call);
        match *self.failing.lock().unwrap() {
            Some((failing, how)) if failing == call => Err(how()),
            _ => Ok(()),
        }
    }
}

pub(crate) fn unavailable() -> StoreError {
    StoreError::Unavailable("down".into())
}

#[async_trait]
impl Store for Counting {
    async fn get(&self, key: &Key) -> Result<Record, StoreError> {
        self.called("get")?;
        self.inner.get(key).await
    }
    async fn list(&self) -> Result<Vec<Record>, StoreError> {
        self.called("list")?;
        self.inner.list().await
    }
    async fn list_claimed(&self, namespace: &str) -> Result<Vec<Record>, StoreError> {
        self.called("list_claimed")?;
        self.inner.list_claimed(namespace).await
    }
    async fn patch(&self, key: &Key, expected: &Precondition, change: &Change) -> Result<Record, StoreError> {
        self.called("patch")?;
        self.inner.patch(key, expected, change).await
    }
    async fn delete(&self, key: &Key, expected: &Precondition) -> Result<(), StoreError> {
        self.called("delete")?;
        self.inner.delete(key, expected).await
    }
    async fn history_create(&self, record: NewRecord) -> Result<(), StoreError> {
        self.called("history_create")?;
        self.inner.history_create(record).await
    }
    fn history_is_durable(&self) -> bool {
        !self.volatile
    }
    async fn history_contains(&self, key: &Key) -> Result<bool, StoreError> {
        self.called("history_contains")?;
        if self.volatile {
            return Ok(false);
        }
        self.inner.history_contains(key).await
    }
    async fn history_page(&self, next: Option<String>) -> Result<HistoryPage, StoreError> {
        self.inner.history_page(next).await
    }
    async fn history_delete(&self, key: &Key, uid: &str) -> Result<(), StoreError> {
        self.inner.history_delete(key, uid).await
    }
}

/// A replica whose watch loses nothing.
pub(crate) fn replica(name: &str, store: Arc<dyn Store>, server: &Arc<Server>) -> Queue {
    let queue = Queue::new(store, Arc::new(now), QueueConfig::new(name)).unwrap();
    follow(&queue, server);
    queue
}

pub(crate) fn follow(queue: &Queue, server: &Arc<Server>) {
    let mut events = server.watch();
    queue.resync(server.jobs());
    let queue = queue.clone();
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            queue.observe(event);
        }
    });
}

pub(crate) async fn next(queue: &Queue) -> Claimed {
    let claimed = timeout(Duration::from_mins(10), queue.next(0, &CancellationToken::new())).await;
    claimed.expect("nothing was claimed in ten minutes").unwrap()
}

pub(crate) async fn idle(queue: &Queue, length: Duration) {
    let claimed = timeout(length, queue.next(0, &CancellationToken::new())).await;
    assert!(claimed.is_err(), "claimed {:?}", claimed.unwrap().unwrap().record());
}

pub(crate) fn success() -> JobStatus {
    JobStatus { state: JobState::Success, finished: 5, message: "done".into(), ..JobStatus::default() }
}

pub(crate) fn job() -> Key {
    Key::new("default", "repo-sync")
}
