use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};
use serde_json::json;
use windlass_store::{self as store, StoreOptions};

use crate::common::*;

fn watching(query: &str) -> Raw {
    raw(Method::GET, &format!("{WIDGETS}?watch=true{query}"))
}

#[tokio::test]
async fn a_watch_from_a_version_tells_every_later_change_in_order() {
    let server = server();
    let first = post(&server, WIDGETS, &widget("a")).await.expect(201);
    let mut events = watching(&format!("&resourceVersion={}", version(&first))).watch(&server).await;
    post(&server, WIDGETS, &widget("b")).await.expect(201);
    post(&server, GADGETS, &gadget("other")).await.expect(201);
    post(&server, &WIDGETS.replace("default", "other"), &widget("other")).await.expect(201);
    let patched =
        patch(&server, &format!("{WIDGETS}/a"), MERGE, &json!({ "spec": { "size": 5 } })).await.expect(200);
    delete(&server, &format!("{WIDGETS}/b")).await.expect(200);
    assert_eq!(events.brief().await, "ADDED b");
    let modified = events.next().await.unwrap();
    assert_eq!(modified["type"], "MODIFIED");
    assert_eq!(modified["object"], patched);
    let deleted = events.next().await.unwrap();
    assert_eq!((&deleted["type"], &deleted["object"]["metadata"]["name"]), (&json!("DELETED"), &json!("b")));
    assert_eq!(version(&deleted["object"]), server.revision(), "the deletion's own version");
}

#[tokio::test]
async fn a_watch_from_nowhere_starts_with_what_is_there() {
    let server = server();
    for name in ["a", "b"] {
        post(&server, WIDGETS, &widget(name)).await.expect(201);
    }
    for query in ["", "&resourceVersion=0"] {
        let mut events = watching(query).watch(&server).await;
        assert_eq!(events.brief().await, "ADDED a");
        assert_eq!(events.brief().await, "ADDED b");
    }
    let mut one = watching("&fieldSelector=metadata.name%3Db").watch(&server).await;
    assert_eq!(one.brief().await, "ADDED b");
    // One object is read, whatever is asked for beside it.
    let read = get(&server, &format!("{WIDGETS}/b?watch=true")).await.expect(200);
    assert_eq!(read["kind"], "Widget");
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let query = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = watching(query).watch(&server).await;
    assert_eq!(events.brief().await, "ADDED a");
    let bookmark = events.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["kind"], "Widget");
    assert_eq!(bookmark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(version(&bookmark["object"]), server.revision());
    post(&server, WIDGETS, &widget("b")).await.expect(201);
    assert_eq!(events.brief().await, "ADDED b");
    for refused in ["&sendInitialEvents=true", "&resourceVersionMatch=NotOlderThan"] {
        watching(refused).send(&server).await.expect(422);
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_while_nothing_happens_and_before_the_end() {
    let server = server();
    let created = post(&server, GADGETS, &gadget("a")).await.expect(201);
    let query = format!("&allowWatchBookmarks=true&timeoutSeconds=90&resourceVersion={}", version(&created));
    let mut events = watching(&query).watch(&server).await;
    let started = tokio::time::Instant::now();
    for _ in 0..2 {
        let bookmark = events.next().await.unwrap();
        assert_eq!(bookmark["type"], "BOOKMARK");
        assert_eq!(version(&bookmark["object"]), server.revision());
    }
    assert!(events.next().await.is_none(), "the time is over");
    assert_eq!(started.elapsed().as_secs(), 90);
    let mut silent = watching("&timeoutSeconds=90&resourceVersion=1").watch(&server).await;
    assert!(silent.next().await.is_none(), "no bookmarks unless asked for");
}

#[tokio::test]
async fn a_version_that_is_too_old_is_gone() {
    let store = store::in_memory(&StoreOptions {
        log_events: 4,
        log_grace: std::time::Duration::ZERO,
        ..StoreOptions::default()
    })
    .unwrap();
    let server = server_over(store);
    for index in 0..10 {
        post(&server, WIDGETS, &widget(&format!("w{index}"))).await.expect(201);
    }
    let mut events = watching("&resourceVersion=2").watch(&server).await;
    let error = events.next().await.unwrap();
    assert_eq!(error["type"], "ERROR");
    assert_eq!((&error["object"]["code"], &error["object"]["reason"]), (&json!(410), &json!("Expired")));
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn objects_enter_and_leave_a_selection() {
    let server = server();
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let from = server.revision();
    let mut events = watching(&format!("&labelSelector=on=yes&resourceVersion={from}")).watch(&server).await;
    let path = format!("{WIDGETS}/a");
    let label = |value: &str| json!({ "metadata": { "labels": { "on": value } } });
    patch(&server, &path, MERGE, &label("no")).await.expect(200);
    patch(&server, &path, MERGE, &label("yes")).await.expect(200);
    patch(&server, &path, MERGE, &json!({ "spec": { "size": 7 } })).await.expect(200);
    let left = patch(&server, &path, MERGE, &label("no")).await.expect(200);
    assert_eq!(events.brief().await, "ADDED a");
    assert_eq!(events.brief().await, "MODIFIED a");
    let gone = events.next().await.unwrap();
    assert_eq!(gone["type"], "DELETED");
    assert_eq!(gone["object"]["metadata"]["labels"]["on"], "yes", "the last state that matched");
    assert_eq!(version(&gone["object"]), version(&left));
    delete(&server, &path).await.expect(200);
    post(
        &server,
        WIDGETS,
        &json!({ "apiVersion": "example.dev/v1", "kind": "Widget", "spec": { "size": 1 },
        "metadata": { "name": "b", "labels": { "on": "yes" } } }),
    )
    .await
    .expect(201);
    assert_eq!(events.brief().await, "ADDED b", "a deletion outside of the selection is not told");
}

#[tokio::test]
async fn a_shutdown_ends_watches() {
    let token = tokio_util::sync::CancellationToken::new();
    let server = windlass_apiserver::ApiServer::builder(memory())
        .crds(crds())
        .shutdown(token.clone())
        .build()
        .unwrap();
    let mut events = watching("").watch(&server).await;
    token.cancel();
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_kube_client_watches_in_process() {
    let server = server();
    let api: Api<ConfigMap> = Api::namespaced(server.client_for_tests(), "default");
    let mut events = api.watch(&WatchParams::default().timeout(20), "0").await.unwrap().boxed();
    post(&server, "/api/v1/namespaces/default/configmaps", &json!({ "metadata": { "name": "a" } }))
        .await
        .expect(201);
    let event = tokio::time::timeout(Duration::from_secs(10), events.try_next()).await.unwrap().unwrap();
    assert!(matches!(event, Some(WatchEvent::Added(map)) if map.metadata.name.as_deref() == Some("a")));
}

#[tokio::test]
async fn a_burst_of_large_writes_leaves_no_watch_behind_that_keeps_up() {
    let options =
        StoreOptions { log_bytes: 1 << 20, log_grace: Duration::from_mins(10), ..StoreOptions::default() };
    let server = server_over(store::in_memory(&options).unwrap());
    let mut events = raw(Method::GET, &format!("{WIDGETS}?watch=true")).watch(&server).await;
    // Without a moment for the reader in between.
    for index in 0..30 {
        let mut body = widget(&format!("w{index:02}"));
        body["spec"]["free"] = json!({ "x": "y".repeat(100_000) });
        post(&server, WIDGETS, &body).await.expect(201);
    }
    for index in 0..30 {
        assert_eq!(events.brief().await, format!("ADDED w{index:02}"));
    }
    // There is a bound all the same.
    let mut late = raw(Method::GET, &format!("{WIDGETS}?watch=true&resourceVersion=1")).watch(&server).await;
    for index in 0..90 {
        let mut body = widget(&format!("x{index:02}"));
        body["spec"]["free"] = json!({ "x": "y".repeat(100_000) });
        post(&server, WIDGETS, &body).await.expect(201);
    }
    let mut told = 0;
    while let Some(event) = late.next().await {
        told += 1;
        if event["type"] == "ERROR" {
            assert_eq!(event["object"]["code"], 410);
            assert!(told < 90, "{told}");
            return;
        }
    }
    panic!("it was not told that it fell behind");
}
