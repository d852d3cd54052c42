//! A fault at any request with death right after it, and a server that is away.

use super::counting::{Told, check, count_until_death, count_up};
use super::line::Fate;
use super::{World, neighbours};

const TARGET: usize = 3;

/// Two in one shard, one in another.
fn uids() -> Vec<String> {
    let mut uids = neighbours(2);
    uids.push("uid-1".to_owned());
    uids
}

/// How many requests the whole takes when nothing goes wrong.
async fn requests() -> usize {
    let world = World::new();
    let line = world.line();
    count_up(&world, &line, &uids(), TARGET, &Told::default()).await;
    let requests = line.requests();
    assert!((6..12).contains(&requests), "open twice, begin, and {TARGET} times two shards: {requests}");
    requests
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_request_leaves_each_record_wholly_or_not_at_all() {
    for bad in Fate::BAD.into_iter().chain([Fate::Passes]) {
        for fault in 0..requests().await {
            let world = World::new();
            let (line, told) = (world.line(), Told::default());
            let last = line.clone();
            line.decide(move |number, _| {
                if number < fault {
                    return Fate::Passes;
                }
                // The request leaves; whatever answer there is finds nobody.
                last.cut();
                bad
            });
            count_until_death(&world, &line, &uids(), TARGET, &told).await;
            let left = check(&world, &uids(), &told).await;
            count_up(&world, &world.line(), &uids(), TARGET, &told).await;
            assert_eq!(
                check(&world, &uids(), &told).await,
                [TARGET; 3],
                "request {fault} {bad:?}, after {left:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_long_loses_the_ledger_and_nothing_else() {
    let world = World::new();
    let (line, told) = (world.line(), Told::default());
    // Longer than the deadline of a write, and of the next ledger's opening.
    let start = tokio::time::Instant::now();
    line.decide(move |number, _| match start.elapsed().as_secs() {
        0 if number < 4 => Fate::Passes,
        0..200 => [Fate::Fails, Fate::IsLost, Fate::IsLate, Fate::IsDoneAndFails][number % 4],
        _ => Fate::Passes,
    });
    count_up(&world, &line, &uids(), TARGET, &told).await;
    assert!(start.elapsed().as_secs() >= 200);
    assert_eq!(check(&world, &uids(), &told).await, [TARGET; 3]);
}
