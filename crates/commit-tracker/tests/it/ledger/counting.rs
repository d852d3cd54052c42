//! Processes that count up, step by step, and open the ledger again whenever it is lost.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;
use windlass_commit_tracker::ledger::{Ledger, LedgerError};

use super::line::Line;
use super::{World, step, steps};

/// What processes were told is remembered: UID and step.
#[derive(Clone, Default)]
pub(super) struct Told(Arc<Mutex<BTreeSet<(String, usize)>>>);

impl Told {
    /// Notes an answer. Nobody may have been told the same before.
    fn note(&self, uid: &str, n: usize) {
        assert!(self.0.lock().unwrap().insert((uid.to_owned(), n)), "step {n} of {uid} was recorded twice");
    }

    /// The newest step that somebody was told of.
    pub(super) fn newest(&self, uid: &str) -> usize {
        let told = self.0.lock().unwrap();
        told.iter().filter(|(other, _)| other == uid).map(|(_, n)| *n).max().unwrap_or(0)
    }
}

/// How long counting may take, in paused time.
const CALL_DEADLINE: Duration = Duration::from_hours(3);

/// Counts every UID up to `target`, however often the ledger is lost.
pub(super) async fn count_up(world: &World, line: &Line, uids: &[String], target: usize, told: &Told) {
    let counted = timeout(CALL_DEADLINE, count(world, line, uids, target, told)).await;
    counted.expect("the processes come to an end");
}

async fn count(world: &World, line: &Line, uids: &[String], target: usize, told: &Told) {
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

/// The same, until the process dies.
pub(super) async fn count_until_death(
    world: &World,
    line: &Line,
    uids: &[String],
    target: usize,
    told: &Told,
) {
    tokio::select! {
        () = count_up(world, line, uids, target, told) => {}
        () = line.is_cut() => {}
    }
}

/// Opens the ledger and checks that all that was told is in it, and how much there is.
pub(super) async fn check(world: &World, uids: &[String], told: &Told) -> Vec<usize> {
    let ledger = world.open().await;
    let check = |uid: &String| {
        let n = steps(&ledger, uid);
        assert!(n >= told.newest(uid), "{uid}: {} was told, and {n} is remembered", told.newest(uid));
        n
    };
    uids.iter().map(check).collect()
}
