//! What goes with what is deleted: dependants, and the content of namespaces.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_store::{
    Committed, Key, ListPage, Object, Op, Page, Range, Store, StoreError, WatchStream, Write,
};

use crate::common::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NAMESPACES: &str = "/api/v1/namespaces";

fn map(name: &str, owners: &[Value]) -> Value {
    json!({ "metadata": { "name": name, "ownerReferences": owners } })
}

/// A reference to this object.
fn to(owner: &Value) -> Value {
    json!({ "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"] })
}

fn blocking(owner: &Value) -> Value {
    let mut reference = to(owner);
    reference["blockOwnerDeletion"] = json!(true);
    reference
}

async fn create(server: &ApiServer, path: &str, body: &Value) -> Value {
    post(server, path, body).await.expect(201)
}

async fn remove(server: &ApiServer, path: &str, policy: &str) -> Value {
    let options = json!({ "propagationPolicy": policy });
    raw(Method::DELETE, path).json(&options).send(server).await.expect(200)
}

/// Waits until an object is as it should be; `Null` when it is gone.
async fn until(server: &ApiServer, path: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let (collection, name) = path.rsplit_once('/').unwrap();
    let watch = format!("{collection}?watch=true&fieldSelector=metadata.name={name}");
    let mut events = raw(Method::GET, &watch).watch(server).await;
    let now = get(server, path).await;
    let now = if now.status == 404 { Value::Null } else { now.expect(200) };
    if holds(&now) {
        return now;
    }
    loop {
        let event = events.next().await.unwrap();
        let state = if event["type"] == "DELETED" { Value::Null } else { event["object"].clone() };
        if holds(&state) {
            return state;
        }
    }
}

async fn gone(server: &ApiServer, path: &str) {
    until(server, path, Value::is_null).await;
}

#[tokio::test]
async fn dependants_follow_their_owner_down_to_the_last() {
    let server = server();
    let a = create(&server, WIDGETS, &widget("a")).await;
    let b = create(&server, MAPS, &map("b", &[to(&a)])).await;
    create(&server, MAPS, &map("c", &[to(&b)])).await;
    create(&server, MAPS, &map("other", &[])).await;
    let status = delete(&server, &format!("{WIDGETS}/a")).await.expect(200);
    assert_eq!(status["status"], "Success", "the owner goes at once");
    gone(&server, &format!("{MAPS}/c")).await;
    get(&server, &format!("{MAPS}/b")).await.expect(404);
    get(&server, &format!("{MAPS}/other")).await.expect(200);
}

#[tokio::test]
async fn an_object_stays_while_one_owner_does_and_forgets_the_others() {
    let server = server();
    let a = create(&server, WIDGETS, &widget("a")).await;
    let b = create(&server, WIDGETS, &widget("b")).await;
    create(&server, MAPS, &map("c", &[to(&a), to(&b)])).await;
    delete(&server, &format!("{WIDGETS}/a")).await.expect(200);
    let path = format!("{MAPS}/c");
    let left = until(&server, &path, |map| map["metadata"]["ownerReferences"] == json!([to(&b)])).await;
    assert_eq!(left["metadata"]["name"], "c");
    delete(&server, &format!("{WIDGETS}/b")).await.expect(200);
    gone(&server, &path).await;
}

#[tokio::test]
async fn an_owner_in_the_foreground_waits_for_dependants_that_block() {
    let server = server();
    let a = create(&server, WIDGETS, &widget("a")).await;
    let mut held = map("held", &[blocking(&a)]);
    held["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    create(&server, MAPS, &held).await;
    let mut free = map("free", &[to(&a)]);
    free["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    create(&server, MAPS, &free).await;
    let path = format!("{WIDGETS}/a");
    let marked = remove(&server, &path, "Foreground").await;
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let deleting = |map: &Value| map["metadata"]["deletionTimestamp"].is_string();
    until(&server, &format!("{MAPS}/held"), deleting).await;
    until(&server, &format!("{MAPS}/free"), deleting).await;
    get(&server, &path).await.expect(200);
    let none = json!({ "metadata": { "finalizers": null } });
    patch(&server, &format!("{MAPS}/held"), MERGE, &none).await.expect(200);
    gone(&server, &path).await;
    get(&server, &format!("{MAPS}/free")).await.expect(200);
    patch(&server, &format!("{MAPS}/free"), MERGE, &none).await.expect(200);
}

#[tokio::test]
async fn orphans_are_let_go_and_stay() {
    let server = server();
    for (name, options) in
        [("a", json!({ "propagationPolicy": "Orphan" })), ("b", json!({ "orphanDependents": true }))]
    {
        let owner = create(&server, WIDGETS, &widget(name)).await;
        create(&server, MAPS, &map(name, &[blocking(&owner)])).await;
        let path = format!("{WIDGETS}/{name}");
        let marked = raw(Method::DELETE, &path).json(&options).send(&server).await.expect(200);
        assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
        gone(&server, &path).await;
        let left = get(&server, &format!("{MAPS}/{name}")).await.expect(200);
        assert_eq!(left["metadata"].get("ownerReferences"), None);
    }
    let both = json!({ "propagationPolicy": "Orphan", "orphanDependents": true });
    let answer = raw(Method::DELETE, &format!("{MAPS}/a")).json(&both).send(&server).await;
    assert!(answer.message().contains("orphanDependents and deletionPropagation cannot be both set"));
    answer.expect(422);
}

#[tokio::test]
async fn a_later_deletion_may_choose_otherwise() {
    let server = server();
    let a = create(&server, WIDGETS, &widget("a")).await;
    let mut held = map("held", &[blocking(&a)]);
    held["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    create(&server, MAPS, &held).await;
    let path = format!("{WIDGETS}/a");
    remove(&server, &path, "Foreground").await;
    let status = remove(&server, &path, "Background").await;
    assert_eq!(status["status"], "Success");
    get(&server, &path).await.expect(404);
}

#[tokio::test]
async fn an_object_whose_owner_never_was_is_collected() {
    let server = server();
    let a = create(&server, WIDGETS, &widget("a")).await;
    let mut absent = to(&a);
    absent["name"] = json!("nobody");
    create(&server, MAPS, &map("absent", &[absent])).await;
    let mut another = to(&a);
    another["uid"] = json!("another");
    create(&server, MAPS, &map("another", &[another])).await;
    gone(&server, &format!("{MAPS}/absent")).await;
    gone(&server, &format!("{MAPS}/another")).await;
    // Of an owner whose kind is not served nothing is known.
    let mut unknown = to(&a);
    unknown["kind"] = json!("Nothing");
    create(&server, MAPS, &map("unknown", &[unknown])).await;
    // An owner in another namespace is no owner.
    create(&server, "/api/v1/namespaces/other/configmaps", &map("far", &[to(&a)])).await;
    gone(&server, "/api/v1/namespaces/other/configmaps/far").await;
    get(&server, &format!("{MAPS}/unknown")).await.expect(200);
}

#[tokio::test]
async fn a_cluster_wide_owner_has_dependants_in_namespaces() {
    let server = server();
    let owner = create(&server, NAMESPACES, &json!({ "metadata": { "name": "owner" } })).await;
    create(&server, MAPS, &map("a", &[to(&owner)])).await;
    create(&server, "/api/v1/namespaces/other/configmaps", &map("b", &[to(&owner)])).await;
    delete(&server, &format!("{NAMESPACES}/owner")).await.expect(200);
    gone(&server, &format!("{MAPS}/a")).await;
    gone(&server, "/api/v1/namespaces/other/configmaps/b").await;
}

#[tokio::test]
async fn circles_are_broken() {
    let server = server();
    let a = create(&server, MAPS, &map("a", &[])).await;
    let b = create(&server, MAPS, &map("b", &[blocking(&a)])).await;
    let path = format!("{MAPS}/a");
    let circle = json!({ "metadata": { "ownerReferences": [blocking(&b)] } });
    patch(&server, &path, MERGE, &circle).await.expect(200);
    remove(&server, &path, "Foreground").await;
    gone(&server, &path).await;
    gone(&server, &format!("{MAPS}/b")).await;
}

#[tokio::test]
async fn what_was_under_way_goes_on_after_a_restart() {
    let store = memory();
    let server = server_over(store.clone());
    let a = create(&server, WIDGETS, &widget("a")).await;
    let mut held = map("held", &[blocking(&a)]);
    held["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    create(&server, MAPS, &held).await;
    create(&server, MAPS, &map("b", &[to(&a)])).await;
    remove(&server, &format!("{WIDGETS}/a"), "Foreground").await;
    drop(server);

    let server = server_over(store);
    server.start().await.unwrap();
    gone(&server, &format!("{MAPS}/b")).await;
    patch(&server, &format!("{MAPS}/held"), MERGE, &json!({ "metadata": { "finalizers": null } }))
        .await
        .expect(200);
    gone(&server, &format!("{WIDGETS}/a")).await;
}

#[tokio::test]
async fn a_namespace_goes_after_all_that_is_in_it() {
    let server = server();
    let mut body = json!({ "metadata": { "name": "team" } });
    body["status"] = json!({ "phase": "Strange" });
    let created = create(&server, NAMESPACES, &body).await;
    assert_eq!(created["spec"], json!({ "finalizers": ["kubernetes"] }));
    assert_eq!(created["status"], json!({ "phase": "Active" }));
    let (maps, widgets) = (MAPS.replace("default", "team"), WIDGETS.replace("default", "team"));
    create(&server, &widgets, &widget("a")).await;
    let mut held = map("held", &[]);
    held["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    create(&server, &maps, &held).await;
    create(&server, MAPS, &map("elsewhere", &[])).await;

    let path = format!("{NAMESPACES}/team");
    let marked = delete(&server, &path).await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert_eq!(marked["metadata"].get("deletionGracePeriodSeconds"), None);
    let refused = post(&server, &maps, &map("late", &[])).await;
    assert!(
        refused
            .message()
            .contains("unable to create new content in namespace team because it is being terminated")
    );
    assert_eq!(refused.body["details"]["causes"][0]["reason"], "NamespaceTerminating");
    refused.expect(403);
    let waiting = until(&server, &path, |namespace| {
        namespace["status"]["conditions"][4]["message"]
            == "Some content in the namespace has finalizers remaining: example.dev/hold in 1 resource instances"
    })
    .await;
    assert_eq!(
        waiting["status"]["conditions"][3]["message"],
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    get(&server, &format!("{widgets}/a")).await.expect(404);
    patch(&server, &format!("{maps}/held"), MERGE, &json!({ "metadata": { "finalizers": null } }))
        .await
        .expect(200);
    gone(&server, &path).await;
    create(&server, &maps, &map("again", &[])).await;
    get(&server, &format!("{MAPS}/elsewhere")).await.expect(200);
    let refused = delete(&server, &format!("{NAMESPACES}/default")).await;
    assert!(refused.message().contains("this namespace may not be deleted"));
    refused.expect(403);
}

#[tokio::test]
async fn a_namespace_stays_until_its_last_finalizer_is_taken_off() {
    let server = server();
    create(&server, NAMESPACES, &json!({ "metadata": { "name": "team" } })).await;
    let path = format!("{NAMESPACES}/team");
    let finalize = async |finalizers: Value| {
        let body = json!({ "metadata": { "name": "team" }, "spec": { "finalizers": finalizers } });
        raw(Method::PUT, &format!("{path}/finalize")).json(&body).send(&server).await.expect(200)
    };
    let held = finalize(json!(["kubernetes", "example.dev/hold"])).await;
    assert_eq!(held["spec"], json!({ "finalizers": ["kubernetes", "example.dev/hold"] }));
    assert_eq!(held["status"]["phase"], "Active");
    delete(&server, &path).await.expect(200);
    let emptied = json!({ "finalizers": ["example.dev/hold"] });
    until(&server, &path, |namespace| namespace["spec"] == emptied).await;
    let last = finalize(json!([])).await;
    assert_eq!(last["status"]["phase"], "Terminating");
    gone(&server, &path).await;
}

#[tokio::test]
async fn an_emptying_namespace_is_emptied_after_a_restart() {
    let store = memory();
    let server = server_over(store.clone());
    create(&server, NAMESPACES, &json!({ "metadata": { "name": "team" } })).await;
    let maps = MAPS.replace("default", "team");
    let mut held = map("held", &[]);
    held["metadata"]["finalizers"] = json!(["example.dev/hold"]);
    create(&server, &maps, &held).await;
    delete(&server, &format!("{NAMESPACES}/team")).await.expect(200);
    drop(server);

    let server = server_over(store);
    post(&server, &maps, &map("late", &[])).await.expect(403);
    patch(&server, &format!("{maps}/held"), MERGE, &json!({ "metadata": { "finalizers": null } }))
        .await
        .expect(200);
    gone(&server, &format!("{NAMESPACES}/team")).await;
}

#[tokio::test]
async fn many_dependants_all_go() {
    let server = server();
    let owner = create(&server, WIDGETS, &widget("a")).await;
    for index in 0..300 {
        create(&server, MAPS, &map(&format!("m{index}"), &[to(&owner)])).await;
    }
    delete(&server, &format!("{WIDGETS}/a")).await.expect(200);
    let watch = format!("{MAPS}?watch=true");
    let mut events = raw(Method::GET, &watch).watch(&server).await;
    while !names(&get(&server, MAPS).await.expect(200)).is_empty() {
        events.next().await.unwrap();
    }
}

/// A store whose deletions, or writes, fail a few times.
struct Flaky {
    store: std::sync::Arc<dyn Store>,
    failures: std::sync::atomic::AtomicUsize,
    /// Whether the disk is full: nothing can be written.
    is_full: bool,
}

#[async_trait::async_trait]
impl Store for Flaky {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<ListPage, StoreError> {
        self.store.list(range, page).await
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        use std::sync::atomic::Ordering::SeqCst;
        if self.is_full && !writes.is_empty() {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(StoreError::Commit { source: std::sync::Arc::new(full.into()) });
        }
        if writes.iter().any(|write| write.op == Op::Delete)
            && self.failures.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok()
        {
            return Err(StoreError::Closed);
        }
        self.store.commit(writes).await
    }

    fn watch(&self, range: &Range, from: u64) -> Result<WatchStream, StoreError> {
        self.store.watch(range, from)
    }

    fn revision(&self) -> u64 {
        self.store.revision()
    }
}

#[tokio::test(start_paused = true)]
async fn clean_ups_that_fail_are_tried_again() {
    let failures = std::sync::atomic::AtomicUsize::new(5);
    let store = std::sync::Arc::new(Flaky { store: memory(), failures, is_full: false });
    let server = server_over(store.clone());
    post(&server, NAMESPACES, &json!({ "metadata": { "name": "team" } })).await.expect(201);
    post(&server, &WIDGETS.replace("default", "team"), &widget("a")).await.expect(201);
    delete(&server, &format!("{NAMESPACES}/team")).await.expect(200);
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_mins(10);
    while get(&server, &format!("{NAMESPACES}/team")).await.status != 404 {
        assert!(tokio::time::Instant::now() < deadline, "the namespace is never emptied");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    assert_eq!(store.failures.load(std::sync::atomic::Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_starts_on_a_full_disk_and_shows_what_there_is() {
    let store = memory();
    let server = server_over(store.clone());
    create(&server, WIDGETS, &widget("a")).await;
    drop(server);
    // A newer program has other definitions, which cannot be stored.
    let mut definitions = crds();
    definitions[0].spec.names.short_names = Some(vec!["wdgt".to_owned()]);
    let full = std::sync::Arc::new(Flaky { store, failures: 0.into(), is_full: true });
    let server = ApiServer::builder(full).crds(definitions).build().unwrap();
    server.start().await.unwrap();
    assert_eq!(names(&get(&server, WIDGETS).await.expect(200)), ["a"]);
    post(&server, WIDGETS, &widget("b")).await.expect(500);

    let empty = std::sync::Arc::new(Flaky { store: memory(), failures: 0.into(), is_full: true });
    server_over(empty).start().await.unwrap();
}
