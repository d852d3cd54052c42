//! One shard: what it holds, and who waits for it to be written.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep, timeout_at};
use windlass_runtime::ObjectKey;

use super::config::LedgerConfig;
use super::entry::{Entry, Record};
use super::error::LedgerError;
use super::format::{HEADER, entry_text, former_key};

/// The most that is put into a shard's `data`: an API server takes 1 MiB, and the object's metadata is in it too.
pub(super) const LIMIT: usize = 900 << 10;

/// A shard of the ledger.
#[derive(Debug, Default)]
pub(super) struct Shard {
    state: Mutex<State>,
    /// Something is to be written that somebody waits for.
    pub(super) hurry: Notify,
}

/// What a shard holds. All but `queue` and what is forgotten is as it is on the API server.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The `ConfigMap`'s `resourceVersion`; none when there is no `ConfigMap` yet.
    pub(super) version: Option<String>,
    pub(super) slots: HashMap<Arc<str>, Slot>,
    pub(super) queue: Vec<PendingWrite>,
    /// A task writes, or is about to.
    pub(super) is_written: bool,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) entry: Arc<Entry>,
    /// The length of its text.
    pub(super) bytes: usize,
}

/// Whom to tell what became of a record.
pub(super) type Answer = oneshot::Sender<Result<(), LedgerError>>;

/// Something that is to be written.
#[derive(Debug)]
pub(super) enum PendingWrite {
    /// Somebody may wait for it.
    Record(Box<Record>, Option<Answer>),
    Forget(Arc<str>),
}

/// What one write changes: the entries as they will be; none for those that are forgotten.
pub(super) type Changed = BTreeMap<Arc<str>, Option<(Arc<Entry>, String)>>;

impl Shard {
    pub(super) fn of(state: State) -> Self {
        Self { state: Mutex::new(state), ..Self::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for what goes in the same write: what nobody waits for waits a while for what somebody does.
    pub(super) async fn gather(&self, config: &LedgerConfig) {
        let end = Instant::now() + config.linger;
        while !self.lock().is_awaited() && timeout_at(end, self.hurry.notified()).await.is_ok() {}
        sleep(config.gather).await;
    }
}

impl State {
    pub(super) fn is_awaited(&self) -> bool {
        self.queue.iter().any(|ask| matches!(ask, PendingWrite::Record(_, Some(_))))
    }

    /// How long the values and keys of `data` would be, after `changed`.
    pub(super) fn bytes_after(&self, changed: &Changed, header: &str) -> usize {
        let kept = self.slots.iter().filter(|(uid, _)| !changed.contains_key(*uid));
        let kept: usize = kept.map(|(uid, slot)| uid.len() + slot.bytes).sum();
        let written = changed.iter().filter_map(|(uid, next)| Some(uid.len() + next.as_ref()?.1.len()));
        HEADER.len() + header.len() + kept + written.sum::<usize>()
    }

    /// Works out what `asks` change, one after the other, and whom to tell when that is written. A record that does not
    /// fit is answered.
    pub(super) fn stage(&self, asks: Vec<PendingWrite>, now: Timestamp) -> (Changed, Vec<Answer>) {
        let mut next: BTreeMap<Arc<str>, Option<Arc<Entry>>> = BTreeMap::new();
        let mut answers = Vec::new();
        for ask in asks {
            let (record, answer) = match ask {
                PendingWrite::Record(record, answer) => (record, answer),
                PendingWrite::Forget(uid) => {
                    next.insert(uid, None);
                    continue;
                }
            };
            let known = || self.slots.get(&record.uid).map(|slot| Arc::clone(&slot.entry));
            let current = next.get(&record.uid).cloned().unwrap_or_else(known);
            match Entry::after(current.as_deref(), &record, now) {
                Ok(Some(entry)) => {
                    // What was counted under another kind of source is kept apart, until somebody took it.
                    if let Some(former) = current.filter(|former| former.source_kind != entry.source_kind) {
                        let key = former_key(&record.uid, former.began);
                        next.insert(key.into(), Some(former));
                    }
                    next.insert(record.uid, Some(Arc::new(entry)));
                    answers.extend(answer);
                }
                // It is on the server already, or becomes so with what this write changes.
                Ok(None) => answers.extend(answer),
                Err(reason) => {
                    let ObjectKey { namespace, name } = (*record.key).clone();
                    let refused = LedgerError::Refused { namespace, name, reason: Box::new(reason) };
                    // Whoever does not wait any more does not want to know.
                    let _ = answer.map(|answer| answer.send(Err(refused)));
                }
            }
        }
        let with_text = |entry: Arc<Entry>| {
            let text = entry_text(&entry);
            (entry, text)
        };
        (next.into_iter().map(|(uid, entry)| (uid, entry.map(with_text))).collect(), answers)
    }

    /// Takes over what was written.
    pub(super) fn commit(&mut self, changed: Changed, version: String) {
        self.version = Some(version);
        for (uid, next) in changed {
            match next {
                Some((entry, text)) => self.slots.insert(uid, Slot { entry, bytes: text.len() }),
                None => self.slots.remove(&uid),
            };
        }
    }
}
