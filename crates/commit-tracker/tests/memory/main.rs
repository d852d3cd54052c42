//! What a Kustomization costs in memory. The heap is the process's, so that this is a program of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../it/engine/world.rs"]
#[allow(dead_code, reason = "the tests of the engine share it")]
mod world;

use windlass_counted_heap::CountedHeap;

use self::world::{World, eventually, long_ago, shows};

#[global_allocator]
static HEAP: CountedHeap = CountedHeap::of_blocks_up_to(LARGE);

/// What the API server, which is in this process too, keeps its image of the store and its answers in is larger.
const LARGE: usize = 256 << 10;

/// Few enough to be created in moments, many enough that what comes and goes beside them does not count.
const MANY: usize = 1_750;
/// What one may cost: 10,000 of them have to fit into 45 MB with all else that the tracker needs.
const MOST: usize = 1_500;
/// How many allocations one may take: what is small and lives long leaves holes among what does not.
const PIECES: usize = 17;

#[tokio::test(flavor = "multi_thread")]
async fn a_kustomization_that_has_settled_costs_little_memory() {
    let world = World::new(&[]).await;
    let first = world.commit("first");
    world.publish(&first).await;
    // The ledger is begun, and the Kustomizations are in it: another tracker reads what they cost, and the server no more.
    let begins = world.tracker();
    world.begun().await;
    begins.stop().await;
    let alone = cost_of_a_tracker(&world, 0, |_| true).await;
    let an_hour_ago = jiff::Timestamp::now() - std::time::Duration::from_hours(1);
    for number in 0..MANY {
        let name = format!("a-kustomization-{number:05}");
        world.kustomization(&name).await;
        world.applied_often(&name, &first, long_ago(), an_hour_ago).await;
    }
    cost_of_a_tracker(&world, MANY, |_| true).await;
    let each = |with_all: Cost| {
        (with_all.0.saturating_sub(alone.0) / MANY, with_all.1.saturating_sub(alone.1) / MANY)
    };
    let is_little = |with_all: Cost| each(with_all).0 < MOST && each(with_all).1 < PIECES;
    let (bytes, pieces) = each(cost_of_a_tracker(&world, MANY, is_little).await);
    assert!(bytes > 0 && pieces > 0, "what nothing costs was not counted, beside {alone:?}");
}

/// Bytes, and the pieces that they are in.
type Cost = (usize, usize);

/// What a tracker takes up that has nothing more to do for so many Kustomizations, once that `is_settled`: what it was told
/// them by is given back a little later.
async fn cost_of_a_tracker(world: &World, many: usize, is_settled: impl Fn(Cost) -> bool) -> Cost {
    let before = (HEAP.in_use(), HEAP.pieces());
    let tracker = world.tracker();
    let watched = format!("flux_commit_tracker_kustomizations {many}");
    shows(&tracker, "flux_commit_tracker_kustomizations ", |lines| lines == [watched.as_str()]).await;
    let are_settled = |ages: &[String]| ages.len() == many && ages.iter().all(|age| age.ends_with(" 0"));
    shows(&tracker, "flux_commit_tracker_oldest_unapplied_commit_age_seconds{", are_settled).await;
    let cost = eventually("the cost of a settled tracker", async || {
        let cost = (HEAP.in_use().saturating_sub(before.0), HEAP.pieces().saturating_sub(before.1));
        if is_settled(cost) { Ok(cost) } else { Err(cost) }
    })
    .await;
    tracker.stop().await;
    cost
}
