//! Jobs of one repository, and of one namespace, beside each other.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use windlass_lease_queue::{Key, Queue, QueueConfig};

use crate::harness::{Counting, follow, idle, next, replica, success};
use crate::store::{ATTEMPT, CLAIM, Client, Flaw, OWNER, Server, now};

#[tokio::test(start_paused = true)]
async fn jobs_of_one_repository_run_one_after_the_other_and_nothing_else_waits_for_them() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-sync");
    sleep(Duration::from_secs(1)).await;
    server.add("default", "repo", "repo-push");
    server.add("default", "other", "other-sync");
    server.add("elsewhere", "repo", "repo-sync");
    server.add_with("default", "repo-test-1", json!({"action": "test", "repository": "repo"}), Value::Null);
    let mut names = Vec::new();
    let mut leases = Vec::new();
    for _ in 0..4 {
        let (record, lease) = next(&queue).await.into_parts();
        names.push(record.key.to_string());
        leases.push((record.key.to_string(), lease));
    }
    names.sort();
    assert_eq!(
        names,
        ["default/other-sync", "default/repo-sync", "default/repo-test-1", "elsewhere/repo-sync"]
    );
    idle(&queue, Duration::from_mins(10)).await;
    let (_, first) = leases.remove(leases.iter().position(|(name, _)| name == "default/repo-sync").unwrap());
    first.complete(success()).await.unwrap();
    assert_eq!(next(&queue).await.record().key.name, "repo-push");
}

#[tokio::test(start_paused = true)]
async fn of_two_replicas_that_claim_jobs_of_one_repository_at_once_at_most_one_goes_on() {
    for seed in 0..20 {
        let server = Server::new(Flaw::None);
        let [a, b] = ["repo-a", "repo-b"].map(|name| server.add("default", "repo", name).unwrap());
        // Neither knows yet of the other's job, let alone of its claim.
        let one =
            Queue::new(Client::reliable(&server), Arc::new(now), QueueConfig::new(format!("one-{seed}")));
        let other = Queue::new(Client::reliable(&server), Arc::new(now), QueueConfig::new("other"));
        let (one, other) = (one.unwrap(), other.unwrap());
        one.resync(vec![a]);
        other.resync(vec![b]);
        let within = Duration::from_millis(100);
        let stop = CancellationToken::new();
        let (first, second) =
            tokio::join!(timeout(within, one.next(0, &stop)), timeout(within, other.next(0, &stop)));
        assert!(first.is_err() || second.is_err(), "both run");
        drop((first, second));

        // Once they see what happens, both jobs run, one after the other.
        follow(&one, &server);
        follow(&other, &server);
        let (stop, effects) = (CancellationToken::new(), Arc::new(tokio::sync::Mutex::new(())));
        let drivers = [one, other].map(|queue| {
            let (stop, effects) = (stop.clone(), Arc::clone(&effects));
            tokio::spawn(async move {
                while let Some(claimed) = queue.next(0, &stop).await {
                    let alone = effects.try_lock().expect("only one runs at a time");
                    sleep(Duration::from_secs(30)).await;
                    drop(alone);
                    claimed.into_parts().1.complete(success()).await.unwrap();
                }
            })
        });
        timeout(Duration::from_mins(10), async {
            while !server.jobs().is_empty() {
                sleep(Duration::from_secs(1)).await;
            }
        })
        .await
        .expect("both end");
        stop.cancel();
        for driver in drivers {
            driver.await.unwrap();
        }
        assert_eq!(server.history().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_the_watch_did_not_show_is_found_and_respected() {
    let server = Server::new(Flaw::None);
    server.add("default", "repo", "repo-sync");
    let claimed = next(&replica("one", Client::reliable(&server), &server)).await;
    let second = server.add("default", "repo", "repo-push").unwrap();
    let store = Counting::new(&server);
    let deaf = Queue::new(store.clone(), Arc::new(now), QueueConfig::new("deaf")).unwrap();
    deaf.resync(vec![second]);
    idle(&deaf, Duration::from_secs(50)).await;
    let tries = store.calls().iter().filter(|call| **call == "list_claimed").count();
    assert!((1..10).contains(&tries), "{tries} tries: they have to back off");
    assert!(
        !server.job(&Key::new("default", "repo-push")).unwrap().labels.contains_key(ATTEMPT),
        "none counts"
    );
    drop(claimed);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_lapsed_excludes_nothing_although_nobody_cleans_up() {
    let server = Server::new(Flaw::None);
    server.add("default", "repo", "repo-sync");
    server.meddle(&Key::new("default", "repo-sync"), |record| {
        record.labels.insert(ATTEMPT.into(), "3".into());
        record.labels.insert(CLAIM.into(), "1".into());
        record.labels.insert(OWNER.into(), "gone".into());
    });
    let queue = replica("one", Client::reliable(&server), &server);
    server.add("default", "repo", "repo-push");
    let begin = Instant::now();
    assert_eq!(next(&queue).await.record().key.name, "repo-push");
    assert!(begin.elapsed() >= Duration::from_mins(1) && begin.elapsed() < Duration::from_secs(70));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_no_more_drivers_than_it_may() {
    let server = Server::new(Flaw::None);
    let config = QueueConfig { max_jobs_per_namespace: 2, ..QueueConfig::new("one") };
    let queue = Queue::new(Client::reliable(&server), Arc::new(now), config).unwrap();
    follow(&queue, &server);
    for number in 0..5 {
        server.add("busy", &format!("repo-{number}"), &format!("repo-{number}-sync"));
    }
    let (first, second) = (next(&queue).await, next(&queue).await);
    idle(&queue, Duration::from_mins(1)).await;
    server.add("calm", "repo", "repo-sync");
    let calm = next(&queue).await;
    assert_eq!(calm.record().key.namespace, "calm");
    idle(&queue, Duration::from_mins(1)).await;
    first.into_parts().1.complete(success()).await.unwrap();
    assert_eq!(next(&queue).await.record().key.namespace, "busy");
    drop((second, calm));
}
