//! Several processes at once that do not know of each other, with every fault that a seed comes up with.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use http::Method;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::counting::{Told, check, count_until_death, count_up};
use super::line::{Fate, Line};
use super::{World, neighbours};

const SEEDS: u64 = 60;
const TARGET: usize = 20;

fn uids() -> Vec<String> {
    let mut uids = neighbours(3);
    uids.extend((1..4).map(|number| format!("uid-{number}")));
    uids
}

/// A line on which a share of the requests meets a fault.
fn bad_line(world: &World, rng: &mut StdRng) -> Line {
    let line = world.line();
    let (share, mut own) = (rng.random_range(0.0..0.4), StdRng::seed_from_u64(rng.random()));
    line.decide(move |_, method| {
        let fate = if own.random_bool(share) {
            Fate::BAD[own.random_range(0..Fate::BAD.len())]
        } else {
            Fate::Passes
        };
        // Reading twice or late is reading.
        if *method == Method::GET && fate == Fate::ArrivesTwice { Fate::Passes } else { fate }
    });
    line
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_and_whoever_dies_each_step_is_counted_once() {
    for seed in 0..SEEDS {
        let world = Arc::new(World::new());
        let told = Told::default();
        let mut rng = StdRng::seed_from_u64(seed);
        let uids = uids();
        let lives = (0..3).map(|_| {
            let mut rng = StdRng::seed_from_u64(rng.random());
            let (world, told, uids) = (world.clone(), told.clone(), uids.clone());
            tokio::spawn(async move {
                for _ in 0..rng.random_range(1..4) {
                    let line = bad_line(&world, &mut rng);
                    let death = Duration::from_millis(rng.random_range(0..60_000));
                    let dying = line.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(death).await;
                        dying.cut();
                    });
                    count_until_death(&world, &line, &uids, TARGET, &told).await;
                }
            })
        });
        for life in join_all(lives).await {
            life.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        let left = check(&world, &uids, &told).await;
        count_up(&world, &world.line(), &uids, TARGET, &told).await;
        assert_eq!(
            check(&world, &uids, &told).await,
            vec![TARGET; uids.len()],
            "seed {seed}, after {left:?}"
        );
    }
}
