//! What sources cost in memory that nothing happens to, and what one with a large file does. The heap is the process's, so that this is a program of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../it/world.rs"]
#[allow(dead_code, reason = "the other tests need more of it")]
mod world;

use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use tokio::time::Instant;
use windlass_counted_heap::CountedHeap;
use windlass_git_server::seed::{self, Edit};

use crate::world::{Process, World, put};

#[global_allocator]
static HEAP: CountedHeap = CountedHeap::new();

/// Few enough to be ready in a moment, many enough that what else the operator has does not count.
const OBJECTS: usize = 600;
const REPOSITORIES: usize = 30;
/// What one of them may cost, its share of its repository included: 10,000 of them have to fit into 200 MB with all else that
/// the operator needs.
const MOST: usize = 7_000;

/// Bytes of a file that is packed as it is read, and what that may take in memory beside all else.
const LARGE: usize = 96 << 20;
const MOST_OF_LARGE: usize = 24 << 20;

#[tokio::test]
async fn neither_a_source_that_does_not_change_nor_a_large_file_costs_much_memory() {
    let mut world = World::new().await;
    world.router = world.router.layer(middleware::from_fn(without_events));
    let commit = world.commit([put("a", "1")]);
    for n in 0..REPOSITORIES {
        let place = world.folder.path().join(format!("app-{n}.git"));
        std::os::unix::fs::symlink(world.folder.path().join("app.git"), place).unwrap();
    }
    create(&world, 0..1, &commit).await;
    let alone = cost_of_an_operator(&world, 1).await;
    create(&world, 1..OBJECTS, &commit).await;
    let with_all = cost_of_an_operator(&world, OBJECTS).await;
    let each = with_all.saturating_sub(alone) / OBJECTS;
    assert!(each < MOST, "{each} bytes a source, beside {alone} bytes without any");
    let large = cost_of_a_large_file(&world).await;
    assert!(large < MOST_OF_LARGE, "{large} bytes at a time for a file of {LARGE}");
}

/// Events would be kept in this heap.
async fn without_events(request: Request, next: Next) -> Response {
    if request.uri().path().contains("/events") {
        return StatusCode::FORBIDDEN.into_response();
    }
    next.run(request).await
}

/// A process whose artifacts are where those of the one before it were: else every status would be written anew.
async fn start(world: &World) -> Process {
    let more = [("source.leader_election", "false"), ("source.storage_advertised_address", "artifacts.test")];
    world.start_as("one", &more).await
}

/// Creates objects, and has them made ready by a process that ends then.
async fn create(world: &World, numbers: std::ops::Range<usize>, commit: &str) {
    let process = start(world).await;
    for n in numbers.clone() {
        let url = format!("{}/app-{}.git", world.server.origin(), n % REPOSITORIES);
        let spec = json!({"url": url, "interval": "10m", "ref": {"branch": "main"}});
        world.create(&format!("a-source-with-a-name-{n:05}"), spec).await;
    }
    for n in numbers {
        world.ready(&format!("a-source-with-a-name-{n:05}"), commit).await;
    }
    process.stop().await;
}

/// What an operator takes up that has looked at so many objects, and found nothing new. It writes nothing, which would be in
/// this heap too: no Events either.
async fn cost_of_an_operator(world: &World, objects: usize) -> usize {
    let before = HEAP.in_use();
    let process = start(world).await;
    let until = Instant::now() + Duration::from_mins(1);
    let looked_at = || {
        let said = process.context.metrics.render().unwrap();
        said.lines().filter(|line| line.starts_with("gotk_reconcile_duration_seconds_count{")).count()
    };
    while looked_at() < objects {
        assert!(Instant::now() < until, "{} were looked at", looked_at());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let cost = HEAP.in_use().saturating_sub(before);
    process.stop().await;
    cost
}

/// The most that is in use while a repository with a large file becomes an artifact.
async fn cost_of_a_large_file(world: &World) -> usize {
    let content = (0..LARGE / 4).flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes().into_iter().take(4));
    let large = Edit::put("large", content.collect::<Vec<u8>>());
    let repository = world.folder.path().join("large.git");
    let commit = seed::commit(&repository, "main", [large, put("small", "small")], "large").unwrap();
    let process = start(world).await;
    let before = HEAP.in_use();
    HEAP.reset_peak();
    let url = format!("{}/large.git", world.server.origin());
    world.create("large", json!({"url": url, "interval": "10m", "ref": {"branch": "main"}})).await;
    let artifact = world.ready("large", &commit).await;
    let cost = HEAP.peak().saturating_sub(before);
    let kept = std::fs::metadata(process.data.join(&artifact.path)).unwrap().len();
    assert_eq!(Some(kept), artifact.size.and_then(|size| u64::try_from(size).ok()), "{artifact:?}");
    process.stop().await;
    cost
}
