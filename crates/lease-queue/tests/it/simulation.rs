//! Crowds of replicas, jobs and faults, by seed; the history of each is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use windlass_lease_queue::Key;

use crate::checker;
use crate::replica;
use crate::store::{Client, Fate, Flaw, Happened, Odds, Server};

/// How many worlds are tried; `SIMULATION_SEEDS` asks for more.
fn seeds() -> u64 {
    std::env::var("SIMULATION_SEEDS").map_or(400, |seeds| seeds.parse().unwrap())
}

struct Outcome {
    violations: Vec<String>,
    log: Vec<Happened>,
}

/// One run of the world: some minutes of faults, then calm until the queue is empty.
fn simulate(seed: u64, flaw: Flaw) -> Outcome {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut rng = StdRng::seed_from_u64(seed);
        let odds = Odds {
            request_lost: rng.random_range(0..8),
            answer_lost: rng.random_range(0..8),
            crash_before_write: rng.random_range(0..6),
            crash_after_write: rng.random_range(0..6),
            stuck: rng.random_range(0..4),
            event_lost: rng.random_range(0..20),
        };
        let server =
            if seed.is_multiple_of(2) { Server::new(flaw) } else { Server::with_opaque_versions(flaw) };
        let calm = Arc::new(AtomicBool::new(false));
        let end = CancellationToken::new();
        let mut replicas = JoinSet::new();
        for slot in 0..rng.random_range(1..5) {
            let (server, calm) = (Arc::clone(&server), Arc::clone(&calm));
            let client = move |incarnation| {
                let seed = (seed << 20) ^ ((slot as u64) << 10) ^ incarnation;
                Client { server: Arc::clone(&server), fate: Fate::new(seed, odds, Arc::clone(&calm)) }
            };
            replicas.spawn(replica::supervise(slot, client, end.clone()));
        }
        for _ in 0..rng.random_range(10..30) {
            sleep(Duration::from_millis(rng.random_range(0..30_000))).await;
            let namespace = format!("tenant-{}", rng.random_range(0..2));
            let repository = format!("repository-{}", rng.random_range(0..3));
            let name = format!("{repository}-{}", rng.random_range(0..4));
            if rng.random_range(0..10) == 0 {
                // Deleted, and often made anew under the same name.
                server.delete_by_user(&Key::new(&*namespace, &*name));
            }
            server.add(&namespace, &repository, &name);
        }
        calm.store(true, Ordering::Relaxed);
        let mut waited = 0;
        while !server.jobs().is_empty() && waited < 3600 {
            sleep(Duration::from_secs(1)).await;
            waited += 1;
        }
        end.cancel();
        while let Some(ended) = replicas.join_next().await {
            ended.unwrap();
        }
        let mut violations = checker::violations(&server.log(), &server.jobs(), 3);
        violations
            .extend(server.jobs().iter().map(|job| format!("still queued after an hour of calm: {job:?}")));
        Outcome { violations, log: server.log() }
    })
}

#[test]
fn every_job_ends_in_history_once_and_has_one_live_owner_whatever_fails() {
    let mut takeovers = 0;
    let mut reaped = 0;
    let mut filed = 0;
    let seeds = seeds();
    for seed in 0..seeds {
        let outcome = simulate(seed, Flaw::None);
        assert!(
            outcome.violations.is_empty(),
            "seed {seed}:\n{}\nlog:\n{:#?}",
            outcome.violations.join("\n"),
            outcome.log
        );
        for happened in &outcome.log {
            match happened {
                Happened::Patched { attempt: 2.., before: Some(_), change, .. }
                    if change.labels.len() > 2 =>
                {
                    takeovers += 1;
                }
                Happened::Filed { state, .. } if state == "error" => reaped += 1,
                Happened::Filed { .. } => filed += 1,
                _ => {}
            }
        }
    }
    // The faults are real ones, or the above would say nothing.
    assert!(takeovers > seeds && reaped > seeds / 20 && filed > 5 * seeds, "{takeovers} {reaped} {filed}");
}

#[test]
fn the_checker_notices_a_store_without_preconditions() {
    let caught = (0..20).filter(|seed| !simulate(*seed, Flaw::Unguarded).violations.is_empty()).count();
    assert!(caught > 10, "in {caught} of 20 worlds");
}

#[test]
fn the_checker_notices_a_history_that_takes_a_job_twice() {
    let caught =
        (0..60).filter(|seed| !simulate(*seed, Flaw::ForgetfulHistory).violations.is_empty()).count();
    assert!(caught > 0, "in {caught} of 60 worlds");
}

#[test]
fn the_checker_notices_two_jobs_of_one_repository_beside_each_other() {
    let caught = (0..60).filter(|seed| !simulate(*seed, Flaw::HiddenClaims).violations.is_empty()).count();
    assert!(caught > 0, "in {caught} of 60 worlds");
}
