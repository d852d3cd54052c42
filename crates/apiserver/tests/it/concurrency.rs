//! Many clients at once: nothing is lost, nothing is seen twice, and watchers end where lists are.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Method;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_apiserver::ApiServer;
use windlass_store::{Store, StoreOptions, open_file};

use crate::common::*;

const ALL_WIDGETS: &str = "/apis/example.dev/v1/widgets";
/// What every watcher sees last.
const LAST: &str = "zz-last";

/// A server on each kind of store, with the folder that it needs.
fn servers() -> Vec<(ApiServer, TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let file = open_file(&folder.path().join("store"), &StoreOptions::default()).unwrap();
    let stores: [Arc<dyn Store>; 2] = [file, memory()];
    stores.into_iter().map(server_over).zip([folder, tempfile::tempdir().unwrap()]).collect()
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(5), future)
        .await
        .unwrap_or_else(|_| panic!("{what} does not end"))
}

/// Creates, changes and deletes widgets at random. Losing a race is part of it.
async fn write_at_random(server: ApiServer, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for _ in 0..60 {
        let collection =
            format!("/apis/example.dev/v1/namespaces/{}/widgets", ["a", "b"][random.random_range(0..2)]);
        let name = format!("w{}", random.random_range(0..8));
        let team = ["red", "blue"][random.random_range(0..2)];
        let labels = json!({ "metadata": { "labels": { "team": team } } });
        let path = format!("{collection}/{name}");
        let answer = match random.random_range(0..5) {
            0 | 1 => {
                let mut widget = widget(&name);
                widget["metadata"]["labels"] = json!({ "team": team });
                post(&server, &collection, &widget).await
            }
            2 => patch(&server, &path, MERGE, &labels).await,
            3 => {
                let size = json!({ "spec": { "size": random.random_range(1..9), "color": team } });
                patch(&server, &path, MERGE, &size).await
            }
            _ => delete(&server, &path).await,
        };
        assert!(matches!(answer.status.as_u16(), 200 | 201 | 404 | 409), "{answer:?}");
    }
}

/// The objects of a list by namespace and name, with their versions.
type Seen = BTreeMap<String, u64>;

fn place(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!("{}/{}", metadata["namespace"].as_str().unwrap(), metadata["name"].as_str().unwrap())
}

fn seen(list: &Value) -> Seen {
    list["items"].as_array().unwrap().iter().map(|object| (place(object), version(object))).collect()
}

/// Lists and then follows until the last widget comes; what it then believes to exist.
async fn follow(server: ApiServer, selector: &str) -> Seen {
    let list = get(&server, &format!("{ALL_WIDGETS}?{selector}")).await.expect(200);
    let mut believed = seen(&list);
    let mut at = version(&list);
    let mut events = raw(Method::GET, &format!("{ALL_WIDGETS}?watch=true&resourceVersion={at}&{selector}"))
        .watch(&server)
        .await;
    while !believed.contains_key(&format!("a/{LAST}")) {
        let event = events.next().await.unwrap();
        let (object, now) = (&event["object"], version(&event["object"]));
        assert!(now > at, "events come in the order of revisions: {event} after {at}");
        at = now;
        let known = match event["type"].as_str().unwrap() {
            "ADDED" => believed.insert(place(object), now).is_none(),
            "MODIFIED" => believed.insert(place(object), now).is_some(),
            "DELETED" => believed.remove(&place(object)).is_some(),
            _ => false,
        };
        assert!(known, "{event} does not follow from what was seen before");
    }
    believed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_that_join_at_any_time_end_at_what_a_list_shows() {
    const SELECTORS: [&str; 4] = [
        "",
        "labelSelector=team%3Dred",
        "labelSelector=team%20notin%20(blue)",
        "fieldSelector=spec.color%3Dred,metadata.namespace%3Da",
    ];
    for (server, _folder) in servers() {
        let writers: Vec<_> =
            (0..6).map(|seed| tokio::spawn(write_at_random(server.clone(), seed))).collect();
        let mut watchers = Vec::new();
        for _ in 0..3 {
            for selector in SELECTORS {
                watchers.push((selector, tokio::spawn(follow(server.clone(), selector))));
            }
            // The next ones join later.
            get(&server, ALL_WIDGETS).await.expect(200);
        }
        within("writing", join_all(writers)).await.into_iter().for_each(|writer| writer.unwrap());
        let mut end = widget(LAST);
        end["metadata"]["labels"] = json!({ "team": "red" });
        post(&server, "/apis/example.dev/v1/namespaces/a/widgets", &end).await.expect(201);
        for (selector, watcher) in watchers {
            let believed = within(selector, watcher).await.unwrap();
            let list = get(&server, &format!("{ALL_WIDGETS}?{selector}")).await.expect(200);
            assert_eq!(believed, seen(&list), "{selector}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_that_lost_a_race_are_refused_so_that_no_increment_is_lost() {
    for (server, _folder) in servers() {
        let path = "/api/v1/namespaces/a/configmaps";
        let map = json!({ "metadata": { "name": "counter" }, "data": { "count": "0" } });
        post(&server, path, &map).await.expect(201);
        let path = "/api/v1/namespaces/a/configmaps/counter";
        let clients = (0..12).map(|_| {
            let server = server.clone();
            tokio::spawn(async move {
                let mut done = 0;
                while done < 5 {
                    let mut map = get(&server, path).await.expect(200);
                    let count: u32 = map["data"]["count"].as_str().unwrap().parse().unwrap();
                    map["data"]["count"] = json!((count + 1).to_string());
                    let answer = put(&server, path, &map).await;
                    match answer.status.as_u16() {
                        200 => done += 1,
                        409 => assert_eq!(answer.body["reason"], "Conflict"),
                        _ => panic!("{answer:?}"),
                    }
                }
            })
        });
        within("counting", join_all(clients)).await.into_iter().for_each(|client| client.unwrap());
        assert_eq!(get(&server, path).await.expect(200)["data"]["count"], "60");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_of_different_fields_made_at_once_all_arrive() {
    for (server, _folder) in servers() {
        post(&server, WIDGETS, &widget("a")).await.expect(201);
        let path = format!("{WIDGETS}/a");
        let clients = (0..16).map(|client| {
            let (server, path) = (server.clone(), path.clone());
            tokio::spawn(async move {
                let change =
                    json!({ "metadata": { "annotations": { format!("client-{client}"): "was here" } } });
                // The server applies a patch anew to a newer state, a bounded number of times.
                while patch(&server, &path, MERGE, &change).await.status.as_u16() == 409 {}
            })
        });
        within("patching", join_all(clients)).await.into_iter().for_each(|client| client.unwrap());
        let annotations = &get(&server, &path).await.expect(200)["metadata"]["annotations"];
        assert_eq!(annotations.as_object().unwrap().len(), 16, "{annotations}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_creators_of_a_name_wins_and_generated_names_all_differ() {
    for (server, _folder) in servers() {
        let create = |body: Value| {
            (0..20).map(move |_| {
                let (server, body) = (server.clone(), body.clone());
                async move { post(&server, GADGETS, &body).await }
            })
        };
        let answers = join_all(create.clone()(gadget("only"))).await;
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status.as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!((statuses[0], &statuses[1..]), (201, &[409; 19][..]));
        let mut body = gadget("");
        body["metadata"] = json!({ "generateName": "made-" });
        let made = join_all(create(body)).await;
        let mut names: Vec<String> = made
            .into_iter()
            .map(|answer| answer.expect(201)["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 20);
    }
}

/// Twenty clients write to one widget at once, each of them ten times, with one kind of write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_name_no_version_are_never_in_conflict() {
    const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/a";
    for (server, _folder) in servers() {
        post(&server, WIDGETS, &widget("a")).await.expect(201);
        let map = |data: Value| json!({ "metadata": { "name": "a" }, "data": data });
        post(&server, CONFIG_MAP.trim_end_matches("/a"), &map(json!({}))).await.expect(201);
        let path = format!("{WIDGETS}/a");
        let clients = (0..20_u32).map(|client| {
            let (server, path) = (server.clone(), path.clone());
            tokio::spawn(async move {
                for round in 0..10 {
                    let field = format!("f{client}");
                    let send = |method: Method, path: String, kind: &'static str, body: Value| {
                        raw(method, &path).header("content-type", kind).json(&body)
                    };
                    let free = json!({ "spec": { "free": { &field: round } } });
                    let request = match client % 6 {
                        0 => send(Method::PATCH, path.clone(), MERGE, free),
                        1 => {
                            let add = json!([{ "op": "add", "path": "/spec/size", "value": round % 10 + 1 }]);
                            send(Method::PATCH, path.clone(), "application/json-patch+json", add)
                        }
                        2 => {
                            let mut applied = widget("a");
                            applied["spec"] = json!({ "free": { &field: round } });
                            let path = format!("{path}?fieldManager={field}");
                            send(Method::PATCH, path, "application/apply-patch+yaml", applied)
                        }
                        3 => {
                            let status = json!({ "status": { "phase": format!("{field}-{round}") } });
                            send(Method::PATCH, format!("{path}/status"), MERGE, status)
                        }
                        4 => {
                            let data = json!({ "data": { &field: round.to_string() } });
                            let kind = "application/strategic-merge-patch+json";
                            send(Method::PATCH, CONFIG_MAP.to_owned(), kind, data)
                        }
                        _ => {
                            let body =
                                json!({ "metadata": { "name": "a" }, "data": { &field: round.to_string() } });
                            send(Method::PUT, CONFIG_MAP.to_owned(), "application/json", body)
                        }
                    };
                    let answer = request.send(&server).await;
                    assert_eq!(answer.status, 200, "client {client}: {answer:?}");
                }
            })
        });
        for client in within("twenty writers", join_all(clients)).await {
            client.unwrap();
        }
        let free = get(&server, &path).await.expect(200)["spec"]["free"].clone();
        for client in (0..20).filter(|client| matches!(client % 6, 0 | 2)) {
            assert_eq!(free[format!("f{client}")], 9, "{free}");
        }
        server.close().await;
    }
}
