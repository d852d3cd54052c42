use http::Method;
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn an_object_without_finalizers_is_gone_at_once() {
    let server = server();
    let created = post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let status = delete(&server, &path).await.expect(200);
    assert_eq!(
        status,
        json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": {
            "name": "a", "group": "example.dev", "kind": "widgets", "uid": created["metadata"]["uid"] } })
    );
    let gone = delete(&server, &path).await;
    assert_eq!(gone.message(), "widgets.example.dev \"a\" not found");
    gone.expect(404);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_they_are_gone() {
    let server = server();
    let mut body = widget("a");
    body["metadata"]["finalizers"] = json!(["example.dev/one", "example.dev/two"]);
    post(&server, WIDGETS, &body).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let marked = delete(&server, &path).await.expect(200);
    assert_eq!(marked["kind"], "Widget");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    assert_eq!(delete(&server, &path).await.expect(200), marked, "once is enough");
    let finalizers = |list: &[&str]| json!({ "metadata": { "finalizers": list } });
    let added = patch(&server, &path, MERGE, &finalizers(&["example.dev/one", "example.dev/three"])).await;
    assert!(added.message().contains("no new finalizers can be added"), "{}", added.message());
    added.expect(422);
    patch(&server, &format!("{path}/status"), MERGE, &finalizers(&[])).await.expect(200);
    patch(&server, &path, MERGE, &finalizers(&["example.dev/two"])).await.expect(200);
    get(&server, &path).await.expect(200);
    let from = server.revision();
    let mut events =
        raw(Method::GET, &format!("{WIDGETS}?watch=true&resourceVersion={from}")).watch(&server).await;
    let last = patch(&server, &path, MERGE, &json!({ "metadata": { "finalizers": null } })).await.expect(200);
    assert_eq!(last["metadata"].get("finalizers"), None);
    assert_eq!(events.brief().await, "DELETED a");
    get(&server, &path).await.expect(404);
}

#[tokio::test]
async fn preconditions_are_held() {
    let server = server();
    let created = post(&server, WIDGETS, &widget("a")).await.expect(201);
    let path = format!("{WIDGETS}/a");
    let options = |preconditions: serde_json::Value| json!({ "kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions });
    let other = raw(Method::DELETE, &path).json(&options(json!({ "uid": "other" }))).send(&server).await;
    assert!(
        other.message().contains("the UID in the precondition (other) does not match the UID in record ("),
        "{}",
        other.message()
    );
    other.expect(409);
    raw(Method::DELETE, &path)
        .json(&options(json!({ "resourceVersion": "1" })))
        .send(&server)
        .await
        .expect(409);
    raw(Method::DELETE, &path)
        .json(&json!({ "propagationPolicy": "Sideways" }))
        .send(&server)
        .await
        .expect(422);
    let right = json!({ "uid": created["metadata"]["uid"], "resourceVersion": created["metadata"]["resourceVersion"] });
    let mut right = options(right);
    right["propagationPolicy"] = json!("Background");
    raw(Method::DELETE, &path).json(&right).send(&server).await.expect(200);
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let server = server();
    for (name, on) in [("a", "yes"), ("b", "no"), ("c", "yes")] {
        let mut body = widget(name);
        body["metadata"]["labels"] = json!({ "on": on });
        post(&server, WIDGETS, &body).await.expect(201);
    }
    let deleted = delete(&server, &format!("{WIDGETS}?labelSelector=on=yes")).await.expect(200);
    assert_eq!((&deleted["kind"], names(&deleted)), (&json!("WidgetList"), vec!["a", "c"]));
    assert_eq!(names(&get(&server, WIDGETS).await.expect(200)), ["b"]);
    delete(&server, "/apis/example.dev/v1/widgets").await.expect(404);
}
