//! A server that is started again over the same file.

use std::path::Path;

use http::Method;
use secrecy::SecretBox;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_auth::Caller;
use windlass_store::{StoreOptions, check_file, open_file};

use crate::common::*;

fn server_on(path: &Path, sealing_key: u8) -> ApiServer {
    let store = open_file(path, &StoreOptions::default()).unwrap();
    let key = SecretBox::new(Box::new([sealing_key; 32]));
    ApiServer::builder(store).crds(crds()).sealing_key(&key).build().unwrap()
}

fn secret() -> Value {
    json!({ "metadata": { "name": "s" }, "stringData": { "token": "hunter2" } })
}

#[tokio::test]
async fn objects_versions_and_secrets_are_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let server = server_on(&path, 1);
    let created = post(&server, WIDGETS, &widget("a")).await.expect(201);
    post(&server, SECRETS, &secret()).await.expect(201);
    let list = get(&server, WIDGETS).await.expect(200);
    server.close().await;

    let server = server_on(&path, 1);
    assert_eq!(get(&server, &format!("{WIDGETS}/a")).await.expect(200), created);
    assert_eq!(version(&get(&server, WIDGETS).await.expect(200)), version(&list));
    assert_eq!(get(&server, &format!("{SECRETS}/s")).await.expect(200)["data"]["token"], "aHVudGVyMg==");
    let bytes = std::fs::read(&path).unwrap();
    for raw in [&b"hunter2"[..], b"aHVudGVyMg"] {
        assert!(!bytes.windows(raw.len()).any(|window| window == raw), "secrets are sealed in the file");
    }
}

#[tokio::test]
async fn a_watch_goes_on_from_the_latest_version_and_older_ones_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let server = server_on(&path, 1);
    let old = version(&post(&server, WIDGETS, &widget("a")).await.expect(201));
    let last = version(&post(&server, WIDGETS, &widget("b")).await.expect(201));
    server.close().await;

    let server = server_on(&path, 1);
    let from = |version: u64| raw(Method::GET, &format!("{WIDGETS}?watch=true&resourceVersion={version}"));
    let mut latest = from(last).watch(&server).await;
    let mut older = from(old).watch(&server).await;
    let event = older.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(410)), "{event}");
    assert_eq!(older.next().await, None);
    post(&server, WIDGETS, &widget("c")).await.expect(201);
    assert_eq!(latest.brief().await, "ADDED c");
}

#[tokio::test]
async fn the_next_page_of_a_list_is_served_while_what_changed_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let server = server_on(&path, 1);
    for name in ["a", "b", "c"] {
        post(&server, WIDGETS, &widget(name)).await.expect(201);
    }
    let first = get(&server, &format!("{WIDGETS}?limit=1")).await.expect(200);
    let next = format!("{WIDGETS}?limit=5&continue={}", first["metadata"]["continue"].as_str().unwrap());
    server.close().await;

    let server = server_on(&path, 1);
    assert_eq!(names(&get(&server, &next).await.expect(200)), ["b", "c"]);
    post(&server, WIDGETS, &widget("d")).await.expect(201);
    assert_eq!(names(&get(&server, &next).await.expect(200)), ["b", "c"], "the state of the first page");
    server.close().await;

    let server = server_on(&path, 1);
    let gone = get(&server, &next).await.expect(410);
    assert_eq!(gone["reason"], "Expired");
    // The answer has a token that goes on in the latest state.
    let rest = format!("{WIDGETS}?continue={}", gone["metadata"]["continue"].as_str().unwrap());
    assert_eq!(names(&get(&server, &rest).await.expect(200)), ["b", "c", "d"]);
}

/// Flips a bit of what is stored of an object, wherever so much of its name stands in a value.
fn damage(path: &Path, name: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let is_key = |before: &[u8]| before.ends_with(b"default\0w");
    let found: Vec<usize> = (0..bytes.len() - name.len())
        .filter(|&at| bytes[at..].starts_with(name.as_bytes()) && !is_key(&bytes[..at]))
        .collect();
    assert!(!found.is_empty());
    for at in found {
        bytes[at] ^= 4;
    }
    std::fs::write(path, bytes).unwrap();
}

#[tokio::test]
async fn a_damaged_object_is_named_and_makes_the_server_not_ready() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let server = server_on(&path, 1);
    for name in ["whole", "wrecked"] {
        post(&server, WIDGETS, &widget(name)).await.expect(201);
    }
    get(&server, "/readyz").await.expect(200);
    server.close().await;
    assert_eq!(check_file(&path).unwrap().damaged, [""; 0]);
    damage(&path, "recked");
    let checked = check_file(&path).unwrap();
    assert!(checked.objects > 3);
    let [problem] = &checked.damaged[..] else { panic!("{checked:?}") };
    assert!(problem.contains("widgets.example.dev default/wrecked"), "{problem}");

    let server = server_on(&path, 1);
    get(&server, "/readyz").await.expect(200);
    get(&server, &format!("{WIDGETS}/whole")).await.expect(200);
    for path in [format!("{WIDGETS}/wrecked"), WIDGETS.to_owned()] {
        let answer = get(&server, &path).await;
        assert!(answer.message().contains("widgets.example.dev default/wrecked"), "{answer:?}");
        answer.expect(500);
    }
    let ready = get(&server, "/readyz").await.expect(500);
    assert!(ready.as_str().unwrap().contains("widgets.example.dev default/wrecked"), "{ready}");
    let anybody = raw(Method::GET, "/readyz").caller(Caller::anonymous()).send(&server).await.expect(500);
    assert_eq!(anybody, "[-]store failed: reason withheld\nreadyz check failed\n");
    get(&server, "/livez").await.expect(200);
    get(&server, &format!("{WIDGETS}/whole")).await.expect(200);
}

#[tokio::test]
async fn a_secret_that_cannot_be_opened_is_listed_and_deleted_and_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let server = server_on(&path, 1);
    let mut held = secret();
    held["metadata"] = json!({ "name": "held", "finalizers": ["example.com/f"] });
    post(&server, SECRETS, &held).await.expect(201);
    post(&server, SECRETS, &secret()).await.expect(201);
    server.close().await;

    let server = server_on(&path, 2);
    let mut fresh = secret();
    fresh["metadata"]["name"] = json!("fresh");
    post(&server, SECRETS, &fresh).await.expect(201);
    let list = get(&server, SECRETS).await.expect(200);
    assert_eq!(names(&list), ["fresh", "held", "s"]);
    let shown = get(&server, &format!("{SECRETS}/s")).await.expect(200);
    assert!(shown.get("data").is_none() && shown.get("sealed").is_none(), "{shown}");
    assert!(shown["metadata"]["annotations"]["windlass.dev/unopened"].is_string(), "{shown}");
    assert_eq!(list["items"][0]["data"]["token"], "aHVudGVyMg==");
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    let refused = patch(&server, &format!("{SECRETS}/s"), MERGE, &labels).await;
    assert_eq!(refused.status, 500, "{refused:?}");
    delete(&server, &format!("{SECRETS}/s")).await.expect(200);
    delete(&server, &format!("{SECRETS}/held")).await.expect(200);
    server.close().await;

    // With its key again, what was left is whole.
    let server = server_on(&path, 1);
    get(&server, &format!("{SECRETS}/s")).await.expect(404);
    let held = get(&server, &format!("{SECRETS}/held")).await.expect(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{held}");
    assert_eq!(held["data"]["token"], "aHVudGVyMg==");
}

#[tokio::test]
async fn a_copy_is_for_administrators_and_holds_no_secret_in_the_clear() {
    use windlass_auth::Caller;
    let folder = tempfile::tempdir().unwrap();
    let server = server_on(&folder.path().join("store"), 1);
    post(&server, SECRETS, &secret()).await.expect(201);
    post(&server, WIDGETS, &widget("a")).await.expect(201);
    let ask = async |caller: Caller| {
        let request = raw(Method::GET, "/store/backup").header("accept-encoding", "gzip");
        let answer = request.caller(caller).response(&server).await;
        assert!(!answer.headers().contains_key("content-encoding"));
        let status = answer.status().as_u16();
        (status, axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap())
    };
    let mut tenant = Caller::system("tenant");
    tenant.namespaces = windlass_auth::Namespaces::One("default".to_owned());
    assert_eq!(ask(tenant).await.0, 403);
    assert_eq!(ask(Caller::anonymous()).await.0, 403);
    let (status, copy) = ask(Caller::system("admin")).await;
    assert_eq!(status, 200);
    let other = folder.path().join("other");
    let copied = windlass_store::restore(&mut &copy[..], &other).unwrap();
    assert!(copied.objects > 2);
    assert!(!copy.windows(10).any(|part| part == b"aHVudGVyMg"), "secrets are sealed in a copy");
    let restored = server_on(&other, 1);
    assert_eq!(names(&get(&restored, WIDGETS).await.expect(200)), ["a"]);
    assert_eq!(get(&restored, &format!("{SECRETS}/s")).await.expect(200)["data"]["token"], "aHVudGVyMg==");
}
