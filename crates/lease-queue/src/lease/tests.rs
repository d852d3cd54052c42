use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::labels;

use super::*;
use crate::config::QueueConfig;
use crate::queue::Queue;
use crate::store::{Change, HistoryPage, Key, NewRecord, Precondition, Store, StoreError};

/// Nothing that is asked of it is ever answered.
struct Silent;

#[async_trait]
impl Store for Silent {
    async fn get(&self, _: &Key) -> Result<Record, StoreError> {
        std::future::pending().await
    }
    async fn list(&self) -> Result<Vec<Record>, StoreError> {
        std::future::pending().await
    }
    async fn list_claimed(&self, _: &str) -> Result<Vec<Record>, StoreError> {
        std::future::pending().await
    }
    async fn patch(&self, _: &Key, _: &Precondition, _: &Change) -> Result<Record, StoreError> {
        std::future::pending().await
    }
    async fn delete(&self, _: &Key, _: &Precondition) -> Result<(), StoreError> {
        std::future::pending().await
    }
    async fn history_create(&self, _: NewRecord) -> Result<(), StoreError> {
        std::future::pending().await
    }
    async fn history_contains(&self, _: &Key) -> Result<bool, StoreError> {
        std::future::pending().await
    }
    async fn history_page(&self, _: Option<String>) -> Result<HistoryPage, StoreError> {
        std::future::pending().await
    }
    async fn history_delete(&self, _: &Key, _: &str) -> Result<(), StoreError> {
        std::future::pending().await
    }
}

fn lease() -> Lease {
    let queue = Queue::new(Arc::new(Silent), Arc::new(Timestamp::now), QueueConfig::new("one")).unwrap();
    let record = Record {
        key: Key::new("default", "repo-sync"),
        uid: "uid".into(),
        version: "1".into(),
        created: Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: BTreeMap::from([(labels::CLAIM_OWNER.to_owned(), "me".to_owned())]),
        annotations: BTreeMap::new(),
        spec: json!({"action": "pull", "repository": "repo"}),
        status: Value::Null,
    };
    let hold = Hold { driver: 0, owner: "me".into(), attempt: 1 };
    Lease::start(queue.into_inner(), hold, record, Instant::now())
}

#[tokio::test(start_paused = true)]
async fn a_process_that_wakes_up_after_its_lease_knows_it_before_any_task_has_run() {
    let lease = lease();
    // As when the whole process was stopped: no task had a chance to tell the worker.
    lease.renewal.abort();
    tokio::time::sleep(Duration::from_secs(53)).await;
    assert!(lease.valid());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!lease.lost().is_cancelled());
    assert!(!lease.valid());
    assert!(lease.lost().is_cancelled(), "for good");
    assert!(matches!(lease.progress(JobStatus::default()).await, Err(LeaseError::Lost)));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_does_not_keep_a_lease_alive() {
    let lease = lease();
    let begin = Instant::now();
    lease.lost().cancelled().await;
    assert_eq!(begin.elapsed().as_secs(), 54);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_dropped_cannot_be_used_through_a_guard() {
    let lease = lease();
    let guard = lease.guard();
    assert!(guard.valid());
    drop(lease);
    assert!(!guard.valid() && guard.lost().is_cancelled());
    assert!(matches!(guard.progress(JobStatus::default()).await, Err(LeaseError::Lost)));
}
