//! What one request may cost: depth, size, work and memory are bounded, whatever it asks for.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_store::{Key, StoreOptions, Write as Change, open_file};
use windlass_telemetry::{CapturedLog, LogFormat};

use crate::common::*;

const JSON_PATCH: &str = "application/json-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// How many levels an object may have.
const MAX_DEPTH: usize = 100;

/// A value of so many levels.
fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |value, _| json!({ "a": value }))
}

fn deep_widget(levels: usize) -> Value {
    // The object, its spec and the free field are three levels.
    let mut widget = widget("deep");
    widget["spec"]["free"] = json!({ "a": nested(levels - 3) });
    widget
}

/// Runs requests on a thread of their own, and fails when they take longer than that: what keeps a thread busy cannot be
/// stopped by a timer on it.
fn quickly<F: Future<Output = ()>>(what: &str, requests: impl FnOnce() -> F + Send + 'static) {
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(requests());
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[tokio::test]
async fn a_patch_that_doubles_the_depth_of_an_object_is_refused() {
    let server = server();
    let mut body = widget("a");
    body["spec"]["free"] = json!({ "a": {} });
    post(&server, WIDGETS, &body).await.expect(201);
    let mut chain = "/a".to_owned();
    let mut copies = Vec::new();
    for _ in 0..15 {
        copies.push(json!({ "op": "copy", "from": "/spec/free", "path": format!("/spec/free{chain}/a") }));
        chain = format!("{chain}/a{chain}");
    }
    let path = format!("{WIDGETS}/a");
    let answer = patch(&server, &path, JSON_PATCH, &json!(copies)).await;
    assert!(answer.message().contains("deeper than"), "{answer:?}");
    answer.expect(400);
    assert_eq!(get(&server, &path).await.expect(200)["spec"]["free"], json!({ "a": {} }));
}

#[tokio::test]
async fn what_is_too_deep_is_refused_by_every_way_in_and_what_is_not_can_be_read() {
    let server = server();
    let path = format!("{WIDGETS}/deep");
    for levels in [MAX_DEPTH + 1, MAX_DEPTH + 20, MAX_DEPTH] {
        let widget = deep_widget(levels);
        let free = &widget["spec"]["free"];
        let fits = levels <= MAX_DEPTH;
        // YAML is read to fewer levels.
        let expected =
            |status: StatusCode, yaml: bool| status == 400 && (yaml || !fits) || fits && status.is_success();
        let merge = json!({ "spec": { "free": free } });
        let add = json!([{ "op": "add", "path": "/spec/free", "value": free }]);
        for (method, path, kind, body) in [
            (Method::POST, WIDGETS, "application/json", widget.to_string()),
            (Method::PATCH, &path, MERGE, merge.to_string()),
            (Method::PATCH, &path, JSON_PATCH, add.to_string()),
            (Method::PATCH, &format!("{path}?fieldManager=x&force=true"), APPLY, widget.to_string()),
            (Method::POST, WIDGETS, "application/yaml", widget.to_string()),
            (Method::POST, WIDGETS, "application/json", widget.to_string()),
        ] {
            delete(&server, &path.replace("?fieldManager=x&force=true", "")).await;
            if method == Method::PATCH {
                post(&server, WIDGETS, &crate::common::widget("deep")).await;
            } else {
                delete(&server, &format!("{WIDGETS}/deep")).await;
            }
            let answer =
                raw(method.clone(), path).header("content-type", kind).text(body).send(&server).await;
            assert!(
                expected(answer.status, kind.ends_with("/yaml")),
                "{levels} levels by {method} {kind}: {answer:?}"
            );
        }
    }
    // Each is parsed by a reader that takes 128 levels.
    assert_eq!(get(&server, &path).await.expect(200)["spec"]["free"], deep_widget(MAX_DEPTH)["spec"]["free"]);
    assert_eq!(names(&get(&server, WIDGETS).await.expect(200)), ["deep"]);
    let mut events = raw(Method::GET, &format!("{WIDGETS}?watch=true")).watch(&server).await;
    assert_eq!(events.brief().await, "ADDED deep");
}

#[tokio::test]
async fn a_stored_definition_that_cannot_be_read_does_not_keep_the_server_from_starting() {
    let store = memory();
    let mut text = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"deep.example.org","uid":"1"},"spec":"#.to_owned();
    let _ = write!(text, "{}{}}}", r#"{"a":"#.repeat(300), "1".to_owned() + &"}".repeat(300));
    let key = Key::new("apiextensions.k8s.io", "customresourcedefinitions", "", "deep.example.org").unwrap();
    store.commit(vec![Change::create(key, text)]).await.unwrap();
    let server = server_over(store);
    let logged = CapturedLog::start(LogFormat::Json, "info").unwrap();
    server.start().await.unwrap();
    let text = logged.text();
    drop(logged);
    let told = |line: &&str| line.contains("failed to read a stored definition");
    let line = text.lines().find(told).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("deep.example.org") && line.contains("recursion limit"), "{line}");
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    // Definitions go on being served when they change.
    get(&server, &format!("{CRDS}/widgets.example.dev")).await.expect(200);
    // It can be read as it is stored, and taken out.
    let path = format!("{CRDS}/deep.example.org");
    let read = raw(Method::GET, &path).response(&server).await;
    assert_eq!(read.status(), StatusCode::OK);
    let text = axum::body::to_bytes(read.into_body(), usize::MAX).await.unwrap();
    assert!(text.ends_with(&[b'}'; 301]), "{text:?}");
    delete(&server, &path).await.expect(500);
    let anyway = json!({ "ignoreStoreReadErrorWithClusterBreakingPotential": true });
    raw(Method::DELETE, &path).json(&anyway).send(&server).await.expect(200);
    get(&server, &path).await.expect(404);
}

#[test]
fn a_strategic_merge_of_many_finalizers_is_quick() {
    quickly("20,000 finalizers", || async {
        let server = server();
        let finalizers: Vec<String> = (0..20_000).map(|index| format!("example.dev/f{index}")).collect();
        let body = json!({ "metadata": { "name": "a", "finalizers": finalizers } });
        post(&server, CONFIG_MAPS, &body).await.expect(201);
        let path = format!("{CONFIG_MAPS}/a");
        let mut reversed = finalizers.clone();
        reversed.reverse();
        let change =
            json!({ "metadata": { "finalizers": reversed, "$setElementOrder/finalizers": reversed } });
        let merged = patch(&server, &path, STRATEGIC, &change).await.expect(200);
        assert_eq!(merged["metadata"]["finalizers"][0], "example.dev/f19999");
        let change = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": finalizers } });
        patch(&server, &path, STRATEGIC, &change).await.expect(200);
        delete(&server, &path).await.expect(200);
    });
}

#[test]
fn many_owners_are_quick() {
    quickly("20,000 owners", || async {
        let server = server();
        let owner = |index: usize| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": format!("u{index}") });
        let owners: Vec<Value> = (0..20_000).map(|index| owner(index % 19_000)).collect();
        let body = json!({ "metadata": { "name": "a", "ownerReferences": owners } });
        post(&server, CONFIG_MAPS, &body).await.expect(201);
        let path = format!("{CONFIG_MAPS}/a");
        let change = json!({ "metadata": { "ownerReferences": owners[5000..15_000] } });
        let answer = patch(&server, &path, STRATEGIC, &change).await;
        assert!(matches!(answer.status.as_u16(), 200 | 404), "{answer:?}");
        // All of them controllers: told in a few words.
        let controllers: Vec<Value> = (0..20_000)
            .map(|index| {
                let mut owner = owner(index);
                owner["controller"] = json!(true);
                owner
            })
            .collect();
        let body = json!({ "metadata": { "name": "b", "ownerReferences": controllers } });
        let refused = post(&server, CONFIG_MAPS, &body).await.expect(422).to_string();
        assert!(refused.len() < 1 << 20, "{}", refused.len());
    });
}

#[test]
fn many_managed_fields_are_quick() {
    quickly("20,000 managed fields", || async {
        let server = server();
        let entry = |manager: String, fields: Value| {
            json!({ "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": fields })
        };
        let many: Vec<Value> =
            (0..20_000).map(|index| entry(format!("m{index}"), json!({ "f:data": { "f:a": {} } }))).collect();
        let body = json!({ "metadata": { "name": "a", "managedFields": many }, "data": { "a": "b" } });
        let answer = post(&server, CONFIG_MAPS, &body).await;
        assert!(answer.status.is_success() || answer.status.is_client_error(), "{answer:?}");
        // In an order that is not that of elements: 9 stands before 10.
        let fields: serde_json::Map<String, Value> =
            (0..60_000).map(|index| (format!("v:{index}"), json!({}))).collect();
        let body = json!({ "data": { "a": "b" },
            "metadata": { "name": "b", "managedFields": [entry("m".to_owned(), json!({ "f:data": fields }))] } });
        let answer = post(&server, CONFIG_MAPS, &body).await;
        assert!(answer.status.is_success() || answer.status.is_client_error(), "{answer:?}");
    });
}

/// A definition whose lists are judged item by item.
fn lists() -> Value {
    let item = json!({ "type": "object", "required": ["type"],
        "properties": { "type": { "type": "string" }, "status": { "type": "string" } } });
    let list = |rest: Value| {
        let mut list = json!({ "type": "array" });
        list.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        list
    };
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "lists.example.org" },
        "spec": { "group": "example.org", "scope": "Namespaced",
            "names": { "plural": "lists", "kind": "List1" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": { "type": "object", "properties": {
                    "conditions": list(json!({ "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"] })),
                    "set": list(json!({ "items": { "type": "string" }, "x-kubernetes-list-type": "set" })),
                    "numbers": list(json!({ "items": { "type": "integer", "maximum": 3 } })),
                    "defaulted": list(json!({ "items": { "type": "object", "properties": {
                        "text": { "type": "string", "default": "x".repeat(1000) } } } })) } } } } } }] } })
}

const LISTS: &str = "/apis/example.org/v1/namespaces/default/lists";

fn list(spec: Value) -> Value {
    json!({ "apiVersion": "example.org/v1", "kind": "List1", "metadata": { "name": "a" }, "spec": spec })
}

async fn with_lists() -> ApiServer {
    let server = server();
    post(&server, CRDS, &lists()).await.expect(201);
    server
}

#[test]
fn long_keyed_lists_and_sets_are_quick() {
    quickly("12,000 conditions", || async {
        let server = with_lists().await;
        let conditions = |status: &str| -> Vec<Value> {
            (0..12_000).map(|index| json!({ "type": format!("T{index}"), "status": status })).collect()
        };
        let set: Vec<String> = (0..12_000).map(|index| format!("s{index}")).collect();
        let body = list(json!({ "conditions": conditions("True"), "set": set }));
        post(&server, LISTS, &body).await.expect(201);
        let path = format!("{LISTS}/a");
        let change = json!({ "spec": { "conditions": conditions("False") } });
        patch(&server, &path, MERGE, &change).await.expect(200);
        let mut backwards = conditions("True");
        backwards.reverse();
        let applied = list(json!({ "conditions": backwards, "set": set }));
        let applied = raw(Method::PATCH, &format!("{path}?fieldManager=x&force=true"))
            .header("content-type", APPLY)
            .json(&applied);
        applied.send(&server).await.expect(200);
    });
}

#[test]
fn errors_are_told_up_to_a_bound() {
    quickly("100,000 errors below a long name", || async {
        let server = with_lists().await;
        let body = list(json!({ "numbers": vec![9; 100_000] }));
        let refused = post(&server, LISTS, &body).await.expect(422).to_string();
        assert!(refused.len() < 1 << 20, "{}", refused.len());
        let unknown: serde_json::Map<String, Value> =
            (0..100_000).map(|index| (format!("u{index}"), json!(1))).collect();
        let answer = post(&server, LISTS, &list(Value::Object(unknown))).await;
        let warnings: usize = answer.headers.get_all("warning").iter().map(http::HeaderValue::len).sum();
        assert!(warnings > 0 && warnings < 16 << 10, "{warnings} bytes of warnings");
        answer.expect(201);
    });
}

#[test]
fn keys_that_stand_twice_are_warned_of_up_to_a_bound() {
    quickly("200,000 duplicate keys", || async {
        let server = server();
        let mut text = format!(
            r#"{{"apiVersion":"example.dev/v1","kind":"Widget","metadata":{{"name":"a"}},"spec":{{"size":3,"free":{{"{}":{{"#,
            "k".repeat(200_000)
        );
        for index in 0..200_000 {
            let _ = write!(text, r#"{}"a":{}"#, if index == 0 { "" } else { "," }, index % 10);
        }
        text.push_str("}}}}");
        let answer = raw(Method::POST, WIDGETS).text(text).send(&server).await;
        let warnings: usize = answer.headers.get_all("warning").iter().map(http::HeaderValue::len).sum();
        assert!(warnings > 0 && warnings < 16 << 10, "{warnings} bytes of warnings");
        answer.expect(201);
    });
}

#[tokio::test]
async fn defaults_count_as_what_is_sent_does() {
    let server = with_lists().await;
    let body = list(json!({ "defaulted": vec![json!({}); 100_000] }));
    let answer = post(&server, LISTS, &body).await;
    assert_eq!(answer.expect(413)["reason"], "RequestEntityTooLarge");
    post(&server, LISTS, &list(json!({ "defaulted": vec![json!({}); 100] }))).await.expect(201);
    let change = json!({ "spec": { "defaulted": vec![json!({}); 100_000] } });
    assert_eq!(patch(&server, &format!("{LISTS}/a"), MERGE, &change).await.status, 413);
}

/// The pieces of a body, or of a watch those that come within a second.
async fn pieces(server: &ApiServer, path: &str) -> Vec<Bytes> {
    let response = raw(Method::GET, path).response(server).await;
    assert_eq!(response.status(), StatusCode::OK);
    let mut body = response.into_body().into_data_stream();
    let mut pieces = Vec::new();
    while let Ok(Some(piece)) = tokio::time::timeout(Duration::from_secs(1), body.next()).await {
        pieces.push(piece.unwrap());
    }
    pieces
}

async fn with_large_widgets(count: usize) -> ApiServer {
    let server = server();
    for index in 0..count {
        let mut body = widget(&format!("w{index:03}"));
        body["spec"]["free"] = json!({ "x": "y".repeat(100_000) });
        post(&server, WIDGETS, &body).await.expect(201);
    }
    server
}

#[tokio::test]
async fn lists_and_watches_are_told_piece_by_piece() {
    let server = with_large_widgets(60).await;
    for query in ["", "?watch=true", "?labelSelector=!x"] {
        let pieces = pieces(&server, &format!("{WIDGETS}{query}")).await;
        let total: usize = pieces.iter().map(Bytes::len).sum();
        assert!(total > 6_000_000, "{query}: {total}");
        let largest = pieces.iter().map(Bytes::len).max().unwrap();
        assert!(largest < 600_000, "{query}: {largest}");
    }
    let list = get(&server, WIDGETS).await.expect(200);
    assert_eq!(names(&list).len(), 60);
    let page = get(&server, &format!("{WIDGETS}?limit=7")).await.expect(200);
    assert_eq!((names(&page).len(), &page["metadata"]["remainingItemCount"]), (7, &json!(53)));
}

#[tokio::test]
async fn no_piece_of_a_compressed_list_is_empty() {
    let server = with_large_widgets(60).await;
    let answer = raw(Method::GET, WIDGETS).header("accept-encoding", "gzip").response(&server).await;
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let pieces: Vec<Bytes> = answer.into_body().into_data_stream().map(Result::unwrap).collect().await;
    assert!(!pieces.iter().any(Bytes::is_empty), "{:?}", pieces.iter().map(Bytes::len).collect::<Vec<_>>());
}

#[tokio::test]
async fn watchers_of_one_kind_share_what_they_are_told() {
    let server = with_large_widgets(1).await;
    let version = version(&get(&server, WIDGETS).await.expect(200));
    let watch = format!("{WIDGETS}?watch=true&resourceVersion={version}");
    let mut bodies = Vec::new();
    for _ in 0..2 {
        let mut body = raw(Method::GET, &watch).response(&server).await.into_body().into_data_stream();
        body.next().now_or_never();
        bodies.push(body);
    }
    let change = json!({ "spec": { "size": 4 } });
    patch(&server, &format!("{WIDGETS}/w000"), MERGE, &change).await.expect(200);
    let mut told = Vec::new();
    for body in &mut bodies {
        let piece = loop {
            let piece = body.next().await.unwrap().unwrap();
            if !piece.is_empty() {
                break piece;
            }
        };
        assert!(piece.len() > 100_000);
        told.push(piece);
    }
    assert_eq!(told[0], told[1]);
    assert_eq!(told[0].as_ptr(), told[1].as_ptr(), "the bytes are made once");
}

#[tokio::test]
async fn the_longest_timeout_that_can_be_asked_for_is_one() {
    let server = server();
    for seconds in ["9223372036854775807", "4000000000"] {
        let path = format!("{WIDGETS}?watch=true&timeoutSeconds={seconds}");
        let mut body = raw(Method::GET, &path).response(&server).await.into_body().into_data_stream();
        body.next().now_or_never();
        post(&server, WIDGETS, &widget(&format!("w{}", seconds.len()))).await.expect(201);
        while body.next().await.unwrap().unwrap().is_empty() {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_not_waited_for_long() {
    let server = server();
    server.start().await.unwrap();
    for method in [Method::POST, Method::PATCH, Method::DELETE] {
        let path = if method == Method::POST { WIDGETS.to_owned() } else { format!("{WIDGETS}/a") };
        let mut request = http::Request::builder().method(method).uri(path).header("content-type", MERGE);
        request.extensions_mut().unwrap().insert(windlass_auth::Caller::system("tests"));
        let body = Body::from_stream(futures::stream::pending::<Result<Bytes, std::convert::Infallible>>());
        let asked = tower::ServiceExt::oneshot(server.router(), request.body(body).unwrap());
        let response = tokio::time::timeout(Duration::from_mins(2), asked).await.unwrap().unwrap();
        assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
    }
}

/// Waits for a condition of the server.
async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let deadline = tokio::time::Instant::now() + Duration::from_mins(2);
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "{what}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_from_a_write_happens_although_its_client_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let server = server_over(open_file(&folder.path().join("store"), &StoreOptions::default()).unwrap());
    server.start().await.unwrap();
    for index in 0..5 {
        let mut definition = lists();
        let plural = format!("lists{index}");
        definition["metadata"]["name"] = json!(format!("{plural}.example.org"));
        definition["spec"]["names"] = json!({ "plural": plural, "kind": format!("List{index}") });
        // Asked once: the client has gone before the write is stored.
        assert!(Box::pin(post(&server, CRDS, &definition)).now_or_never().is_none());
        let path = format!("/apis/example.org/v1/namespaces/default/{plural}");
        eventually("the definition is served", || async {
            get(&server, &path).await.status.is_success().then_some(())
        })
        .await;
    }
    let namespaces = "/api/v1/namespaces";
    post(&server, namespaces, &json!({ "metadata": { "name": "held" } })).await.expect(201);
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    let widgets = "/apis/example.dev/v1/namespaces/held/widgets";
    post(&server, widgets, &held).await.expect(201);
    assert!(Box::pin(delete(&server, "/api/v1/namespaces/held")).now_or_never().is_none());
    eventually("the namespace is marked", || async {
        let namespace = get(&server, "/api/v1/namespaces/held").await.expect(200);
        (namespace["status"]["phase"] == "Terminating").then_some(())
    })
    .await;
    eventually("nothing is created in it", || async {
        (post(&server, &format!("{widgets}?dryRun=All"), &widget("late")).await.status == 403).then_some(())
    })
    .await;
    server.close().await;
}
