//! Who is taken for another replica, and what that costs.

use std::time::Duration;

use tokio::time::Instant;
use windlass_lease_queue::Key;

use crate::harness::{next, replica, success};
use crate::store::{ATTEMPT, CLAIM, Client, Flaw, OWNER, Server};

/// The owner token of a replica, as anybody could write it.
fn token(number: u64) -> String {
    format!("{number:016x}-made-up")
}

#[tokio::test(start_paused = true)]
async fn jobs_that_were_created_with_a_claim_delay_nobody() {
    let server = Server::new(Flaw::None);
    for number in 0..100 {
        let name = format!("fake-{number}");
        server.add("evil", &name, &name);
        server.meddle(&Key::new("evil", &*name), |record| {
            record.labels.insert(ATTEMPT.into(), "3".into());
            record.labels.insert(CLAIM.into(), "1".into());
            record.labels.insert(OWNER.into(), token(number));
        });
    }
    let queue = replica("one", Client::reliable(&server), &server);
    for number in 0..20 {
        server.add("default", "repo", &format!("repo-{number}"));
        let begin = Instant::now();
        next(&queue).await.into_parts().1.complete(success()).await.unwrap();
        assert!(begin.elapsed() < Duration::from_millis(200), "{:?}", begin.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn however_many_replicas_there_seem_to_be_a_job_waits_for_a_bounded_time() {
    let server = Server::new(Flaw::None);
    let queue = replica("one", Client::reliable(&server), &server);
    // Somebody who may write to jobs claims many of them in many names.
    for number in 0..1000 {
        let (name, namespace) = (format!("fake-{number}"), "evil");
        server.add_with(
            namespace,
            &name,
            serde_json::json!({"action": "test", "repository": "fake"}),
            serde_json::Value::Null,
        );
        server.meddle(&Key::new(namespace, &*name), |record| {
            record.labels.insert(ATTEMPT.into(), "3".into());
            record.labels.insert(CLAIM.into(), "1".into());
            record.labels.insert(OWNER.into(), token(number));
        });
        tokio::task::yield_now().await;
    }
    for number in 0..20 {
        server.add("default", "repo", &format!("repo-{number}"));
        let begin = Instant::now();
        next(&queue).await.into_parts().1.complete(success()).await.unwrap();
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    }
}
