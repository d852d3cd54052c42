//! A store of jobs whose history is Loki.

use async_trait::async_trait;
use jiff::Timestamp;
use windlass_lease_queue::{Change, HistoryPage, Key, NewRecord, Precondition, Record, Store, StoreError};

use crate::entry::Entry;
use crate::queue::HistoryQueue;

/// Another store's jobs, with their history in Loki.
///
/// A record is in Loki some time after it was handed in, so that none is looked up there: that a job has ended is said by
/// the job itself until it is deleted ([`Store::history_is_durable`]). Loki prunes by itself.
pub struct HistoryStore<S> {
    jobs: S,
    queue: HistoryQueue,
}

impl<S> HistoryStore<S> {
    /// The jobs of `jobs`, whose records go to `queue`.
    pub fn new(jobs: S, queue: HistoryQueue) -> Self {
        Self { jobs, queue }
    }
}

#[async_trait]
impl<S: Store> Store for HistoryStore<S> {
    async fn get(&self, key: &Key) -> Result<Record, StoreError> {
        self.jobs.get(key).await
    }

    async fn list(&self) -> Result<Vec<Record>, StoreError> {
        self.jobs.list().await
    }

    async fn list_claimed(&self, namespace: &str) -> Result<Vec<Record>, StoreError> {
        self.jobs.list_claimed(namespace).await
    }

    async fn patch(&self, key: &Key, expected: &Precondition, change: &Change) -> Result<Record, StoreError> {
        self.jobs.patch(key, expected, change).await
    }

    async fn delete(&self, key: &Key, expected: &Precondition) -> Result<(), StoreError> {
        self.jobs.delete(key, expected).await
    }

    async fn history_create(&self, record: NewRecord) -> Result<(), StoreError> {
        self.queue.offer(Entry::of(&record, Timestamp::now()));
        Ok(())
    }

    fn history_is_durable(&self) -> bool {
        false
    }

    async fn history_contains(&self, _key: &Key) -> Result<bool, StoreError> {
        Ok(false)
    }

    async fn history_page(&self, _next: Option<String>) -> Result<HistoryPage, StoreError> {
        Ok(HistoryPage::default())
    }

    async fn history_delete(&self, _key: &Key, _uid: &str) -> Result<(), StoreError> {
        Ok(())
    }
}
