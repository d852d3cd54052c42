//! Kustomizations that were deleted, or whose source became one of another kind, and whose last figures nobody has taken
//! yet.
//!
//! They stay in the cluster for as long: whoever leads next finds them there, sees that they are gone, and shows them
//! again.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, MutexGuard, PoisonError};

use tokio::time::{Instant, sleep_until};

use super::entry::Entry;
use super::shard::PendingWrite;
use super::{Inner, Ledger, format};

/// Those that leave, in the order in which they will.
#[derive(Debug, Default)]
pub(super) struct DeletedEntries {
    all: VecDeque<DeletedEntry>,
    /// A task waits for the first of them.
    is_awaited: bool,
}

/// One that leaves.
#[derive(Debug)]
struct DeletedEntry {
    uid: Box<str>,
    entry: Arc<Entry>,
    until: Instant,
}

impl Ledger {
    /// Forgets a Kustomization that was deleted. It is [shown](Ledger::deleted) until that was [taken](Ledger::taken), or
    /// nobody did for long enough, and leaves the cluster with a later write.
    pub fn forget(&self, uid: &str) {
        self.inner.retire(uid);
    }

    /// Every UID that was forgotten, with what was remembered of it, the first to be forgotten first.
    pub fn deleted(&self) -> Vec<(Box<str>, Arc<Entry>)> {
        let deleted = self.inner.deleted();
        let newest = |left: &DeletedEntry| {
            // A record of it may have been on its way still.
            let written = self.entry(&left.uid);
            (left.uid.clone(), written.unwrap_or_else(|| Arc::clone(&left.entry)))
        };
        deleted.all.iter().map(newest).collect()
    }

    /// Somebody has what was remembered of these: they need not be shown any more.
    pub fn taken(&self, uids: &[Box<str>]) {
        let taken: VecDeque<DeletedEntry> = {
            let mut deleted = self.inner.deleted();
            let all = mem::take(&mut deleted.all);
            let (taken, left) = all.into_iter().partition(|left| uids.contains(&left.uid));
            deleted.all = left;
            taken
        };
        self.inner.forget(taken);
    }
}

impl Inner {
    /// Shows what is remembered under this key only until somebody took it.
    pub(super) fn retire(self: &Arc<Self>, key: &str) {
        let Some(entry) = self.shard(key).lock().remove(key) else { return };
        let mut deleted = self.deleted();
        let until = Instant::now() + self.config.show_deleted_for;
        deleted.all.push_back(DeletedEntry { uid: key.into(), entry, until });
        if !mem::replace(&mut deleted.is_awaited, true) {
            tokio::spawn(Arc::clone(self).evict());
        }
    }

    /// Lets those go that nobody took, until there are none.
    async fn evict(self: Arc<Self>) {
        loop {
            let (gone, next): (VecDeque<DeletedEntry>, _) = {
                let mut deleted = self.deleted();
                let now = Instant::now();
                let due = deleted.all.iter().take_while(|left| left.until <= now).count();
                let gone = deleted.all.drain(..due).collect();
                let next = deleted.all.front().map(|left| left.until);
                deleted.is_awaited = next.is_some();
                (gone, next)
            };
            self.forget(gone);
            match next {
                Some(until) => sleep_until(until).await,
                None => return,
            }
        }
    }

    fn forget(self: &Arc<Self>, left: VecDeque<DeletedEntry>) {
        for DeletedEntry { uid, .. } in left {
            self.ask(format::shard_of(&uid), PendingWrite::Forget(uid));
        }
    }

    fn deleted(&self) -> MutexGuard<'_, DeletedEntries> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
