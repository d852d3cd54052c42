//! Events through both of their groups.

use serde_json::{Value, json};
use windlass_apiserver::ApiServer;

use crate::common::*;

const CORE: &str = "/api/v1/namespaces/default/events";
const GROUPED: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn core() -> Value {
    json!({ "metadata": { "name": "a" }, "reason": "Started", "message": "hello", "type": "Normal", "count": 1,
        "involvedObject": { "kind": "Pod", "name": "p", "namespace": "default", "uid": "u1" },
        "source": { "component": "kubelet", "host": "h" },
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z" })
}

fn grouped() -> Value {
    json!({ "metadata": { "name": "b" }, "reason": "Started", "note": "hello", "type": "Normal", "action": "Starting",
        "regarding": { "kind": "Pod", "name": "p", "namespace": "default" },
        "reportingController": "example.org/x", "reportingInstance": "i",
        "eventTime": "2026-01-01T00:00:00.123456Z",
        "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:00.123456Z" } })
}

fn without_metadata(object: &Value) -> Value {
    let mut object = object.clone();
    object.as_object_mut().unwrap().remove("metadata");
    object
}

#[tokio::test]
async fn each_group_shows_the_events_of_the_other_in_its_own_words() {
    let server = server();
    let created = post(&server, CORE, &core()).await.expect(201);
    let mut expected = without_metadata(&core());
    for (field, value) in [
        ("apiVersion", json!("v1")),
        ("kind", json!("Event")),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        expected[field] = value;
    }
    assert_eq!(without_metadata(&created), expected);
    let other = get(&server, &format!("{GROUPED}/a")).await.expect(200);
    assert_eq!(
        without_metadata(&other),
        json!({ "apiVersion": "events.k8s.io/v1", "kind": "Event", "eventTime": null, "reason": "Started",
            "regarding": core()["involvedObject"], "note": "hello", "type": "Normal", "deprecatedCount": 1,
            "deprecatedSource": core()["source"], "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
            "deprecatedLastTimestamp": "2026-01-01T00:00:00Z" })
    );

    post(&server, GROUPED, &grouped()).await.expect(201);
    let other = get(&server, &format!("{CORE}/b")).await.expect(200);
    assert_eq!(
        without_metadata(&other),
        json!({ "apiVersion": "v1", "kind": "Event", "eventTime": grouped()["eventTime"], "reason": "Started",
            "involvedObject": grouped()["regarding"], "message": "hello", "type": "Normal", "action": "Starting",
            "series": grouped()["series"], "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "reportingComponent": "example.org/x", "reportingInstance": "i" })
    );
}

#[tokio::test]
async fn events_are_selected_by_what_they_are_about() {
    let server = server();
    post(&server, CORE, &core()).await.expect(201);
    post(&server, GROUPED, &grouped()).await.expect(201);
    for (path, selector, expected) in [
        (CORE, "involvedObject.name=p", &["a", "b"][..]),
        (CORE, "involvedObject.name=p,involvedObject.uid=u1", &["a"]),
        (CORE, "source=kubelet", &["a"]),
        (CORE, "source=example.org/x", &["b"]),
        (CORE, "reportingComponent=example.org/x", &["b"]),
        (CORE, "reason=Started,type!=Warning", &["a", "b"]),
        (GROUPED, "regarding.kind=Pod,regarding.uid=u1", &["a"]),
        (GROUPED, "reportingController=example.org/x", &["b"]),
    ] {
        let list = get(&server, &format!("{path}?fieldSelector={selector}")).await.expect(200);
        assert_eq!(names(&list), expected, "{path} {selector}");
    }
    for (path, selector) in
        [(CORE, "regarding.name=p"), (GROUPED, "involvedObject.name=p"), (GROUPED, "source=x")]
    {
        let answer = get(&server, &format!("{path}?fieldSelector={selector}")).await;
        let field = selector.split('=').next().unwrap();
        assert_eq!(answer.message(), format!("field label not supported: {field}"));
        answer.expect(400);
    }
}

#[tokio::test]
async fn the_newer_group_is_strict_and_the_older_is_not() {
    let server = server();
    let bare = json!({ "metadata": { "name": "bare" }, "involvedObject": {} });
    post(&server, CORE, &bare).await.expect(201);
    let mut far = bare.clone();
    far["involvedObject"] = json!({ "namespace": "other" });
    far["metadata"]["name"] = json!("far");
    let answer = post(&server, CORE, &far).await;
    assert_eq!(
        answer.message(),
        "Event \"far\" is invalid: involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"
    );
    let answer = post(&server, GROUPED, &json!({ "metadata": { "name": "d" }, "regarding": {} })).await;
    assert_eq!(
        answer.message(),
        "Event \"d\" is invalid: [eventTime: Required value, type: Invalid value: \"\": has invalid value: ]"
    );
    post(&server, GROUPED, &grouped()).await.expect(201);
    let answer = patch(&server, &format!("{GROUPED}/b"), MERGE, &json!({ "note": "x" })).await;
    assert!(
        answer.message().contains("message: Invalid value: \"x\": field is immutable"),
        "{}",
        answer.message()
    );
    answer.expect(422);
    patch(&server, &format!("{GROUPED}/b"), MERGE, &json!({ "series": { "count": 3 } })).await.expect(200);
    patch(&server, &format!("{CORE}/b"), MERGE, &json!({ "message": "x" })).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn events_go_an_hour_after_they_were_last_written() {
    const MINUTE: std::time::Duration = std::time::Duration::from_mins(1);
    let server = server();
    let path = |name: &str| format!("/api/v1/namespaces/default/events/{name}");
    for name in ["once", "again"] {
        let event = json!({ "metadata": { "name": name }, "involvedObject": { "namespace": "default" } });
        post(&server, "/api/v1/namespaces/default/events", &event).await.expect(201);
    }
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    tokio::time::sleep(30 * MINUTE).await;
    patch(&server, &path("again"), MERGE, &json!({ "count": 2 })).await.expect(200);
    tokio::time::sleep(28 * MINUTE).await;
    get(&server, &path("once")).await.expect(200);
    tokio::time::sleep(5 * MINUTE).await;
    get(&server, &path("once")).await.expect(404);
    get(&server, &path("again")).await.expect(200);
    tokio::time::sleep(30 * MINUTE).await;
    get(&server, &path("again")).await.expect(404);
    get(&server, &format!("{WIDGETS}/a")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn events_of_before_a_restart_go_by_the_times_in_them() {
    let store = memory();
    let events = "/api/v1/namespaces/default/events";
    let at = |time: &str| {
        let time: jiff::Timestamp = time.parse().unwrap();
        ApiServer::builder(store.clone()).now(move || time).build().unwrap()
    };
    let event = json!({ "metadata": { "name": "a" }, "involvedObject": { "namespace": "default" } });
    post(&at("2026-01-01T00:00:00Z"), events, &event).await.expect(201);
    let server = at("2026-01-01T00:50:00Z");
    get(&server, &format!("{events}/a")).await.expect(200);
    tokio::time::sleep(std::time::Duration::from_mins(12)).await;
    get(&server, &format!("{events}/a")).await.expect(404);
}
