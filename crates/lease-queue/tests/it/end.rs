//! The end of a job: history, reaper, prune.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_api::JobStatus;
use windlass_lease_queue::progress::{Progress, Recorder};
use windlass_lease_queue::{
    HistoryLimits, LEASE_EXPIRED, PruneReason, Queue, QueueConfig, StoreError, history_name,
};

use crate::harness::{Counting, idle, job, next, replica, success, unavailable};
use crate::store::{ATTEMPT, CLAIM, Client, Fate, Flaw, OWNER, Odds, Server, now};

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
    assert_eq!(
        store.calls(),
        ["patch", "list_claimed", "history_create", "delete"],
        "with its creation: four writes, and one read"
    );
}

#[tokio::test(start_paused = true)]
async fn history_has_the_job_without_its_claim_and_with_what_we_do_not_know() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    let spec = json!({"action": "pull", "repository": "repo", "theirs": 1});
    let uid = server.add_with("default", "repo-sync", spec.clone(), json!({"theirs": 2})).unwrap().uid;
    let (record, lease) = next(&queue).await.into_parts();
    lease
        .progress(JobStatus { message: "half".into(), progress: 50.0, ..JobStatus::default() })
        .await
        .unwrap();
    assert_eq!(server.job(&job()).unwrap().status["progressUpdates"], 1);
    let notes = BTreeMap::from([("windlass.dev/revision".to_owned(), "abc".to_owned())]);
    lease.complete_with(success(), notes).await.unwrap();

    assert_eq!(server.jobs(), []);
    let [filed] = &server.history()[..] else { panic!() };
    let filed = &filed.record;
    assert_eq!(filed.key.name, history_name("repo-sync", &uid));
    assert_eq!(filed.labels["provisioning.grafana.app/repository"], "repo");
    assert_eq!(filed.labels["provisioning.grafana.app/original-uid"], uid);
    assert!(!filed.labels.contains_key(CLAIM) && !filed.labels.contains_key(OWNER));
    assert_eq!(filed.annotations["note"], "kept");
    assert_eq!(filed.annotations["windlass.dev/revision"], "abc");
    assert_eq!(filed.spec, spec);
    let started = &record.status["started"];
    assert_eq!(
        filed.status,
        json!({
            "state": "success", "started": started, "finished": 5, "message": "done", "progressUpdates": 2, "theirs": 2
        })
    );
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
    assert_eq!(LEASE_EXPIRED, "Job failed due to lease expiry - worker may have crashed or lost connection");
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
    let reaping = reaper.run_reaper_for(Duration::from_mins(1), &(), &stop);
    let _ = timeout(Duration::from_mins(30), reaping).await;
    lease.complete(success()).await.unwrap();
    assert_eq!(server.history()[0].record.status["state"], "success");
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
    assert_eq!(
        store.calls(),
        ["patch", "list_claimed", "history_create", "history_create", "delete"],
        "whole, then without details"
    );
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
async fn a_job_that_ended_is_not_run_again_where_history_cannot_be_looked_up() {
    for crash in ["history_create", "delete"] {
        let server = Server::new(Flaw::None);
        let store = Counting::volatile(&server);
        let one = replica("one", store.clone(), &server);
        server.add("default", "repo", "repo-sync");
        let lease = next(&one).await.into_parts().1;
        store.fail(crash, unavailable);
        let _ = timeout(Duration::from_secs(2), lease.complete(success())).await;
        assert_eq!(server.job(&job()).unwrap().status["state"], "success", "the job itself says so");
        assert_eq!(server.history().len(), usize::from(crash == "delete"));

        let other = replica("other", Counting::volatile(&server), &server);
        idle(&other, Duration::from_mins(5)).await;
        assert_eq!((server.history().len(), server.jobs().len()), (1, 0), "{crash}");
        assert_eq!(server.history()[0].record.status["message"], "done");
    }
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
async fn a_finished_job_whose_claim_was_not_answered_is_not_run_again() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let one = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync");
    let lease = next(&one).await.into_parts().1;
    let first = server.job(&job()).unwrap().labels[OWNER].clone();
    store.fail("delete", unavailable);
    let _ = timeout(Duration::from_secs(2), lease.complete(success())).await;
    assert_eq!((server.history().len(), server.jobs().len()), (1, 1));

    // Another one takes the job over, is not told so, and takes it for a job that nobody has run.
    let calm = Arc::new(AtomicBool::new(false));
    let odds = Odds { answer_lost: 100, ..Odds::default() };
    let client = Client { server: Arc::clone(&server), fate: Fate::new(0, odds, Arc::clone(&calm)) };
    let other = replica("other", Arc::new(client), &server);
    let claiming = tokio::spawn(async move { idle(&other, Duration::from_mins(10)).await });
    while server.job(&job()).is_some_and(|job| job.labels[OWNER] == first) {
        sleep(Duration::from_millis(1)).await;
    }
    sleep(Duration::from_millis(100)).await;
    calm.store(true, Ordering::Relaxed);
    claiming.await.unwrap();
    assert_eq!((server.history().len(), server.jobs().len()), (1, 0));
}

/// Six records, a minute apart: three of each of two repositories.
async fn with_history(server: &Arc<Server>) -> Queue {
    let queue = replica("one", Client::reliable(server), server);
    for number in 0..6 {
        server.add("default", &format!("repo-{}", number % 2), &format!("job-{number}"));
        next(&queue).await.into_parts().1.complete(success()).await.unwrap();
        sleep(Duration::from_mins(1)).await;
    }
    queue
}

fn left(server: &Server) -> Vec<String> {
    let mut left: Vec<_> =
        server.history().iter().map(|filed| filed.record.key.name[..5].to_owned()).collect();
    left.sort();
    left
}

#[tokio::test(start_paused = true)]
async fn history_is_pruned_by_age_number_and_size_for_each_repository_the_oldest_first() {
    let server = Server::new(Flaw::None);
    let queue = with_history(&server).await;
    let unlimited = HistoryLimits::default();
    assert_eq!(queue.prune(unlimited).await.unwrap().total(), 0);
    let old = HistoryLimits { max_age: Some(Duration::from_secs(290)), ..unlimited };
    // Pages are judged as they come: what the time is was learned from the last one.
    assert_eq!(queue.prune(old).await.unwrap().total(), 0);
    assert_eq!(queue.prune(old).await.unwrap().counts().collect::<Vec<_>>(), [(PruneReason::Age, 1)]);
    let many = HistoryLimits { max_count: Some(2), ..unlimited };
    assert_eq!(queue.prune(many).await.unwrap().counts().collect::<Vec<_>>(), [(PruneReason::Count, 1)]);
    assert_eq!(left(&server), ["job-2", "job-3", "job-4", "job-5"]);
    let of =
        |filed: &crate::store::Filed| filed.record.annotations["windlass.dev/bytes"].parse::<u64>().unwrap();
    let one = of(&server.history()[0]);
    assert!((1024..2048).contains(&one), "{one}");
    let large = HistoryLimits { max_bytes: Some(one * 3 / 2), ..unlimited };
    assert_eq!(queue.prune(large).await.unwrap().counts().collect::<Vec<_>>(), [(PruneReason::Bytes, 2)]);
    assert_eq!(left(&server), ["job-4", "job-5"]);
    let nothing = HistoryLimits { max_bytes: Some(1), max_count: Some(0), ..unlimited };
    assert_eq!(queue.prune(nothing).await.unwrap().total(), 0, "the newest one stays");
}

#[tokio::test(start_paused = true)]
async fn a_replica_whose_clock_is_years_ahead_prunes_nothing_by_that() {
    let server = Server::new(Flaw::None);
    with_history(&server).await;
    let ahead = || now() + Duration::from_hours(24 * 365 * 3);
    let queue = Queue::new(Client::reliable(&server), Arc::new(ahead), QueueConfig::new("ahead")).unwrap();
    let limits = HistoryLimits { max_age: Some(Duration::from_hours(1)), ..HistoryLimits::default() };
    assert_eq!(queue.prune(limits).await.unwrap().total(), 0);
    sleep(Duration::from_hours(2)).await;
    assert_eq!(queue.prune(limits).await.unwrap().total(), 6, "and an hour is an hour");
}

#[tokio::test(start_paused = true)]
async fn replicas_that_prune_at_the_same_time_delete_each_record_once() {
    let server = Server::new(Flaw::None);
    let one = with_history(&server).await;
    let other = replica("other", Client::reliable(&server), &server);
    let limits = HistoryLimits { max_count: Some(1), ..HistoryLimits::default() };
    let (one, other) = tokio::join!(one.prune(limits), other.prune(limits));
    assert_eq!(one.unwrap().total() + other.unwrap().total(), 4);
    assert_eq!(left(&server), ["job-4", "job-5"]);
}

#[tokio::test(start_paused = true)]
async fn the_record_of_a_job_that_is_still_queued_is_not_pruned() {
    let server = Server::new(Flaw::None);
    let store = Counting::new(&server);
    let queue = replica("one", store.clone(), &server);
    server.add("default", "repo", "repo-sync");
    let lease = next(&queue).await.into_parts().1;
    store.fail("delete", unavailable);
    let _ = timeout(Duration::from_secs(2), lease.complete(success())).await;
    sleep(Duration::from_secs(10)).await;
    let limits = HistoryLimits { max_age: Some(Duration::from_secs(1)), ..HistoryLimits::default() };
    assert_eq!(queue.prune(limits).await.unwrap().total(), 0, "it says that the job has ended");
    store.heal();
    idle(&queue, Duration::from_mins(5)).await;
    assert_eq!(queue.prune(limits).await.unwrap().total(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_was_taken_over_after_it_was_filed_is_left_to_its_new_owner() {
    let server = Server::with_opaque_versions(Flaw::None);
    let queue = Queue::new(Client::reliable(&server), Arc::new(now), QueueConfig::new("blind")).unwrap();
    server.add("default", "repo", "repo-sync");
    queue.relist().await.unwrap();
    let lease = next(&queue).await.into_parts().1;
    server.meddle(&job(), |record| {
        record.labels.insert(OWNER.into(), "another".into());
    });
    lease.complete(success()).await.unwrap();
    assert_eq!(server.history().len(), 1);
    assert_eq!(server.job(&job()).unwrap().owner(), Some("another"));
}
