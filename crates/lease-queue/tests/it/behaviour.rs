//! Single behaviours of one or two replicas, in paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_api::{JobState, JobStatus};
use windlass_lease_queue::progress::{Progress, Recorder};
use windlass_lease_queue::{
    Change, Claimed, ConfigError, End, Event, HistoryEntry, Key, LEASE_EXPIRED, LeaseError, NewRecord, Observer,
    Precondition, Queue, QueueConfig, Record, Store, StoreError, history_name,
};

use crate::store::{ATTEMPT, CLAIM, Client, Flaw, OWNER, Server, now};

/// A store that counts what is asked of it, and can be made to fail.
struct Counting {
    inner: Arc<dyn Store>,
    calls: Mutex<Vec<&'static str>>,
    /// Every call of that name fails.
    failing: Mutex<Option<(&'static str, fn() -> StoreError)>>,
}

impl Counting {
    fn new(server: &Arc<Server>) -> Arc<Self> {
        let inner = Client::reliable(server);
        Arc::new(Self { inner, calls: Mutex::default(), failing: Mutex::default() })
    }

    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    fn fail(&self, call: &'static str, how: fn() -> StoreError) {
        *self.failing.lock().unwrap() = Some((call, how));
    }

    fn heal(&self) {
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

fn unavailable() -> StoreError {
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
    async fn history_contains(&self, key: &Key) -> Result<bool, StoreError> {
        self.called("history_contains")?;
        self.inner.history_contains(key).await
    }
    async fn history_list(&self) -> Result<Vec<HistoryEntry>, StoreError> {
        self.inner.history_list().await
    }
    async fn history_delete(&self, key: &Key, uid: &str) -> Result<(), StoreError> {
        self.inner.history_delete(key, uid).await
    }
}

/// A replica whose watch loses nothing.
fn replica(name: &str, store: Arc<dyn Store>, server: &Arc<Server>) -> Queue {
    let queue = Queue::new(store, Arc::new(now), QueueConfig::new(name)).unwrap();
    follow(&queue, server);
    queue
}

fn follow(queue: &Queue, server: &Arc<Server>) {
    let mut events = server.watch();
    queue.resync(server.jobs());
    let queue = queue.clone();
    tokio::spawn(async move {
        while let Some(event) = events.recv().await {
            queue.observe(event);
        }
    });
}

async fn next(queue: &Queue) -> Claimed {
    let claimed = timeout(Duration::from_mins(10), queue.next(0, &CancellationToken::new())).await;
    claimed.expect("nothing was claimed in ten minutes").unwrap()
}

async fn idle(queue: &Queue, length: Duration) {
    let claimed = timeout(length, queue.next(0, &CancellationToken::new())).await;
    assert!(claimed.is_err(), "claimed {:?}", claimed.unwrap().unwrap().record());
}

fn success() -> JobStatus {
    JobStatus { state: JobState::Success, finished: 5, message: "done".into(), ..JobStatus::default() }
}

fn job() -> Key {
    Key::new("default", "repo-sync")
}

#[tokio::test(start_paused = true)]
async fn a_short_job_costs_a_claim_a_history_record_and_a_delete() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let queue = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync").unwrap();
    let (_, lease) = next(&queue).await.into_parts();
    let progress = Progress::new(Recorder::new(0), Arc::new(lease.guard()));
    progress.message("pulling");
    sleep(Duration::from_millis(400)).await;
    lease.complete(progress.finish(Ok(()), 9)).await.unwrap();
    sleep(Duration::from_mins(5)).await;
    assert_eq!(store.calls(), ["patch", "history_create", "delete"], "with its creation: four writes, and no reads");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_alone_claims_at_once() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    for number in 0..20 {
        server.add("default", "repo", &format!("repo-{number}"));
    }
    let begin = Instant::now();
    for _ in 0..20 {
        next(&queue).await.into_parts().1.complete(success()).await.unwrap();
    }
    assert!(begin.elapsed() < Duration::from_secs(3), "only the store's own latency, not {:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_claim_says_who_when_and_that_it_is_being_worked_on() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    server.add_with(
        "default",
        "repo-sync",
        json!({"action": "pull", "repository": "repo", "theirs": 1}),
        json!({"state": "pending", "theirs": 2}),
    );
    let claimed = next(&queue).await;
    let record = server.job(&job()).unwrap();
    assert_eq!(*claimed.record(), record);
    assert_eq!(record.labels[ATTEMPT], "1");
    assert!(record.labels[CLAIM].parse::<i64>().unwrap() >= 1_800_000_000_000);
    assert!(!record.labels[OWNER].is_empty());
    assert_eq!(record.status["state"], "working");
    assert_eq!(record.status["started"].to_string(), record.labels[CLAIM]);
    assert_eq!(record.status["theirs"], 2);
}

#[tokio::test(start_paused = true)]
async fn history_has_the_job_without_its_claim_and_with_what_we_do_not_know() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    let spec = json!({"action": "pull", "repository": "repo", "theirs": 1});
    let uid = server.add_with("default", "repo-sync", spec.clone(), json!({"theirs": 2})).unwrap().uid;
    let (_, lease) = next(&queue).await.into_parts();
    lease.progress(JobStatus { message: "half".into(), progress: 50.0, ..JobStatus::default() }).await.unwrap();
    assert_eq!(server.job(&job()).unwrap().status["progressUpdates"], 1);
    lease.complete(success()).await.unwrap();

    assert_eq!(server.jobs(), []);
    let [filed] = &server.history()[..] else { panic!() };
    let filed = &filed.record;
    assert_eq!(filed.key.name, history_name("repo-sync", &uid));
    assert_eq!(filed.labels["provisioning.grafana.app/repository"], "repo");
    assert_eq!(filed.labels["provisioning.grafana.app/original-uid"], uid);
    assert!(!filed.labels.contains_key(CLAIM) && !filed.labels.contains_key(OWNER));
    assert_eq!(filed.annotations["note"], "kept");
    assert_eq!(filed.spec, spec);
    assert_eq!(
        filed.status,
        json!({"state": "success", "finished": 5, "message": "done", "progressUpdates": 2, "theirs": 2})
    );
}

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
    assert_eq!(store.calls().len(), 11, "one claim, ten times progress, no renewal");
    assert!(lease.valid());
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_lease_is_claimed_again() {
    let server = Server::new(Flaw::None);
    let one = replica("one", Client::reliable(&server), &server);
    let other = replica("other", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    let lost = next(&one).await;
    // The process is gone without a word.
    drop((lost, one));
    let begin = Instant::now();
    let (record, lease) = next(&other).await.into_parts();
    assert!(begin.elapsed() >= Duration::from_secs(59) && begin.elapsed() < Duration::from_secs(65));
    assert_eq!((lease.attempt(), record.labels[ATTEMPT].as_str()), (2, "2"));
    lease.complete(success()).await.unwrap();
    assert_eq!(server.history().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_worker_vanishes_three_times_is_failed_and_filed() {
    let server = Server::new(Flaw::None);
    server.add("default", "repo", "repo-sync");
    for attempt in 1..=3 {
        let queue = replica(&format!("replica-{attempt}"), Client::reliable(&server), &server);
        assert_eq!(next(&queue).await.into_parts().1.attempt(), attempt);
    }
    let queue = replica("last", Client::reliable(&server), &server);
    idle(&queue, Duration::from_mins(5)).await;
    assert_eq!(queue.reap().await, 1);
    assert_eq!(server.jobs(), []);
    let [filed] = &server.history()[..] else { panic!() };
    assert_eq!(filed.record.status["state"], "error");
    assert_eq!(filed.record.status["message"], LEASE_EXPIRED);
    assert_eq!(
        LEASE_EXPIRED,
        "Job failed due to lease expiry - worker may have crashed or lost connection"
    );
}

#[tokio::test(start_paused = true)]
async fn a_reaper_leaves_a_job_alone_whose_last_attempt_is_alive() {
    let server = Server::new(Flaw::None);
    let reaper = replica("reaper", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    server.meddle(&job(), |record| {
        record.labels.insert(ATTEMPT.into(), "2".into());
        record.labels.insert(CLAIM.into(), "1".into());
        record.labels.insert(OWNER.into(), "gone".into());
    });
    let queue = replica("one", Client::reliable(&server), &server);
    let lease = next(&queue).await.into_parts().1;
    assert_eq!(lease.attempt(), 3);
    let stop = CancellationToken::new();
    let _ = timeout(Duration::from_mins(30), reaper.run_reaper(Duration::from_mins(1), &stop)).await;
    lease.complete(success()).await.unwrap();
    assert_eq!(server.history()[0].record.status["state"], "success");
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
async fn a_stop_ends_waiting_and_gives_back_a_claim_that_was_under_way() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    let stop = CancellationToken::new();
    let waiting = tokio::spawn({
        let (queue, stop) = (queue.clone(), stop.clone());
        async move { queue.next(0, &stop).await.is_none() }
    });
    sleep(Duration::from_secs(1)).await;
    server.add("default", "repo", "repo-sync");
    // Long enough for the claim to be sent, too short for its answer.
    sleep(Duration::from_micros(10)).await;
    stop.cancel();
    assert!(waiting.await.unwrap());
    let record = server.job(&job()).unwrap();
    assert!(!record.claimed(), "{record:?}");
    assert_eq!(record.status["state"], "pending", "it was claimed and given back");
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_future_was_dropped_is_taken_up_again_at_once() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    let claiming = tokio::spawn({
        let queue = queue.clone();
        async move {
            let _ = queue.next(0, &CancellationToken::new()).await;
        }
    });
    while !server.job(&job()).unwrap().claimed() {
        sleep(Duration::from_micros(100)).await;
    }
    claiming.abort();
    let begin = Instant::now();
    let lease = next(&queue).await.into_parts().1;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(lease.attempt(), 1, "nobody has run it yet");
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
    let server = Server::new(Flaw::None);
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
    assert_eq!(store.calls(), ["patch"; 4], "the claim and three renewals");
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

#[tokio::test(start_paused = true)]
async fn a_job_ends_although_the_store_is_away_for_a_while() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let queue = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync");
    let lease = next(&queue).await.into_parts().1;
    store.fail("history_create", unavailable);
    let completing = tokio::spawn(lease.complete(success()));
    sleep(Duration::from_mins(2)).await;
    assert_eq!(server.history().len(), 0);
    store.heal();
    completing.await.unwrap().unwrap();
    assert_eq!((server.history().len(), server.jobs().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_history_refuses_does_not_run_for_ever() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let queue = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync");
    store.fail("history_create", || StoreError::Refused("not allowed".into()));
    next(&queue).await.into_parts().1.complete(success()).await.unwrap();
    assert_eq!(server.jobs(), []);
    assert_eq!(store.calls(), ["patch", "history_create", "history_create", "delete"], "whole, then without details");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_filed_by_an_earlier_attempt_is_not_run_again() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let one = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync");
    let lease = next(&one).await.into_parts().1;
    store.fail("delete", unavailable);
    let _ = timeout(Duration::from_secs(2), lease.complete(success())).await;
    assert_eq!((server.history().len(), server.jobs().len()), (1, 1));

    let other = replica("other", Client::reliable(&server), &server);
    idle(&other, Duration::from_mins(5)).await;
    assert_eq!((server.history().len(), server.jobs().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_left_in_the_queue_in_a_finished_state_is_filed_as_it_is() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    let status = json!({"state": "warning", "message": "theirs", "finished": 3});
    server.add_with("default", "repo-sync", json!({"action": "pull", "repository": "repo"}), status.clone());
    idle(&queue, Duration::from_secs(30)).await;
    assert_eq!(server.jobs(), []);
    assert_eq!(server.history()[0].record.status, status);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_being_deleted_is_left_alone() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    server.meddle(&job(), |record| record.deleting = true);
    idle(&queue, Duration::from_mins(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_job_made_anew_under_the_same_name_is_another_job() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    let first = server.add("default", "repo", "repo-sync").unwrap();
    let (record, old) = next(&queue).await.into_parts();
    assert_eq!(record.uid, first.uid);
    server.delete_by_user(&job());
    let second = server.add("default", "repo", "repo-sync").unwrap();
    timeout(Duration::from_secs(1), old.lost().cancelled()).await.expect("the worker is told");

    // It is claimed although the first one's worker has not let go yet, and is untouched by what that still tries.
    let (record, new) = next(&queue).await.into_parts();
    assert_eq!((record.uid.as_str(), new.attempt()), (second.uid.as_str(), 1));
    assert!(matches!(old.complete(success()).await, Err(LeaseError::Lost)));
    assert!(new.valid());
    new.complete(success()).await.unwrap();
    assert_eq!(server.history().len(), 1);
    assert_eq!(server.history()[0].record.labels["provisioning.grafana.app/original-uid"], second.uid);
    idle(&queue, Duration::from_mins(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_sees_nothing_cannot_end_a_namesake() {
    let server = Server::new(Flaw::None);
    let queue = Queue::new(Client::reliable(&server), Arc::new(now), QueueConfig::new("blind")).unwrap();
    server.add("default", "repo", "repo-sync");
    queue.relist().await.unwrap();
    let lease = next(&queue).await.into_parts().1;
    server.delete_by_user(&job());
    let second = server.add("default", "repo", "repo-sync").unwrap();
    // What it did is filed, but only its own job would be removed.
    lease.complete(success()).await.unwrap();
    assert_eq!(server.job(&job()).unwrap(), second);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_never_came_is_made_up_for() {
    let server = Server::new(Flaw::None);
    let queue = Queue::new(Client::reliable(&server), Arc::new(now), QueueConfig::new("deaf")).unwrap();
    server.add("default", "repo", "repo-sync");
    queue.relist().await.unwrap();
    server.meddle(&job(), |record| {
        record.labels.insert("team".into(), "a".into());
    });
    let begin = Instant::now();
    next(&queue).await.into_parts().1.complete(success()).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(2), "the first claim conflicts, the second is from a fresh copy");
    server.add("default", "repo", "repo-sync");
    idle(&queue, Duration::from_mins(1)).await;
    queue.relist().await.unwrap();
    next(&queue).await;
}

#[tokio::test(start_paused = true)]
async fn claims_that_fail_are_backed_off_given_up_and_taken_up_at_the_next_tick() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let queue = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync");
    store.fail("patch", || StoreError::Refused("no".into()));
    idle(&queue, Duration::from_mins(10)).await;
    let tried = store.calls().iter().filter(|call| **call == "patch").count();
    assert_eq!(tried, 3, "{:?}", store.calls());
    store.heal();
    idle(&queue, Duration::from_mins(10)).await;
    queue.tick();
    next(&queue).await;
}

#[tokio::test(start_paused = true)]
async fn two_replicas_run_each_of_two_hundred_jobs_once_with_few_conflicts() {
    let server = Server::new(Flaw::None);
    let conflicts = Arc::new(Conflicts::default());
    let stop = CancellationToken::new();
    let mut drivers = tokio::task::JoinSet::new();
    for replica in 0..2 {
        let config = QueueConfig::new(format!("replica-{replica}"));
        let store = Client::reliable(&server);
        let queue = Queue::observed_by(store, Arc::new(now), config, conflicts.clone()).unwrap();
        follow(&queue, &server);
        for driver in 0..3 {
            let (queue, stop) = (queue.clone(), stop.clone());
            drivers.spawn(async move {
                let mut ran = Vec::new();
                while let Some(claimed) = queue.next(driver, &stop).await {
                    let (record, lease) = claimed.into_parts();
                    sleep(Duration::from_millis(100)).await;
                    lease.complete(success()).await.unwrap();
                    ran.push(record.key.name.clone());
                }
                ran
            });
        }
    }
    for number in 0..200 {
        server.add("default", &format!("repo-{}", number % 7), &format!("job-{number:03}"));
        sleep(Duration::from_millis(40)).await;
    }
    timeout(Duration::from_mins(2), async {
        while !server.jobs().is_empty() {
            sleep(Duration::from_secs(1)).await;
        }
    })
    .await
    .expect("all jobs end");
    stop.cancel();
    let mut ran: Vec<_> = drivers.join_all().await.concat();
    ran.sort();
    let all: Vec<_> = (0..200).map(|number| format!("job-{number:03}")).collect();
    assert_eq!(ran, all);
    assert_eq!(server.history().len(), 200);
    let conflicts = *conflicts.0.lock().unwrap();
    assert!(conflicts < 60, "{conflicts} conflicts for 200 jobs");
}

#[derive(Default)]
struct Conflicts(Mutex<usize>);

impl Observer for Conflicts {
    fn conflict(&self, _: usize) {
        *self.0.lock().unwrap() += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn the_observer_hears_what_happened() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>);
    impl Observer for Heard {
        fn claimed(&self, driver: usize, action: &str, wait: Duration) {
            self.0.lock().unwrap().push(format!("claimed {driver} {action} {}", wait.as_secs()));
        }
        fn started(&self, driver: usize, action: &str) {
            self.0.lock().unwrap().push(format!("started {driver} {action}"));
        }
        fn ended(&self, driver: usize, action: &str, busy: Duration, end: End) {
            self.0.lock().unwrap().push(format!("ended {driver} {action} {} {end:?}", busy.as_secs()));
        }
    }
    let server = Server::new(Flaw::None);
    let heard = Arc::new(Heard::default());
    let config = QueueConfig::new("one");
    let queue = Queue::observed_by(Client::reliable(&server), Arc::new(now), config, heard.clone()).unwrap();
    server.add("default", "repo", "repo-sync");
    sleep(Duration::from_secs(7)).await;
    queue.resync(server.jobs());
    assert_eq!(queue.depth(), (1, 0));
    let lease = queue.next(4, &CancellationToken::new()).await.unwrap().into_parts().1;
    assert_eq!(queue.depth(), (0, 1));
    sleep(Duration::from_secs(3)).await;
    lease.complete(success()).await.unwrap();
    assert_eq!(*heard.0.lock().unwrap(), ["claimed 4 pull 7", "started 4 pull", "ended 4 pull 3 Completed"]);
}

#[tokio::test(start_paused = true)]
async fn history_is_pruned_by_age_and_by_number_for_each_repository() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    for number in 0..6 {
        server.add("default", &format!("repo-{}", number % 2), &format!("job-{number}"));
        next(&queue).await.into_parts().1.complete(success()).await.unwrap();
        sleep(Duration::from_mins(1)).await;
    }
    assert_eq!(queue.prune(Duration::ZERO, None).await.unwrap(), 0, "off by default");
    assert_eq!(queue.prune(Duration::from_secs(330), None).await.unwrap(), 1);
    assert_eq!(queue.prune(Duration::ZERO, Some(2)).await.unwrap(), 1);
    let mut left: Vec<_> = server.history().iter().map(|filed| filed.record.key.name[..5].to_owned()).collect();
    left.sort();
    assert_eq!(left, ["job-2", "job-3", "job-4", "job-5"]);
}

#[tokio::test(start_paused = true)]
async fn late_and_repeated_events_change_nothing() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    let created = server.add("default", "repo", "repo-sync").unwrap();
    let lease = next(&queue).await.into_parts().1;
    for _ in 0..3 {
        queue.observe(Event::Applied(created.clone()));
    }
    queue.observe(Event::Deleted { key: job(), uid: "another".into() });
    idle(&queue, Duration::from_mins(2)).await;
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
    let _: Value = Value::Null;
}
