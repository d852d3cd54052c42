//! Processes that count up, step by step, and open the ledger again whenever it is lost: with a fault at any request and
//! death right after it, with a server that is away, and several at once that do not know of each other.

use std::collections::BTreeSet;
use std::sync::Mutex;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;

/// How long counting may take, in paused time.
const CALL_DEADLINE: Duration = Duration::from_hours(3);

/// Kustomizations that are counted up, each to a target.
#[derive(Clone)]
struct Count {
    world: Arc<World>,
    uids: Vec<String>,
    target: usize,
    /// What processes were told is remembered: UID and step.
    told: Arc<Mutex<BTreeSet<(String, usize)>>>,
}

impl Count {
    /// So many in one shard, and others.
    fn new(in_one: usize, others: usize, target: usize) -> Self {
        let mut uids = neighbours(in_one);
        uids.extend((1..=others).map(|number| format!("uid-{number}")));
        Self { world: Arc::new(World::new()), uids, target, told: Arc::default() }
    }

    /// Counts up, however often the ledger is lost, unless the process dies.
    async fn up(&self, line: &Line) {
        let count = async {
            loop {
                let ledger = match self.world.open_over(line).await {
                    Ok(ledger) => ledger,
                    Err(LedgerError::Open { .. }) => continue,
                    Err(error) => panic!("{error:?}"),
                };
                let all = self.uids.iter().map(|uid| self.one_up(&ledger, uid));
                if join_all(all).await.into_iter().all(|done| done) {
                    return;
                }
                assert!(ledger.is_lost());
            }
        };
        tokio::select! {
            () = count => {}
            () = line.cut.cancelled() => {}
            () = tokio::time::sleep(CALL_DEADLINE) => panic!("the processes come to no end"),
        }
    }

    /// Counts one up. False when the ledger is lost.
    async fn one_up(&self, ledger: &Ledger, uid: &str) -> bool {
        loop {
            let next = steps(ledger, uid) + 1;
            if next > self.target {
                return true;
            }
            match ledger.record(step(uid, next)).await {
                Ok(()) => {
                    let is_new = self.told.lock().unwrap().insert((uid.to_owned(), next));
                    assert!(is_new, "step {next} of {uid} was recorded twice");
                    assert!(steps(ledger, uid) >= next, "what was answered is remembered");
                }
                Err(error) if error.is_lost() => return false,
                Err(error) => assert!(matches!(error, LedgerError::Write { .. }), "{error:?}"),
            }
        }
    }

    /// Opens the ledger and checks that all that was told is in it, and how much there is.
    async fn check(&self) -> Vec<usize> {
        let ledger = self.world.open().await;
        let counted: Vec<_> = self.uids.iter().map(|uid| steps(&ledger, uid)).collect();
        for (uid, step) in &*self.told.lock().unwrap() {
            assert!(steps(&ledger, uid) >= *step, "{uid}: {step} was told, and {counted:?} are remembered");
        }
        counted
    }

    /// Whatever is left is counted up to the target, once.
    async fn finish(&self, what: &str) {
        let left = self.check().await;
        self.up(&self.world.line()).await;
        assert_eq!(self.check().await, vec![self.target; self.uids.len()], "{what}, after {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_request_leaves_each_record_wholly_or_not_at_all() {
    let count = Count::new(2, 1, 3);
    let line = count.world.line();
    count.up(&line).await;
    let requests = line.requests();
    assert!((6..12).contains(&requests), "open twice, begin, and three times two shards: {requests}");
    for bad in Fate::BAD.into_iter().chain([Fate::Passes]) {
        for fault in 0..requests {
            let count = Count::new(2, 1, 3);
            let line = count.world.line();
            let last = line.cut.clone();
            line.decide(move |number, _| {
                if number < fault {
                    return Fate::Passes;
                }
                // The request leaves; whatever answer there is finds nobody.
                last.cancel();
                bad
            });
            count.up(&line).await;
            count.finish(&format!("request {fault} {bad:?}")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_for_long_loses_the_ledger_and_nothing_else() {
    let count = Count::new(2, 1, 3);
    let line = count.world.line();
    // Longer than the deadline of a write, and of the next ledger's opening.
    let start = tokio::time::Instant::now();
    line.decide(move |number, _| match start.elapsed().as_secs() {
        0 if number < 4 => Fate::Passes,
        0..200 => [Fate::Fails, Fate::IsLost, Fate::IsLate, Fate::IsDoneAndFails][number % 4],
        _ => Fate::Passes,
    });
    count.up(&line).await;
    assert!(start.elapsed().as_secs() >= 200);
    assert_eq!(count.check().await, [3; 3]);
}

#[tokio::test(start_paused = true)]
async fn whatever_fails_and_whoever_dies_each_step_is_counted_once() {
    for seed in 0..60 {
        let count = Count::new(3, 3, 20);
        let mut rng = StdRng::seed_from_u64(seed);
        let lives = (0..3).map(|_| {
            let mut rng = StdRng::seed_from_u64(rng.random());
            let count = count.clone();
            tokio::spawn(async move {
                for _ in 0..rng.random_range(1..4) {
                    let line = count.world.line();
                    // A share of the requests meets a fault.
                    let share = rng.random_range(0.0..0.4);
                    let mut own = StdRng::seed_from_u64(rng.random());
                    line.decide(move |_, method| {
                        let is_bad = own.random_bool(share);
                        let bad = Fate::BAD[own.random_range(0..Fate::BAD.len())];
                        // Reading twice or late is reading.
                        let is_same = *method == Method::GET && bad == Fate::ArrivesTwice;
                        if is_bad && !is_same { bad } else { Fate::Passes }
                    });
                    let death = tokio::time::sleep(Duration::from_millis(rng.random_range(0..60_000)));
                    tokio::select! {
                        () = count.up(&line) => {}
                        () = death => {}
                    }
                    line.cut.cancel();
                }
            })
        });
        for life in join_all(lives).await {
            life.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
        count.finish(&format!("seed {seed}")).await;
    }
}
