//! One shard: what it holds, who waits for it to be written, and the task that writes for all of them.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::entry::{Entry, Record};
use super::format::{HEADER, entry_text, former_key, is_former};
use super::{Inner, LedgerError};

/// The most that is put into a shard's `data`: an API server takes 1 MiB, and the object's metadata is in it too.
pub(super) const LIMIT: usize = 900 << 10;

/// From here on, entries are written with coarser histograms.
const THRIFTY: usize = 640 << 10;

/// The most exponential buckets of an entry in a shard that is thrifty.
const THRIFTY_BUCKETS: usize = 40;

/// A shard of the ledger.
#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) state: Mutex<State>,
}

/// What a shard holds. All but `queue` and what is forgotten is as it is on the API server.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The `ConfigMap`'s `resourceVersion`; none when there is no `ConfigMap` yet.
    version: Option<String>,
    slots: HashMap<Box<str>, Slot>,
    queue: Vec<PendingWrite>,
    /// A task writes, or is about to.
    is_written: bool,
}

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    /// The length of its text.
    bytes: usize,
}

/// Whom to tell what became of a record.
type Answer = oneshot::Sender<Result<(), LedgerError>>;

/// Something that is to be written.
#[derive(Debug)]
pub(super) enum PendingWrite {
    Record(Box<Record>, Answer),
    Forget(Box<str>),
}

/// What one write changes.
#[derive(Default)]
struct Staged {
    /// The entries as they will be; none for those that are forgotten.
    changed: BTreeMap<Box<str>, Option<(Arc<Entry>, String)>>,
    /// Those who wait for this write.
    answers: Vec<Answer>,
    forgotten: Vec<Box<str>>,
}

impl State {
    pub(super) fn entry(&self, uid: &str) -> Option<Arc<Entry>> {
        self.slots.get(uid).map(|slot| slot.entry.clone())
    }

    pub(super) fn entries(&self) -> Vec<(Box<str>, Arc<Entry>)> {
        self.slots.iter().map(|(uid, slot)| (uid.clone(), slot.entry.clone())).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn insert(&mut self, uid: &str, entry: Arc<Entry>, bytes: usize) {
        self.slots.insert(uid.into(), Slot { entry, bytes });
    }

    pub(super) fn remove(&mut self, uid: &str) -> Option<Arc<Entry>> {
        self.slots.remove(uid).map(|slot| slot.entry)
    }

    pub(super) fn set_version(&mut self, version: Option<String>) {
        self.version = version;
    }

    /// How long the values and keys of `data` would be, after `changed`.
    fn bytes_after(&self, changed: &BTreeMap<Box<str>, Option<(Arc<Entry>, String)>>, header: &str) -> usize {
        let kept = self.slots.iter().filter(|(uid, _)| !changed.contains_key(*uid));
        let kept: usize = kept.map(|(uid, slot)| uid.len() + slot.bytes).sum();
        let written = changed.iter().filter_map(|(uid, next)| Some(uid.len() + next.as_ref()?.1.len()));
        HEADER.len() + header.len() + kept + written.sum::<usize>()
    }

    /// Works out what `asks` change, one after the other. Those that change nothing are answered.
    fn stage(&self, asks: Vec<PendingWrite>, now: Timestamp, header: &str) -> Staged {
        let mut next: BTreeMap<Box<str>, Option<Arc<Entry>>> = BTreeMap::new();
        let mut staged = Staged::default();
        for ask in asks {
            let (record, answer) = match ask {
                PendingWrite::Record(record, answer) => (record, answer),
                PendingWrite::Forget(uid) => {
                    next.insert(uid.clone(), None);
                    staged.forgotten.push(uid);
                    continue;
                }
            };
            let current = next.get(record.uid.as_str()).cloned().unwrap_or_else(|| self.entry(&record.uid));
            match Entry::after(current.as_deref(), &record, now) {
                Ok(Some(entry)) => {
                    // What was counted under another kind of source is kept apart, until somebody took it.
                    if let Some(former) = current.filter(|former| former.source_kind != entry.source_kind) {
                        let key = former_key(&record.uid, former.began);
                        next.insert(key.into(), Some(former));
                    }
                    next.insert(record.uid.into(), Some(Arc::new(entry)));
                    staged.answers.push(answer);
                }
                // It is on the server already, or becomes so with what this write changes.
                Ok(None) => staged.answers.push(answer),
                Err(reason) => {
                    let (namespace, name) = (record.namespace, record.name);
                    let refused = LedgerError::Refused { namespace, name, reason: Box::new(reason) };
                    // Whoever does not wait any more does not want to know.
                    let _ = answer.send(Err(refused));
                }
            }
        }
        let texts = |entry: Arc<Entry>| {
            let text = entry_text(&entry);
            (entry, text)
        };
        staged.changed = next.into_iter().map(|(uid, entry)| (uid, entry.map(texts))).collect();
        if self.bytes_after(&staged.changed, header) > THRIFTY {
            for (entry, text) in staged.changed.values_mut().flatten() {
                let coarse = Arc::make_mut(entry);
                coarse.histograms.iter_mut().for_each(|(_, histogram)| histogram.shrink(THRIFTY_BUCKETS));
                *text = entry_text(coarse);
            }
        }
        staged
    }

    /// Takes over what was written.
    fn commit(&mut self, changed: BTreeMap<Box<str>, Option<(Arc<Entry>, String)>>, version: String) {
        self.version = Some(version);
        for (uid, next) in changed {
            match next {
                Some((entry, text)) => {
                    self.slots.insert(uid, Slot { entry, bytes: text.len() });
                }
                None => {
                    self.slots.remove(&uid);
                }
            }
        }
    }
}

impl Inner {
    /// Queues `ask`, and sees to it that somebody writes.
    pub(super) fn ask(self: &Arc<Self>, number: u8, ask: PendingWrite) {
        let mut state = self.shards[usize::from(number)].lock();
        state.queue.push(ask);
        if !mem::replace(&mut state.is_written, true) {
            tokio::spawn(self.clone().write_all(number));
        }
    }

    /// Writes what is queued for a shard until nothing is.
    async fn write_all(self: Arc<Self>, number: u8) {
        let shard = &self.shards[usize::from(number)];
        tokio::time::sleep(self.config.gather).await;
        loop {
            // Never closed. What is asked for while others write is written with the rest.
            let _turn = self.writes.acquire().await;
            let asks = {
                let mut state = shard.lock();
                if state.queue.is_empty() {
                    state.is_written = false;
                    return;
                }
                mem::take(&mut state.queue)
            };
            if let Some(forgotten) = self.write_once(number, asks).await {
                // Left for the next write; sooner it would fail as this one did.
                let mut state = shard.lock();
                let only = state.queue.is_empty();
                state.queue.extend(forgotten.into_iter().map(PendingWrite::Forget));
                if only {
                    state.is_written = false;
                    return;
                }
            }
        }
    }

    /// Writes `asks` together and answers them. What was to be forgotten comes back when it is not.
    async fn write_once(self: &Arc<Self>, number: u8, asks: Vec<PendingWrite>) -> Option<Vec<Box<str>>> {
        let header = self.header();
        let text = header.text();
        let (staged, version, bytes) = {
            let state = self.shards[usize::from(number)].lock();
            let staged = state.stage(asks, self.config.clock.now(), &text);
            let bytes = state.bytes_after(&staged.changed, &text);
            (staged, state.version.clone(), bytes)
        };
        let Staged { changed, answers, forgotten } = staged;
        let outcome = if let Some(lost) = self.why_lost() {
            Err(lost)
        } else if changed.is_empty() {
            Ok(None)
        } else if bytes > LIMIT {
            Err(LedgerError::Full { config_map: self.full_name(number), bytes, limit: LIMIT })
        } else {
            let values =
                changed.iter().map(|(uid, next)| (&**uid, next.as_ref().map(|(_, text)| text.as_str())));
            self.write(number, version.as_deref(), &header, values.collect()).await.map(Some)
        };
        let answer = match outcome {
            Ok(version) => {
                if let Some(version) = version {
                    let former: Vec<_> = changed.keys().filter(|key| is_former(key)).cloned().collect();
                    self.shards[usize::from(number)].lock().commit(changed, version);
                    for key in &former {
                        self.retire(key);
                    }
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        let kept =
            (answer.is_err() && self.lost.borrow().is_none() && !forgotten.is_empty()).then_some(forgotten);
        for waiting in answers {
            let _ = waiting.send(answer.clone());
        }
        kept
    }
}
