//! Keeping a claim, losing it, giving it back.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use windlass_api::JobStatus;
use windlass_lease_queue::{ConfigError, LeaseError, Queue, QueueConfig};

use crate::harness::{Counting, idle, job, next, replica, success, unavailable};
use crate::store::{CLAIM, Client, Flaw, OWNER, Server, now};

#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_up_for_as_long_as_the_job_runs() {
    let server = Server::new(Flaw::None);
    let one = replica("one", Client::reliable(&server), &server);
    let other = replica("other", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    let (_, lease) = next(&one).await.into_parts();
    idle(&other, Duration::from_mins(20)).await;
    assert!(lease.valid());
    lease.complete(success()).await.unwrap();
    assert_eq!(server.history().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn progress_counts_as_a_renewal() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let queue = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync");
    let lease = next(&queue).await.into_parts().1;
    for step in 1..=10 {
        sleep(Duration::from_secs(19)).await;
        let status = JobStatus { message: step.to_string(), ..JobStatus::default() };
        lease.progress(status).await.unwrap();
    }
    assert_eq!(store.calls().len(), 12, "a claim, a look at the others, ten times progress, no renewal");
    assert!(lease.valid());
}

#[tokio::test(start_paused = true)]
async fn a_released_job_is_claimable_by_others_at_once_and_the_attempt_does_not_count() {
    let server = Server::new(Flaw::None);
    let one = replica("one", Client::reliable(&server), &server);
    let other = replica("other", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    for _ in 0..5 {
        next(&one).await.into_parts().1.release().await.unwrap();
        let record = server.job(&job()).unwrap();
        assert!(!record.labels.contains_key(CLAIM) && !record.labels.contains_key(OWNER));
        assert_eq!(record.status, json!({"state": "pending"}));
        let begin = Instant::now();
        let lease = next(&other).await.into_parts().1;
        assert!(begin.elapsed() < Duration::from_secs(1));
        assert_eq!(lease.attempt(), 1);
        lease.release().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn this_replica_leaves_a_job_alone_for_a_while_that_it_gave_back() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    next(&queue).await.into_parts().1.release().await.unwrap();
    idle(&queue, Duration::from_secs(29)).await;
    next(&queue).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_hears_of_a_take_over_from_the_watch_and_can_write_nothing_more() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    let lease = next(&queue).await.into_parts().1;
    server.meddle(&job(), |record| {
        record.labels.insert(OWNER.into(), "another".into());
    });
    let begin = Instant::now();
    lease.lost().cancelled().await;
    assert!(begin.elapsed() < Duration::from_secs(1), "long before the next renewal");
    assert!(matches!(lease.progress(success()).await, Err(LeaseError::Lost)));
    assert!(matches!(lease.complete(success()).await, Err(LeaseError::Lost)));
    assert_eq!(server.history().len(), 0);
    assert_eq!(server.job(&job()).unwrap().owner(), Some("another"));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_finds_a_take_over_that_the_watch_did_not_show() {
    let server = Server::with_opaque_versions(Flaw::None);
    let queue = Queue::new(Client::reliable(&server), Arc::new(now), QueueConfig::new("blind")).unwrap();
    server.add("default", "repo", "repo-sync");
    queue.relist().await.unwrap();
    let lease = next(&queue).await.into_parts().1;
    server.meddle(&job(), |record| {
        record.labels.insert(OWNER.into(), "another".into());
    });
    timeout(Duration::from_secs(21), lease.lost().cancelled()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_by_somebody_else_that_leaves_the_claim_alone_costs_nothing() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    let lease = next(&queue).await.into_parts().1;
    server.meddle(&job(), |record| {
        record.labels.insert("team".into(), "a".into());
    });
    let status = JobStatus { message: "on".into(), ..JobStatus::default() };
    lease.progress(status).await.unwrap();
    server.meddle(&job(), |record| {
        record.labels.insert("team".into(), "b".into());
    });
    lease.complete(success()).await.unwrap();
    assert_eq!(server.jobs(), []);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_cannot_be_renewed_is_given_up_before_others_may_take_it() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let queue = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync");
    let lease = next(&queue).await.into_parts().1;
    let begin = Instant::now();
    store.fail("patch", unavailable);
    lease.lost().cancelled().await;
    assert!(begin.elapsed() < Duration::from_secs(54), "{:?}", begin.elapsed());
    let calls = ["patch", "list_claimed", "patch", "patch", "patch"];
    assert_eq!(store.calls(), calls, "the claim, a look at the others, and three renewals");
}

#[tokio::test(start_paused = true)]
async fn a_lease_outlives_two_failed_renewals() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let queue = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync");
    let lease = next(&queue).await.into_parts().1;
    store.fail("patch", unavailable);
    sleep(Duration::from_secs(40)).await;
    store.heal();
    sleep(Duration::from_mins(5)).await;
    assert!(lease.valid());
}

#[test]
fn a_renewal_slower_than_a_third_of_the_expiry_is_refused_with_what_to_do() {
    let config = QueueConfig { renewal: Duration::from_secs(30), ..QueueConfig::new("one") };
    let error = config.validate().unwrap_err();
    assert!(matches!(error, ConfigError::RenewalTooSlow { .. }));
    assert_eq!(
        error.to_string(),
        "lease_renewal_interval (30s) is more than a third of lease_expiry (60s): a job could be run twice; \
         lower the first to 20s or raise the second to 90s"
    );
    assert_eq!(QueueConfig::new("one").validate(), Ok(()));
}
