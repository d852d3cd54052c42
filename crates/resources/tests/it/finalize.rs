use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use http::{Method, StatusCode};
use tokio_util::sync::CancellationToken;
use windlass_apiserver::store::{StoreOptions, in_memory};
use windlass_apiserver::{ApiServer, client_of};
use windlass_auth::Caller;
use windlass_resources::finalize::{Finalize, release, remove};
use windlass_resources::{Clients, Reason};

use crate::world::{World, dashboard};

const SAMPLE: &[(&str, &str)] = &[("a/b/deep.json", "deep"), ("a/x.json", "x"), ("top.json", "top")];

pub(crate) fn job(world: &World) -> (Finalize, Arc<Mutex<Vec<String>>>) {
    let results = Arc::new(Mutex::new(Vec::new()));
    let collected = results.clone();
    let job = Finalize {
        clients: world.clients.clone(),
        namespace: world.context.namespace.clone(),
        repository: world.context.repository.clone(),
        workers: 4,
        timeout: Duration::from_secs(15),
        cancel: CancellationToken::new(),
        on_result: Arc::new(move |item| {
            collected.lock().unwrap().push(format!("{} {}", item.action.as_str(), item.path));
        }),
    };
    (job, results)
}

#[tokio::test]
async fn releasing_leaves_the_objects_and_takes_the_marks() {
    let world = World::with(SAMPLE);
    world.sync().await;
    world.requests();
    let (job, results) = job(&world);
    let done = release(&job).await.unwrap();
    assert!(done.is_complete() && done.found == 5 && done.failures.is_empty(), "{done:?}");
    assert_eq!(results.lock().unwrap()[..2], ["updated a", "updated a/b"]);
    let deep = world.dashboards().get("deep").await.unwrap().metadata;
    let annotations = deep.annotations.unwrap();
    assert_eq!(annotations.keys().map(String::as_str).collect::<Vec<_>>(), ["grafana.app/folder"]);
    assert!(deep.labels.unwrap_or_default().is_empty());
    assert!(world.managed().await.is_empty());
    assert_eq!(release(&job).await.unwrap().found, 0);
}

#[tokio::test]
async fn removing_takes_files_first_and_folders_from_the_bottom_up() {
    let world = World::with(SAMPLE);
    world.sync().await;
    let (job, results) = job(&world);
    let done = remove(&job).await.unwrap();
    assert!(done.is_complete() && done.found == 5, "{done:?}");
    assert_eq!(results.lock().unwrap()[3..], ["deleted a/b", "deleted a"]);
    assert!(world.state().await.is_empty());
}

#[tokio::test]
async fn what_cannot_be_removed_is_named_and_keeps_its_folders() {
    let world = World::with(SAMPLE);
    world.sync().await;
    world.fail(|method, target| {
        (method == Method::DELETE && target == "dashboards/deep").then_some(StatusCode::FORBIDDEN)
    });
    let (job, _) = job(&world);
    let done = remove(&job).await.unwrap();
    assert!(!done.is_complete());
    let failures: Vec<_> = done
        .failures
        .iter()
        .map(|item| (item.path.as_str(), item.error.as_ref().map(|failure| failure.reason)))
        .collect();
    assert_eq!(
        failures,
        [
            ("a/b/deep.json", Some(Reason::ApiError)),
            ("a/b", Some(Reason::SkippedFolderChildrenNotDeleted)),
            ("a", Some(Reason::SkippedFolderChildrenNotDeleted)),
        ]
    );
    world.heal();
    assert!(remove(&job).await.unwrap().is_complete());
    assert!(world.state().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_does_not_hold_up_the_end() {
    let world = World::with(SAMPLE);
    world.sync().await;
    world.fail(|method, _| (method == Method::DELETE).then_some(StatusCode::REQUEST_TIMEOUT));
    let (job, _) = job(&world);
    let done = remove(&job).await.unwrap();
    assert_eq!(done.failures.len(), 5);
    world.fail(|_, _| Some(StatusCode::REQUEST_TIMEOUT));
    let error = release(&job).await.unwrap_err().to_string();
    assert!(error.contains("did not answer within 15s"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_listing_may_take_longer_than_an_item_while_its_pages_come() {
    let store = in_memory(&StoreOptions::default()).unwrap();
    let server = ApiServer::builder(store).crds(windlass_api::crds::all()).build().unwrap();
    let mut world = World::over(client_of(server.router(), Caller::system("tests")), "default", &[]);
    for number in 0..1_100 {
        world.write(&format!("{number}.json"), &dashboard(&format!("d{number}"), "D"));
    }
    world.sync().await;
    let slow = server.router().layer(from_fn(|request: Request, next: Next| async {
        if request.uri().query().is_some_and(|query| query.contains("limit=")) {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        next.run(request).await
    }));
    world.clients = Clients::same(client_of(slow, Caller::system("tests")));
    let (job, _) = job(&world);
    let began = tokio::time::Instant::now();
    let done = remove(&job).await.unwrap();
    assert!(done.is_complete() && done.found == 1_100, "{done:?}");
    assert!(began.elapsed() >= job.timeout * 2, "three pages: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_cancelled_removal_stops() {
    let world = World::with(SAMPLE);
    world.sync().await;
    let (job, _) = job(&world);
    job.cancel.cancel();
    let done = remove(&job).await.unwrap();
    assert!(done.cancelled && done.done == 0 && !done.is_complete());
    assert_eq!(world.managed().await.len(), 5);
}
