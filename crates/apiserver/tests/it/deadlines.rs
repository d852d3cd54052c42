//! How long requests and readers are waited for, what comes of those that leave, and that none keeps others waiting.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;
use windlass_store::{Committed, Key, ListPage, Object, Page, Range, Store, StoreError, WatchStream, Write};

use crate::common::*;

/// A store that takes its time with three objects.
struct Slow {
    store: Arc<dyn Store>,
    /// Told when one of them is asked for.
    asked: Notify,
    /// Told when nobody waits for [`STUCK`] any more.
    left: Arc<Notify>,
    /// Lets the thread go on that asked for [`BUSY`].
    go_on: Mutex<mpsc::Receiver<()>>,
    /// Lets [`HELD`] be written.
    release: Arc<Notify>,
}

/// An object that is waited for without end.
const STUCK: &str = "stuck";
/// An object that keeps the thread busy that asks for it.
const BUSY: &str = "busy";

/// An object that is not written at once.
const HELD: &str = "held";

/// Tells when it goes.
struct Leaving(Arc<Notify>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn slow() -> (Arc<Slow>, mpsc::Sender<()>) {
    let (sender, go_on) = mpsc::channel();
    let store = Slow {
        store: memory(),
        asked: Notify::new(),
        left: Arc::default(),
        go_on: Mutex::new(go_on),
        release: Arc::default(),
    };
    (Arc::new(store), sender)
}

#[async_trait]
impl Store for Slow {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        if [STUCK, BUSY].contains(&key.name()) {
            self.asked.notify_one();
        }
        if key.name() == STUCK {
            let _leaving = Leaving(self.left.clone());
            std::future::pending::<()>().await;
        }
        if key.name() == BUSY {
            let _ = self.go_on.lock().unwrap().recv();
        }
        self.store.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<ListPage, StoreError> {
        self.store.list(range, page).await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        if !writes.iter().any(|write| write.key.name() == HELD) {
            return self.store.commit(writes).await;
        }
        self.asked.notify_one();
        let (store, release) = (self.store.clone(), self.release.clone());
        // It is written although nobody waits for it, as by a store in a file.
        let writing = tokio::spawn(async move {
            release.notified().await;
            store.commit(writes).await
        });
        writing.await.unwrap()
    }

    fn watch(&self, range: &Range, from: u64) -> Result<WatchStream, StoreError> {
        self.store.watch(range, from)
    }

    fn revision(&self) -> u64 {
        self.store.revision()
    }
}

/// A patch that is too large to be worked on beside other requests.
fn large() -> Value {
    json!({ "spec": { "free": { "x": "y".repeat(200_000) } } })
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_told_so() {
    let (store, _go_on) = slow();
    let server = server_over(store);
    server.start().await.unwrap();
    let path = format!("{WIDGETS}/{STUCK}");
    for method in [Method::GET, Method::PATCH, Method::DELETE] {
        let request = raw(method, &path).header("content-type", MERGE).json(&json!({}));
        let answer = tokio::time::timeout(Duration::from_mins(2), request.send(&server)).await.unwrap();
        assert_eq!(answer.expect(504)["reason"], "Timeout");
    }
}

#[tokio::test]
async fn the_work_of_a_large_request_ends_when_its_client_leaves() {
    let (store, _go_on) = slow();
    let server = server_over(store.clone());
    server.start().await.unwrap();
    let asking = tokio::spawn(async move {
        patch(&server, &format!("{WIDGETS}/{STUCK}"), MERGE, &large()).await;
    });
    store.asked.notified().await;
    asking.abort();
    tokio::time::timeout(Duration::from_mins(1), store.left.notified()).await.expect("the work has ended");
}

#[test]
fn others_are_answered_while_a_large_request_is_worked_on() {
    let (done, ended) = mpsc::channel();
    // What keeps a thread busy cannot be stopped by a timer on it.
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (store, go_on) = slow();
            let server = server_over(store.clone());
            server.start().await.unwrap();
            let busy = server.clone();
            let asking = tokio::spawn(async move {
                patch(&busy, &format!("{WIDGETS}/{BUSY}"), MERGE, &large()).await.status
            });
            store.asked.notified().await;
            get(&server, "/readyz").await.expect(200);
            post(&server, WIDGETS, &widget("a")).await.expect(201);
            go_on.send(()).unwrap();
            assert_eq!(asking.await.unwrap(), 404);
        });
        done.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(30)).expect("others are answered");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_a_watch_lying_there_is_ended_and_a_slow_one_gets_all() {
    let server = server();
    let mut total = 0;
    for index in 0..4 {
        let mut body = widget(&format!("w{index}"));
        body["spec"]["free"] = json!({ "x": "y".repeat(100_000) });
        total += post(&server, WIDGETS, &body).await.expect(201).to_string().len();
    }
    let open = async || {
        let request = raw(Method::GET, &format!("{WIDGETS}?watch=true"));
        request.response(&server).await.into_body().into_data_stream()
    };
    let mut slow = open().await;
    let mut read = 0;
    while read < total {
        tokio::time::sleep(Duration::from_mins(1)).await;
        read += slow.next().await.unwrap().unwrap().len();
    }
    let idle = open().await;
    tokio::time::sleep(Duration::from_mins(3)).await;
    let left: Vec<Result<Bytes, axum::Error>> = idle.collect().await;
    assert!(left.last().unwrap().is_err(), "what was broken off does not look whole");
    let kept: usize = left.iter().flatten().map(Bytes::len).sum();
    assert!(kept < 200_000, "{kept} of {total} bytes were kept for it");
}

#[tokio::test]
async fn what_is_judged_beside_others_is_not_overtaken_although_its_client_has_gone() {
    const REPOSITORIES: &str = "/apis/provisioning.grafana.app/v0alpha1/namespaces/default/repositories";
    let body = |name: &str, path: &str| {
        json!({ "apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Repository",
            "metadata": { "name": name }, "spec": { "title": name, "type": "git", "workflows": [],
                "git": { "url": "https://example.com/r.git", "branch": "main", "path": path },
                "sync": { "enabled": true, "target": "folder" } },
            "secure": { "token": { "create": "hunter2" } } })
    };
    let (store, _go_on) = slow();
    let server = server_over(store.clone());
    server.start().await.unwrap();
    let ask = |body: Value| {
        let server = server.clone();
        tokio::spawn(async move { post(&server, REPOSITORIES, &body).await })
    };
    let first = ask(body(HELD, "a"));
    store.asked.notified().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    let second = ask(body("two", "a/b"));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    store.release.notify_one();
    let refused = second.await.unwrap();
    assert!(refused.message().contains(HELD), "{refused:?}");
    refused.expect(422);
    get(&server, &format!("{REPOSITORIES}/{HELD}")).await.expect(200);
}
