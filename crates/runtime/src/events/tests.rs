use axum::http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use super::allowance::{BURST, REFILL};
use super::*;
use crate::ManualClock;
use crate::testing::{Asked, Server, config_map};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn recorder() -> (EventRecorder, EventWriter) {
    let clock = ManualClock::new(Timestamp::from_second(1_000).unwrap());
    EventRecorder::new("windlass.dev/test", "replica", Arc::new(clock))
}

fn note(text: &str) -> Note {
    Note {
        kind: EventType::Warning,
        reason: "Broken".to_owned(),
        action: "Check".to_owned(),
        text: text.to_owned(),
    }
}

fn object() -> ConfigMap {
    serde_json::from_value(config_map("a", "7")).unwrap()
}

async fn created(server: &mut Server) -> Value {
    let asked = server.next().await;
    assert_eq!((&asked.method, asked.path.as_str()), (&Method::POST, EVENTS));
    let body = asked.body.clone();
    asked.answer(&body);
    body
}

async fn counted(server: &mut Server, event: &Value) -> Asked {
    let asked = server.next().await;
    let path = format!("{EVENTS}/{}", event["metadata"]["name"].as_str().unwrap());
    assert_eq!((&asked.method, &asked.path), (&Method::PATCH, &path));
    asked
}

#[tokio::test(start_paused = true)]
async fn an_event_names_its_object_and_what_repeats_becomes_a_series() {
    let (mut server, client) = Server::new();
    let (recorder, writer) = recorder();
    tokio::spawn(writer.run(client, CancellationToken::new()));
    recorder.record(&object(), note("no answer"));
    let first = created(&mut server).await;
    assert_eq!(first["regarding"]["name"], "a");
    assert_eq!(first["regarding"]["uid"], "uid-a");
    assert_eq!((&first["type"], &first["reason"]), (&json!("Warning"), &json!("Broken")));
    assert_eq!(first["eventTime"], "1970-01-01T00:16:40.000000Z");
    assert_eq!(first["reportingController"], "windlass.dev/test");

    // It is counted at once that it repeats, then not more often than once a minute, and rarely.
    for (passed, occurrences, count) in [(Duration::ZERO, 1, 2), (SOONEST, 2, 4), (REFRESH, 1, 5)] {
        tokio::time::advance(passed).await;
        for _ in 0..occurrences {
            recorder.record(&object(), note("no answer"));
        }
        let asked = counted(&mut server, &first).await;
        assert_eq!(asked.body["series"]["count"], count);
        asked.answer(&first);
    }
    recorder.record(&object(), note("another thing"));
    let second = created(&mut server).await;
    assert_ne!(second["metadata"]["name"], first["metadata"]["name"]);

    // One that the server has forgotten begins anew.
    tokio::time::advance(REFRESH).await;
    recorder.record(&object(), note("no answer"));
    counted(&mut server, &first).await.refuse(404, "NotFound");
    created(&mut server).await;
    tokio::time::advance(SERIES).await;
    recorder.record(&object(), note("no answer"));
    created(&mut server).await;
    assert_eq!(recorder.dropped(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_delays_nobody_and_what_is_lost_is_counted() {
    let (mut server, client) = Server::new();
    let (recorder, writer) = recorder();
    let shutdown = CancellationToken::new();
    let writing = tokio::spawn(writer.run(client, shutdown.clone()));
    recorder.record(&object(), note("first"));
    let unanswered = server.next().await;
    for number in 0..QUEUE + 10 {
        recorder.record(&object(), note(&format!("{number}")));
    }
    assert_eq!(recorder.dropped(), 10);
    shutdown.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(30), writing).await;
    ended.expect("the shutdown does not wait for the server").unwrap();
    drop(unanswered);
}

#[tokio::test(start_paused = true)]
async fn a_refused_event_is_counted_and_the_next_one_is_written() {
    let (mut server, client) = Server::new();
    let (recorder, writer) = recorder();
    let shutdown = CancellationToken::new();
    let writing = tokio::spawn(writer.run(client, shutdown.clone()));
    recorder.record(&object(), note("first"));
    server.next().await.refuse(403, "Forbidden");
    recorder.record(&object(), note(&"ä".repeat(2_000)));
    assert_eq!(created(&mut server).await["note"].as_str().unwrap().len(), MAX_NOTE);
    assert_eq!(recorder.dropped(), 1);
    shutdown.cancel();
    writing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_one_object_no_more_is_told_than_kubernetes_lets_its_own_controllers_tell() {
    let (mut server, client) = Server::new();
    let (recorder, writer) = recorder();
    tokio::spawn(writer.run(client, CancellationToken::new()));
    for number in 0..BURST + 10 {
        recorder.record(&object(), note(&format!("failure {number}")));
    }
    for _ in 0..BURST {
        created(&mut server).await;
    }
    // Another object, and what is no warning, are not held up by it.
    let other: ConfigMap = serde_json::from_value(config_map("b", "7")).unwrap();
    recorder.record(&other, note("failure"));
    assert_eq!(created(&mut server).await["regarding"]["name"], "b");
    recorder.record(&object(), Note { kind: EventType::Normal, ..note("well again") });
    assert_eq!(created(&mut server).await["note"], "well again");
    assert_eq!(recorder.dropped(), 10);
    tokio::time::advance(REFILL).await;
    recorder.record(&object(), note("one more"));
    recorder.record(&object(), note("one too many"));
    recorder.record(&other, note("another failure"));
    assert_eq!(created(&mut server).await["note"], "one more");
    assert_eq!(created(&mut server).await["note"], "another failure");
    assert_eq!(recorder.dropped(), 11);
}
