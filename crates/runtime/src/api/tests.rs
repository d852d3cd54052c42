use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::testing::{Server, config_map, config_maps, list};

const LIMIT: Duration = Duration::from_secs(10);

/// A right that the test takes away.
fn right() -> (Arc<AtomicBool>, CancellationToken, Fence) {
    let (held, lost) = (Arc::new(AtomicBool::new(true)), CancellationToken::new());
    let asked = Arc::clone(&held);
    let fence = Fence::new("the lease was lost", lost.clone(), move || asked.load(Ordering::SeqCst));
    (held, lost, fence)
}

#[tokio::test(start_paused = true)]
async fn a_call_is_tried_again_while_the_server_restarts_and_no_longer() {
    let (mut server, client) = Server::new();
    let options = CallOptions::new(LIMIT).retried(Retry { attempts: 3, ..Retry::RESTART });
    let maps = config_maps(client);
    let read = tokio::spawn({
        let (options, maps) = (options.clone(), maps.clone());
        async move { options.read("get a", || maps.get("a")).await }
    });
    server.next().await.refuse(503, "ServiceUnavailable");
    drop(server.next().await); // The second try meets its deadline.
    server.next().await.answer(&config_map("a", "1"));
    assert_eq!(read.await.unwrap().unwrap().metadata.name.as_deref(), Some("a"));

    let read = tokio::spawn(async move { options.read("get a", || maps.get("a")).await });
    server.next().await.refuse(403, "Forbidden");
    assert_eq!(read.await.unwrap().unwrap_err().code(), Some(403), "a refusal is an answer");
}

#[tokio::test(start_paused = true)]
async fn a_server_is_left_alone_for_as_long_as_it_asks() {
    let (mut server, client) = Server::new();
    let options = CallOptions::new(LIMIT).retried(Retry::RESTART);
    let maps = config_maps(client);
    let read = tokio::spawn(async move { options.read("get a", || maps.get("a")).await });
    let mut status = crate::testing::status(429, "TooManyRequests");
    status["details"] = json!({"retryAfterSeconds": 7});
    let refused = Instant::now();
    server.next().await.refuse_with(429, &status);
    server.next().await.answer(&config_map("a", "1"));
    assert!(refused.elapsed() >= Duration::from_secs(7), "{:?}", refused.elapsed());
    read.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_create_is_not_repeated_once_the_right_to_write_is_lost() {
    let (mut server, client) = Server::new();
    let (held, lost, fence) = right();
    let options = CallOptions::new(LIMIT).retried(Retry::WHILE_FENCED).fenced(fence);
    let maps = config_maps(client);
    let create = {
        let (options, maps) = (options.clone(), maps.clone());
        async move {
            let map = ConfigMap::default();
            options.write("create a", || async { maps.create(&PostParams::default(), &map).await }).await
        }
    };
    let create = tokio::spawn(create);
    let first = server.next().await;
    held.store(false, Ordering::SeqCst);
    lost.cancel();
    first.refuse(503, "ServiceUnavailable");
    assert_eq!(create.await.unwrap().unwrap_err().code(), Some(503));

    let (map, params) = (ConfigMap::default(), PostParams::default());
    let fenced = options.write("create b", || maps.create(&params, &map)).await;
    let fenced = fenced.unwrap_err();
    assert!(fenced.is_fenced() && !fenced.is_transient());
    assert_eq!(fenced.to_string(), "failed to create b: not sent: the lease was lost");
    let read = tokio::spawn(async move { options.read("get a", || maps.get("a")).await });
    let only = server.next().await;
    assert_eq!(only.method, Method::GET, "nothing was sent but what changes nothing");
    only.answer(&config_map("a", "1"));
    read.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_right_with_an_end_lets_no_try_begin_after_it() {
    let (mut server, client) = Server::new();
    let (held, _lost, fence) = right();
    let began = Instant::now();
    let until = fence.until(began + Duration::from_secs(2));
    let options = CallOptions::new(LIMIT).retried(Retry::WHILE_FENCED).fenced(until.clone());
    let maps = config_maps(client);
    let create = tokio::spawn(async move {
        let map = ConfigMap::default();
        options.write("create a", || async { maps.create(&PostParams::default(), &map).await }).await
    });
    let first = server.next().await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    first.refuse(503, "ServiceUnavailable");
    assert_eq!(create.await.unwrap().unwrap_err().code(), Some(503), "what was sent is awaited");
    assert!(fence.holds() && !until.holds());
    let open = Fence::NONE.until(Instant::now() + LIMIT);
    assert!(open.holds() && fence.until(Instant::now() + LIMIT).holds());
    held.store(false, Ordering::SeqCst);
    assert!(!fence.until(Instant::now() + LIMIT).holds());
}

#[tokio::test(start_paused = true)]
async fn bytes_are_sent_under_the_same_rules() {
    let (mut server, client) = Server::new();
    let (held, _lost, fence) = right();
    let rest = RestClient::new(client, CallOptions::new(LIMIT).retried(Retry::RESTART).fenced(fence));
    let send = |method: Method| {
        let rest = rest.clone();
        async move {
            let body = Some((Content::Apply, Bytes::from_static(b"{}")));
            let path = "/apis/g/v1/namespaces/a/things/b?force=true";
            rest.send(&RestRequest { what: "apply b", method, path, accept: Accept::Metadata, body }).await
        }
    };
    let applied = tokio::spawn(send(Method::PATCH));
    server.next().await.refuse(504, "Timeout");
    let asked = server.next().await;
    assert_eq!((asked.path.as_str(), &*asked.query["force"]), ("/apis/g/v1/namespaces/a/things/b", "true"));
    asked.answer(&json!({"kind": "PartialObjectMetadata"}));
    assert_eq!(&applied.await.unwrap().unwrap()[..], br#"{"kind":"PartialObjectMetadata"}"#);

    held.store(false, Ordering::SeqCst);
    assert!(send(Method::DELETE).await.unwrap_err().is_fenced());
    let read = tokio::spawn(async move { rest.get::<Vec<u8>>("read c", "/c", Accept::Whole).await });
    server.next().await.answer(&json!({"no": "list"}));
    let unreadable = read.await.unwrap().unwrap_err();
    assert!(matches!(unreadable, CallError::Unreadable { .. }) && !unreadable.is_transient(), "{unreadable}");
}

fn page(next: &str, names: &[&str]) -> Value {
    let items: Vec<Value> = names.iter().map(|name| config_map(name, "1")).collect();
    let mut page = list("10", &items);
    page["metadata"]["continue"] = json!(next);
    page
}

async fn names(request: ListRequest) -> Result<Vec<String>, CallError> {
    let listed = request.items::<ConfigMap>().await?;
    assert_eq!(listed.version, "10");
    Ok(listed.items.into_iter().map(|map| map.metadata.name.unwrap_or_default()).collect())
}

#[tokio::test(start_paused = true)]
async fn a_list_is_read_page_by_page_and_a_page_that_fails_is_asked_for_again() {
    let (mut server, client) = Server::new();
    let options = CallOptions::new(LIMIT).retried(Retry::RESTART);
    let request = ListRequest::of(&config_maps(client), "list maps", options).page_size(2).labels("a=b");
    let listing = tokio::spawn(names(request));
    let first = server.next_list().await;
    assert_eq!((&*first.query["limit"], &*first.query["labelSelector"]), ("2", "a%3Db"));
    first.answer(&page("more", &["a", "b"]));
    // Half of the second page, then nothing.
    let mut broken = server.next_list().await.stream();
    broken.raw(r#"{"metadata":{"resourceVersion":"10"},"items":[{"metadata":{"name":"c"}},"#).await;
    broken.break_off().await;
    let second = server.next_list().await;
    assert_eq!(second.query["continue"], "more");
    second.answer(&page("", &["c"]));
    assert_eq!(listing.await.unwrap().unwrap(), ["a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_whose_version_is_not_kept_any_more_begins_again_in_one_page() {
    let (mut server, client) = Server::new();
    let listing = tokio::spawn(names(ListRequest::of(&config_maps(client), "list maps", LIMIT)));
    server.next_list().await.answer(&page("more", &["a", "b"]));
    server.next_list().await.refuse(410, "Expired");
    let whole = server.next_list().await;
    assert!(!whole.query.contains_key("limit") && !whole.query.contains_key("continue"), "{:?}", whole.query);
    whole.answer(&page("", &["a", "c"]));
    assert_eq!(listing.await.unwrap().unwrap(), ["a", "c"]);
}

#[tokio::test(start_paused = true)]
async fn a_list_may_take_long_but_not_be_silent() {
    let (mut server, client) = Server::new();
    let request = ListRequest::of(&config_maps(client), "list maps", LIMIT);
    let listing = tokio::spawn(names(request.clone()));
    let mut slow = server.next_list().await.stream();
    slow.raw(r#"{"metadata":{"resourceVersion":"10"},"items":["#).await;
    for _ in 0..9 {
        tokio::time::sleep(Duration::from_secs(9)).await;
        slow.raw(r#"{"metadata":{"name":"a"}},"#).await;
    }
    slow.raw(r#"{"metadata":{"name":"a"}}]}"#).await;
    drop(slow);
    assert_eq!(listing.await.unwrap().unwrap().len(), 10);

    let listing = tokio::spawn(names(request));
    let mut silent = server.next_list().await.stream();
    silent.raw(r#"{"metadata":{"resourceVersion":"10"},"items":["#).await;
    let error = listing.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "failed to list maps: no answer within 10s");
}

#[tokio::test]
async fn finalizers_are_added_and_taken_off_under_the_version_that_was_seen() {
    let (mut server, client) = Server::new();
    let maps = config_maps(client);
    let mut object: ConfigMap = serde_json::from_value(config_map("a", "7")).unwrap();
    object.metadata.finalizers = Some(vec!["theirs".to_owned()]);
    let kept = add_finalizers(&maps, &object, &["theirs".to_owned()], LIMIT).await.unwrap();
    assert_eq!(kept, object, "nothing is sent");
    let kept = remove_finalizer(&maps, &object, "ours", LIMIT).await.unwrap();
    assert_eq!(kept, object, "nothing is sent");

    let add = tokio::spawn({
        let (maps, object) = (maps.clone(), object.clone());
        async move { add_finalizers(&maps, &object, &["ours".to_owned()], LIMIT).await }
    });
    let asked = server.next().await;
    assert_eq!(asked.body, json!({"metadata": {"finalizers": ["theirs", "ours"], "resourceVersion": "7"}}));
    asked.refuse(409, "Conflict");
    assert!(add.await.unwrap().unwrap_err().is_conflict());

    let remove = tokio::spawn(async move { remove_finalizer(&maps, &object, "theirs", LIMIT).await });
    let asked = server.next().await;
    assert_eq!(asked.body, json!({"metadata": {"finalizers": [], "resourceVersion": "7"}}));
    asked.refuse(404, "NotFound");
    assert_eq!(remove.await.unwrap().unwrap().metadata.finalizers, None, "it is gone");
}
