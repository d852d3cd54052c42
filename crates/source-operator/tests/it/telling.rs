use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::world::{World, put};

type Posted = Arc<Mutex<Vec<Value>>>;

async fn take(State(posted): State<Posted>, Json(event): Json<Value>) -> StatusCode {
    let mut posted = posted.lock().unwrap();
    posted.push(event);
    // The first is said to be a duplicate, the second comes at a bad time.
    match posted.len() {
        1 => StatusCode::TOO_MANY_REQUESTS,
        2 => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::ACCEPTED,
    }
}

/// Somebody whom events are posted to, and where.
async fn receiver_of_events() -> (Posted, String) {
    let posted = Posted::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new().route("/", post(take)).with_state(Arc::clone(&posted));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (posted, address)
}

#[tokio::test]
async fn who_wants_events_is_posted_each_once_unless_it_was_not_taken() {
    let (posted, address) = receiver_of_events().await;
    let world = World::new().await;
    let first = world.commit([put("a", "1")]);
    let more = [("source.leader_election", "false"), ("source.events_address", address.as_str())];
    let process = world.start_as("one", &more).await;
    world.create("app", json!({})).await;
    let artifact = world.ready("app", &first).await;
    let second = world.commit([put("a", "2")]);
    world.request("app", "1").await;
    world.ready("app", &second).await;
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while posted.lock().unwrap().len() < 3 {
        assert!(tokio::time::Instant::now() < until, "{:#?}", posted.lock().unwrap());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let events = posted.lock().unwrap().clone();
    let message = |commit: &str| format!("stored artifact for revision 'main@sha1:{commit}'");
    let said: Vec<_> = events.iter().map(|event| event["message"].as_str().unwrap().to_owned()).collect();
    assert_eq!(said, [message(&first), message(&second), message(&second)]);
    let event = &events[0];
    assert_eq!((&event["reason"], &event["severity"]), (&json!("NewArtifact"), &json!("info")));
    assert_eq!(event["involvedObject"]["name"], "app");
    assert_eq!(event["involvedObject"]["kind"], "GitRepository");
    assert_eq!(event["metadata"]["source.toolkit.fluxcd.io/revision"], json!(artifact.revision));
    assert_eq!(event["metadata"]["source.toolkit.fluxcd.io/digest"], json!(artifact.digest));
    assert_eq!(event["reportingController"], "source-controller");
    let metrics = process.context.metrics.render().unwrap();
    let series =
        "gotk_reconcile_duration_seconds_count{kind=\"GitRepository\",name=\"app\",namespace=\"default\"}";
    assert!(metrics.contains(series), "{metrics}");
}

impl World {
    /// The Event of this reason, once it was told so many times.
    async fn told(&self, reason: &str, times: i32) -> Event {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let until = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            let all = events.list(&ListParams::default()).await.unwrap().items;
            let count = |it: &Event| it.series.as_ref().map_or(1, |series| series.count);
            let is_it = |it: &&Event| it.reason.as_deref() == Some(reason) && count(it) >= times;
            if let Some(found) = all.iter().find(is_it) {
                return found.clone();
            }
            assert!(tokio::time::Instant::now() < until, "{all:#?}");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn who_asks_for_a_reconcile_that_finds_nothing_new_is_told_so_and_no_archive_is_made() {
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let process = world.start().await;
    world.create("app", json!({})).await;
    let artifact = world.ready("app", &commit).await;
    world.request("app", "1").await;
    let told = world.told("GitOperationSucceeded", 1).await;
    let expected = format!("no changes since last reconciliation: observed revision 'main@sha1:{commit}'");
    assert_eq!(told.note.as_deref(), Some(expected.as_str()));
    assert_eq!(told.type_.as_deref(), Some("Normal"));
    assert_eq!(world.objects.get("app").await.unwrap().status.artifact.unwrap(), artifact);
    let metrics = process.context.metrics.render().unwrap();
    assert!(metrics.contains("windlass_source_artifacts_total 1"), "{metrics}");
}

#[tokio::test]
async fn an_interval_without_news_is_counted_in_one_event_and_posted_to_nobody_but_a_recovery_is() {
    let (posted, address) = receiver_of_events().await;
    let world = World::new().await;
    let commit = world.commit([put("a", "1")]);
    let more = [("source.leader_election", "false"), ("source.events_address", address.as_str())];
    let _process = world.start_as("one", &more).await;
    world.create("app", json!({"interval": "500ms"})).await;
    let artifact = world.ready("app", &commit).await;
    // Nobody asks: the interval passes.
    world.told("GitOperationSucceeded", 2).await;
    world.patch("app", json!({"spec": {"ref": {"branch": "absent"}}})).await;
    world.failed("app", "GitOperationFailed").await;
    world.patch("app", json!({"spec": {"ref": {"branch": "main"}}})).await;
    let told = world.told("Succeeded", 1).await;
    let expected = format!("stored artifact for revision 'main@sha1:{commit}'");
    assert_eq!(told.note.as_deref(), Some(expected.as_str()));
    assert_eq!(world.objects.get("app").await.unwrap().status.artifact.unwrap().digest, artifact.digest);
    let until = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    let reasons = || {
        let posted = posted.lock().unwrap();
        posted.iter().map(|it| it["reason"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    while reasons().last().is_none_or(|last| last != "Succeeded") {
        assert!(tokio::time::Instant::now() < until, "{:?}", reasons());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(reasons()[0], "NewArtifact");
    assert!(!reasons().contains(&"GitOperationSucceeded".to_owned()), "{:?}", reasons());
}
