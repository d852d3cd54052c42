//! Who may run a job, and when.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_lease_queue::{End, Event, LeaseError, Observer, Queue, QueueConfig, StoreError};

use crate::harness::{Counting, follow, idle, job, next, replica, success};
use crate::store::{ATTEMPT, CLAIM, Client, Flaw, OWNER, Server, now};

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
    assert!(
        begin.elapsed() < Duration::from_secs(3),
        "only the store's own latency, not {:?}",
        begin.elapsed()
    );
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

    // The first one's worker has not stopped yet, can write nothing, and goes before the second one begins.
    idle(&queue, Duration::from_mins(5)).await;
    assert!(matches!(old.complete(success()).await, Err(LeaseError::Lost)));
    let (record, new) = next(&queue).await.into_parts();
    assert_eq!((record.uid.as_str(), new.attempt()), (second.uid.as_str(), 1));
    assert!(new.valid());
    new.complete(success()).await.unwrap();
    assert_eq!(server.history().len(), 1);
    assert_eq!(server.history()[0].record.labels["provisioning.grafana.app/original-uid"], second.uid);
    idle(&queue, Duration::from_mins(5)).await;
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
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "the first claim conflicts, the second is from a fresh copy"
    );
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
async fn two_replicas_run_each_job_once_with_few_conflicts() {
    replicas_run_each_job_once_with_few_conflicts(2, 7, Duration::from_millis(40), 20).await;
}

#[tokio::test(start_paused = true)]
async fn ten_replicas_run_each_job_once_with_few_conflicts() {
    replicas_run_each_job_once_with_few_conflicts(10, 7, Duration::from_millis(40), 20).await;
}

#[tokio::test(start_paused = true)]
async fn ten_replicas_that_find_a_long_queue_share_it_with_few_conflicts() {
    // They meet for the first time, and each reaches for the same jobs until it sees the others' claims.
    replicas_run_each_job_once_with_few_conflicts(10, 1000, Duration::from_micros(1), 100).await;
}

async fn replicas_run_each_job_once_with_few_conflicts(
    replicas: usize,
    repositories: usize,
    pace: Duration,
    most: usize,
) {
    const JOBS: usize = 1000;
    let server = Server::new(Flaw::None);
    let conflicts = Arc::new(Conflicts::default());
    let stop = CancellationToken::new();
    let mut drivers = tokio::task::JoinSet::new();
    for replica in 0..replicas {
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
                    sleep(Duration::from_millis(50)).await;
                    lease.complete(success()).await.unwrap();
                    ran.push(record.key.name.clone());
                }
                ran
            });
        }
    }
    for number in 0..JOBS {
        server.add("default", &format!("repo-{}", number % repositories), &format!("job-{number:03}"));
        sleep(pace).await;
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
    let mut all: Vec<_> = (0..JOBS).map(|number| format!("job-{number:03}")).collect();
    all.sort();
    assert_eq!(ran, all);
    assert_eq!(server.history().len(), JOBS);
    let conflicts = *conflicts.0.lock().unwrap();
    assert!(conflicts < most, "{conflicts} conflicts for {JOBS} jobs of {replicas} replicas");
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
async fn late_and_repeated_events_change_nothing() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    let created = server.add("default", "repo", "repo-sync").unwrap();
    let lease = next(&queue).await.into_parts().1;
    for _ in 0..3 {
        queue.observe(Event::applied(&created));
    }
    queue.observe(Event::Deleted { key: job(), uid: "another".into() });
    idle(&queue, Duration::from_mins(2)).await;
    assert!(lease.valid());
}
