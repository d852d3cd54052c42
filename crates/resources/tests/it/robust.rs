//! Servers that hang or are busy, parsers that fail, and files that are none of our business.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use futures::FutureExt as _;
use http::{Method, StatusCode};
use serde_json::json;
use tokio::time::Instant;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_apiserver::{ApiServer, client_of};
use windlass_auth::Caller;
use windlass_resources::apply::Stopped;
use windlass_resources::finalize::{self, Finalize};
use windlass_resources::{DASHBOARD, Reason};

use crate::finalize::job;
use crate::world::{World, dashboard};

#[tokio::test(start_paused = true)]
async fn a_group_whose_server_hangs_holds_up_only_what_needs_it() {
    let mut world = World::allowing(&["widgets.example.com"]);
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}});
    world.write("w.json", &widget.to_string()).write("fine.json", &dashboard("fine", "Fine"));
    world.fail(|_, target| target.contains("/apis/example.com").then_some(StatusCode::REQUEST_TIMEOUT));
    let synced = tokio::time::timeout(Duration::from_mins(5), world.sync()).await.expect("it ends");
    assert_eq!(synced.summary.created, 1, "{synced:#?}");
    let failure = synced.failure("w.json");
    assert_eq!((failure.reason, failure.retry), (Reason::ApiError, true));
    assert!(failure.message.contains("did not answer within"), "{failure}");
    let managed = world.managed().await;
    assert_eq!(managed.unlisted.len(), 1);
    assert!(managed.complete("test6", |_| true).is_err(), "whoever needs all of it is told");
}

#[tokio::test(start_paused = true)]
async fn a_group_whose_server_hangs_is_left_alone_for_a_minute() {
    let world = World::allowing(&["widgets.example.com"]);
    world.fail(|_, target| target.contains("/apis/example.com").then_some(StatusCode::REQUEST_TIMEOUT));
    let asked = || world.requests().iter().filter(|request| request.ends_with("/apis/example.com")).count();
    for _ in 0..3 {
        assert_eq!(world.managed().await.unlisted.len(), 1);
    }
    assert_eq!(asked(), 1);
    tokio::time::advance(Duration::from_secs(61)).await;
    let mut listing = std::pin::pin!(world.managed());
    assert!(futures::poll!(listing.as_mut()).is_pending());
    assert!(world.clients.further.known().now_or_never().is_some(), "what is known is not waited for");
    assert_eq!(listing.await.unlisted.len(), 1);
    assert_eq!(asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_be_asked_about_does_not_hide_another_that_comes_to_be_served() {
    let world = World::allowing(&["widgets.example.com", "repositories.provisioning.grafana.app"]);
    let hangs = |target: &str| target.contains("/apis/example.com");
    world.fail(move |_, target| {
        let absent = target.contains("/apis/provisioning").then_some(StatusCode::NOT_FOUND);
        hangs(target).then_some(StatusCode::REQUEST_TIMEOUT).or(absent)
    });
    world.managed().await;
    assert_eq!(world.clients.kinds().await.len(), 2);
    world.fail(move |_, target| hangs(target).then_some(StatusCode::REQUEST_TIMEOUT));
    world.requests();
    world.managed().await;
    assert_eq!(world.clients.kinds().await.len(), 3);
    assert!(!world.requests().iter().any(|request| hangs(request)));
}

/// A world of one file, whose server takes its time for writes and may refuse them, and when these began. A change may
/// begin requests for a second.
fn slow(time: Duration, refusal: Option<StatusCode>) -> (World, Arc<Mutex<Vec<Instant>>>) {
    let store = in_memory(&StoreOptions::default()).unwrap();
    let server = ApiServer::builder(store).crds(windlass_api::crds::all()).build().unwrap();
    let began = Arc::new(Mutex::new(Vec::new()));
    let record = began.clone();
    let router = server.router().layer(from_fn(move |request: Request, next: Next| {
        let record = record.clone();
        async move {
            if *request.method() == Method::GET {
                return next.run(request).await;
            }
            record.lock().unwrap().push(Instant::now());
            tokio::time::sleep(time).await;
            match refusal {
                Some(code) => code.into_response(),
                None => next.run(request).await,
            }
        }
    }));
    let mut world = World::over(client_of(router, Caller::system("tests")), "default", &[]);
    world.write("x.json", &dashboard("x", "X"));
    world.options.timeout = Duration::from_secs(1);
    (world, began)
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_under_way_when_the_time_of_its_change_is_over_is_awaited() {
    let (world, began) = slow(Duration::from_secs(5), None);
    assert_eq!(world.sync().await.outcomes(), ["created x.json"]);
    assert_eq!(began.lock().unwrap().len(), 1);
    let (job, _) = job(&world);
    let job = Finalize { timeout: world.options.timeout, ..job };
    assert!(finalize::remove(&job).await.unwrap().is_complete());
}

#[tokio::test(start_paused = true)]
async fn no_write_begins_when_the_time_of_its_change_is_over() {
    let (world, began) = slow(Duration::from_millis(300), Some(StatusCode::SERVICE_UNAVAILABLE));
    let synced = world.sync().await;
    assert_eq!(synced.outcomes(), ["created x.json: ApiError"], "what the server said is told");
    let began = began.lock().unwrap();
    assert!(began.len() > 1 && began[began.len() - 1] - began[0] < world.options.timeout, "{began:?}");
}

#[tokio::test(start_paused = true)]
async fn a_listing_that_hangs_ends() {
    let world = World::with(&[("x.json", "x")]);
    world.fail(|_, target| (target == "dashboards").then_some(StatusCode::REQUEST_TIMEOUT));
    let listing = windlass_resources::managed::list(&world.clients, "default", "test6");
    let error = tokio::time::timeout(Duration::from_mins(5), listing).await.expect("it ends").unwrap_err();
    assert!(error.to_string().contains("did not answer within"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_tried_again_asks_for_the_lease_again() {
    let world = World::with(&[("x.json", "x")]);
    let lease = Arc::new(AtomicBool::new(true));
    let (lost, posts) = (lease.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = posts.clone();
    world.fail(move |method, _| {
        (method == Method::POST).then(|| {
            counted.fetch_add(1, Ordering::SeqCst);
            lost.store(false, Ordering::SeqCst);
            StatusCode::SERVICE_UNAVAILABLE
        })
    });
    let plan = world.plan().await;
    let synced = world.apply_with(plan, |_| {}, move || lease.load(Ordering::SeqCst)).await;
    assert_eq!(synced.summary.stopped, Some(Stopped::Cancelled));
    assert_eq!(posts.load(Ordering::SeqCst), 1, "the second try was not sent");
}

#[tokio::test]
async fn a_change_that_panics_is_the_failure_of_its_file() {
    let world = World::with(&[("a.json", "a"), ("b.json", "b"), ("c.json", "c")]);
    let (plan, panicked) = (world.plan().await, AtomicBool::new(false));
    let panics_once = move |item: &windlass_resources::ItemResult| {
        assert!(item.path != "b.json" || panicked.swap(true, Ordering::SeqCst), "as a defect would");
    };
    let synced = world.apply_with(plan, panics_once, || true).await;
    assert_eq!(synced.outcomes(), ["created a.json", "created b.json: InternalError", "created c.json"]);
}

#[tokio::test]
async fn files_that_are_plainly_no_resources_are_left_alone_without_a_word() {
    let mut world = World::with(&[("x.json", "x")]);
    world
        .write("package.json", r#"{"name": "site", "version": "1.0.0", "tags": []}"#)
        .write("tools/list.json", "[1, 2]")
        .write("ci.yaml", "on: push\njobs:\n  build: {}\n")
        .write("two.yaml", "a: 1\n---\nb: 2\n")
        .write("half.json", r#"{"panels": [], "title": "no version"}"#)
        .write("typeless.yaml", "apiVersion: v1\n")
        .write("objects.yaml", "kind: A\n---\nkind: B\n");
    let synced = world.sync().await;
    assert_eq!(
        synced.outcomes(),
        [
            "created half.json: ResourceInvalid",
            "created objects.yaml: ResourceInvalid",
            "created objects.yaml: ResourceInvalid",
            "created tools",
            "created typeless.yaml: ResourceInvalid",
            "created x.json",
        ]
    );
    // One that was a resource, and is none any more, takes its object with it: by comparison and by difference.
    world.write("x.json", r#"{"name": "something else"}"#);
    assert_eq!(world.sync().await.summary.deleted, 1);
    world.write("x.json", &dashboard("x", "X")).sync().await;
    let old = world.files.clone();
    let synced = world.write("x.json", "[]").sync_from(&old).await;
    assert_eq!(synced.outcomes(), ["deleted x.json"]);
}

#[tokio::test]
async fn what_nobody_manages_is_taken_over_if_it_is_on_the_list() {
    let mut world = World::with(&[("x.json", "x"), ("y.json", "y")]);
    for name in ["x", "y"] {
        let object = serde_json::from_str(&dashboard(name, "theirs")).unwrap();
        world.dashboards().create(&kube::api::PostParams::default(), &object).await.unwrap();
    }
    world.take_over = Arc::new([(DASHBOARD, "x".to_owned())].into());
    let synced = world.sync().await;
    assert_eq!(synced.outcomes(), ["created y.json: ResourceInvalid", "updated x.json"]);
    assert!(world.plan().await.files.iter().all(|write| write.path == "y.json"), "x is ours");
}
