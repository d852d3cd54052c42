//! Processes that count up, step by step, and open the ledger again whenever it is lost: with a fault at any request and
//! death right after it, with a server that is away, and several at once that do not know of each other.

use std::collections::BTreeSet;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

const TARGET: usize = 3;
const MANY: usize = 20;

/// What processes were told is remembered: UID and step.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<BTreeSet<(String, usize)>>>);

impl Told {
    /// Notes an answer. Nobody may have been told the same before.
    fn note(&self, uid: &str, n: usize) {
        assert!(self.0.lock().unwrap().insert((uid.to_owned(), n)), "step {n} of {uid} was recorded twice");
    }

    /// The newest step that somebody was told of.
    fn newest(&self, uid: &str) -> usize {
        let told = self.0.lock().unwrap();
        told.iter().filter(|(other, _)| other == uid).map(|(_, n)| *n).max().unwrap_or(0)
    }
}

/// How long counting may take, in paused time.
const CALL_DEADLINE: Duration = Duration::from_hours(3);

/// Counts every UID up to `target`, however often the ledger is lost, unless the process dies.
async fn count_up(world: &World, line: &Line, uids: &[String], target: usize, told: &Told) {
    let count = async {
        loop {
            let ledger = match world.open_over(line).await {
                Ok(ledger) => ledger,
                Err(LedgerError::Open { .. }) => continue,
                Err(error) => panic!("{error:?}"),
            };
            let all = uids.iter().map(|uid| count_one(&ledger, uid, target, told));
            if join_all(all).await.into_iter().all(|done| done) {
                return;
            }
            assert!(ledger.is_lost());
        }
    };
    tokio::select! {
        () = count => {}
        () = line.is_cut() => {}
        () = tokio::time::sleep(CALL_DEADLINE) => panic!("the processes come to no end"),
    }
}

/// Counts one UID up to `target`. False when the ledger is lost.
async fn count_one(ledger: &Ledger, uid: &str, target: usize, told: &Told) -> bool {
    loop {
        let n = steps(ledger, uid);
        if n >= target {
            return true;
        }
        match ledger.record(step(uid, n + 1)).await {
            Ok(()) => {
                told.note(uid, n + 1);
                assert!(steps(ledger, uid) > n, "what was answered is remembered");
            }
            Err(error) if error.is_lost() => return false,
            Err(error) => assert!(matches!(error, LedgerError::Write { .. }), "{error:?}"),
        }
    }
}

/// Opens the ledger and checks that all that was told is in it, and how much there is.
async fn check(world: &World, uids: &[String], told: &Told) -> Vec<usize> {
    let ledger = world.open().await;
    let check = |uid: &String| {
        let n = steps(&ledger, uid);
        assert!(n >= told.newest(uid), "{uid}: {} was told, and {n} is remembered", told.newest(uid));
        n
    };
    uids.iter().map(check).collect()
}

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
            count_up(&world, &line, &uids(), TARGET, &told).await;
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
    for seed in 0..60 {
        let world = Arc::new(World::new());
        let told = Told::default();
        let mut rng = StdRng::seed_from_u64(seed);
        let mut uids = neighbours(3);
        uids.extend((1..4).map(|number| format!("uid-{number}")));
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
                    count_up(&world, &line, &uids, MANY, &told).await;
                }
            })
        });
        for life in join_all(lives).await {
            life.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        let left = check(&world, &uids, &told).await;
        count_up(&world, &world.line(), &uids, MANY, &told).await;
        assert_eq!(check(&world, &uids, &told).await, [MANY; 6], "seed {seed}, after {left:?}");
    }
}
