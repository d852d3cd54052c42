//! Reconciling key by key: a queue without duplicates, and the loop that works it off.

mod term;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::term::{TermQueue, TermWork};
use crate::supervisor::panic_message;
use crate::{Backoff, BackoffPolicy};

/// Room that is kept for keys while none is waiting.
const ROOM: usize = 64;

/// When a key that was worked on is due again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Not until it is added again. Its back-off starts over.
    No,
    /// After this time. Its back-off starts over.
    After(Duration),
    /// After a back-off that grows with each time in a row: it failed.
    Backoff,
}

/// Keys that wait to be worked on, each at most once, and never by two workers at a time.
///
/// A key that is added while it is worked on is worked on once more afterwards. Adding a key makes it due now,
/// whatever it was delayed or backed off for: somebody changed it.
pub struct KeyedQueue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Notify,
    policy: BackoffPolicy,
}

struct State<T> {
    ready: VecDeque<T>,
    /// The keys in it, and since when each is due.
    queued: HashMap<T, Instant>,
    /// Ordered by when they are due; the number keeps keys of one instant apart.
    delayed: BTreeMap<(Instant, u64), T>,
    due: HashMap<T, (Instant, u64)>,
    running: HashMap<T, Running>,
    failures: HashMap<T, Backoff>,
    next_number: u64,
}

/// A key that is worked on.
struct Running {
    /// Since when it was due, and how long it then waited.
    due: Instant,
    waited: Duration,
    /// When it was added meanwhile, if it was.
    again: Option<Instant>,
}

impl<T> Clone for KeyedQueue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T: Clone + Eq + Hash> KeyedQueue<T> {
    /// An empty queue whose failures back off by `policy`, each key by itself.
    pub fn new(policy: BackoffPolicy) -> Self {
        let state = State {
            ready: VecDeque::new(),
            queued: HashMap::new(),
            delayed: BTreeMap::new(),
            due: HashMap::new(),
            running: HashMap::new(),
            failures: HashMap::new(),
            next_number: 0,
        };
        Self { shared: Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), policy }) }
    }

    /// Makes a key due now.
    pub fn add(&self, key: T) {
        self.lock().add(key);
        self.shared.changed.notify_one();
    }

    /// Makes a key due after `delay`, or when it is due already if that is sooner.
    pub fn add_after(&self, key: T, delay: Duration) {
        self.lock().add_after(key, delay);
        self.shared.changed.notify_one();
    }

    /// Drops what is waiting for a key, and its back-off; the object is gone.
    pub fn forget(&self, key: &T) {
        let mut state = self.lock();
        state.failures.remove(key);
        state.undelay(key);
        if state.queued.remove(key).is_some() {
            state.ready.retain(|queued| queued != key);
        }
    }

    /// How many keys are due and not yet worked on.
    pub fn waiting(&self) -> usize {
        let mut state = self.lock();
        state.promote(Instant::now());
        state.ready.len()
    }

    /// How long ago the key became due that is not done with for the longest time: it waits, or is worked on.
    pub fn lag(&self) -> Duration {
        let mut state = self.lock();
        state.promote(Instant::now());
        let waiting = state.ready.front().and_then(|key| state.queued.get(key).copied());
        let running = state.running.values().map(|running| running.due);
        running.chain(waiting).min().map_or(Duration::ZERO, |due| due.elapsed())
    }

    /// How long a key that is worked on was due before.
    pub fn waited(&self, key: &T) -> Duration {
        self.lock().running.get(key).map_or(Duration::ZERO, |running| running.waited)
    }

    /// The next due key; it belongs to the caller until [`KeyedQueue::finish`].
    async fn next(&self) -> T {
        loop {
            let due = {
                let mut state = self.lock();
                state.promote(Instant::now());
                if let Some(key) = state.take() {
                    if !state.ready.is_empty() || !state.delayed.is_empty() {
                        // One wake-up is one permit: pass it on, so that another worker takes up the rest,
                        // or the wait for what is due next.
                        self.shared.changed.notify_one();
                    }
                    return key;
                }
                state.delayed.first_key_value().map(|((due, _), _)| *due)
            };
            match due {
                Some(due) => {
                    let _ = tokio::time::timeout_at(due, self.shared.changed.notified()).await;
                }
                None => self.shared.changed.notified().await,
            }
        }
    }

    fn finish(&self, key: T, requeue: Requeue) {
        let mut state = self.lock();
        let added_meanwhile = state.running.remove(&key).and_then(|running| running.again);
        let delay = match requeue {
            Requeue::No => None,
            Requeue::After(delay) => Some(delay),
            Requeue::Backoff => {
                let backoff = state.failures.entry(key.clone());
                Some(backoff.or_insert_with(|| Backoff::new(self.shared.policy)).delay())
            }
        };
        if requeue != Requeue::Backoff {
            state.failures.remove(&key);
        }
        if let Some(since) = added_meanwhile {
            state.add_since(key, since);
        } else if let Some(delay) = delay {
            state.add_after(key, delay);
        }
        drop(state);
        self.shared.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for KeyedQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        f.debug_struct("KeyedQueue")
            .field("ready", &state.ready.len())
            .field("delayed", &state.delayed.len())
            .field("running", &state.running.len())
            .finish()
    }
}

impl<T: Clone + Eq + Hash> State<T> {
    fn add(&mut self, key: T) {
        self.add_since(key, Instant::now());
    }

    fn add_since(&mut self, key: T, due: Instant) {
        self.undelay(&key);
        if let Some(running) = self.running.get_mut(&key) {
            running.again.get_or_insert(due);
        } else if let Entry::Vacant(free) = self.queued.entry(key.clone()) {
            free.insert(due);
            self.ready.push_back(key);
        }
    }

    fn add_after(&mut self, key: T, delay: Duration) {
        // Beyond what an instant can hold is never.
        let Some(due) = Instant::now().checked_add(delay) else { return };
        let sooner = self.due.get(&key).is_some_and(|(other, _)| *other <= due);
        if sooner || self.queued.contains_key(&key) {
            return;
        }
        self.undelay(&key);
        self.next_number += 1;
        let slot = (due, self.next_number);
        self.due.insert(key.clone(), slot);
        self.delayed.insert(slot, key);
    }

    fn undelay(&mut self, key: &T) {
        if let Some(slot) = self.due.remove(key) {
            self.delayed.remove(&slot);
        }
        if self.due.is_empty() {
            self.due.shrink_to(ROOM);
        }
    }

    /// Queues what has become due.
    fn promote(&mut self, now: Instant) {
        while let Some(entry) = self.delayed.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ((due, _), key) = entry.remove_entry();
            self.add_since(key, due);
        }
    }

    fn take(&mut self) -> Option<T> {
        let key = self.ready.pop_front()?;
        let due = self.queued.remove(&key).unwrap_or_else(Instant::now);
        if self.ready.is_empty() {
            // After a first list there was room for every object there is.
            self.ready.shrink_to(ROOM);
            self.queued.shrink_to(ROOM);
        }
        self.running.insert(key.clone(), Running { due, waited: due.elapsed(), again: None });
        Some(key)
    }
}

/// Works a queue off, at most `workers` keys at a time, until `shutdown`; keys that are being worked on then are finished.
///
/// A panic in the work on one key is no end for the others: it is logged with the key, told to `on_panic` (to be
/// counted), and the key backs off. Dropping the future drops the work.
pub async fn run_keyed<T, F, W>(
    queue: KeyedQueue<T>,
    workers: usize,
    shutdown: CancellationToken,
    work: F,
    on_panic: impl Fn(&T) + Clone + Send + 'static,
) where
    T: Clone + Eq + Hash + fmt::Display + Send + 'static,
    F: Fn(T) -> W,
    W: Future<Output = Requeue> + Send + 'static,
{
    // A task a key, and not a worker: what is at rest takes no memory.
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(_ended) = running.join_next() => {}
            key = queue.next(), if running.len() < workers.max(1) => {
                let (queue, on_panic) = (queue.clone(), on_panic.clone());
                let work = AssertUnwindSafe(work(key.clone())).catch_unwind();
                running.spawn(async move {
                    let requeue = work.await.unwrap_or_else(|panic| {
                        let message = panic_message(&*panic);
                        tracing::error!(%key, panic = message, "a reconcile panicked; it is tried again after a back-off");
                        on_panic(&key);
                        Requeue::Backoff
                    });
                    queue.finish(key, requeue);
                });
            }
        }
    }
    while running.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests;
