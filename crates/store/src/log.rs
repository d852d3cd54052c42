//! The bounded log of events that feeds watches.
//!
//! One log for all watchers: a watcher holds a position, not a copy. Each kind has a ring of its own, so that a
//! burst of writes to one kind costs the watchers of another nothing; when the joint bounds are passed, the
//! largest ring loses its oldest event, with the next write or the next look of a watcher.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::{Event, EventKind, Range, StoreError, StoreOptions};

/// What an event costs beside its values: its allocations, keys and its place in the ring.
const EVENT_OVERHEAD: usize = 256;
/// How many times the bounds the log may be large while its events are young.
const IN_GRACE: usize = 8;
/// How many times the room that a ring's events take it may have.
const SPARE: usize = 4;
/// How many events a watcher takes from the log at once.
const READ_AHEAD: usize = 64;
/// How many events of its kind a watcher looks through while it holds the log's lock.
const SCAN: usize = 4096;

pub(super) struct Log {
    state: Mutex<State>,
}

struct State {
    options: StoreOptions,
    /// All events up to here were published.
    published: u64,
    /// The revision at which the store was opened: nothing before is known.
    opened: u64,
    events: usize,
    bytes: usize,
    rings: HashMap<Box<str>, Ring>,
}

struct Ring {
    /// By revision, each with when it was published.
    events: VecDeque<(Instant, Arc<Event>)>,
    bytes: usize,
    /// Events of this kind up to this revision are no longer kept.
    floor: u64,
    news: watch::Sender<()>,
}

impl Log {
    pub(super) fn new(opened: u64, options: &StoreOptions) -> Self {
        let options = options.clone();
        let state = State { options, published: opened, opened, events: 0, bytes: 0, rings: HashMap::new() };
        Self { state: Mutex::new(state) }
    }

    /// The revision up to which events were published.
    pub(super) fn published(&self) -> u64 {
        self.lock().published
    }

    /// Appends durable events, which follow on those published before, and wakes the watchers of their kinds.
    pub(super) fn publish<'a>(&self, events: impl IntoIterator<Item = &'a Arc<Event>>) {
        let mut state = self.lock();
        let mut touched: Vec<watch::Sender<()>> = Vec::new();
        let now = Instant::now();
        for event in events {
            let cost = cost(event);
            state.published = event.revision;
            state.events += 1;
            state.bytes += cost;
            let ring = state.ring(event.object.key.kind());
            ring.bytes += cost;
            ring.events.push_back((now, event.clone()));
            if !touched.iter().any(|sender| sender.same_channel(&ring.news)) {
                touched.push(ring.news.clone());
            }
        }
        state.trim(now);
        drop(state);
        for sender in touched {
            sender.send_replace(());
        }
    }

    /// A watch of the events after `from`, which is not of the future.
    pub(super) fn watch(self: &Arc<Self>, range: &Range, from: u64) -> Result<WatchStream, StoreError> {
        let mut state = self.lock();
        state.trim(Instant::now());
        let current = state.published;
        let from = if from == 0 { current } else { from };
        let ring = state.ring(range.kind());
        if from < ring.floor {
            return Err(StoreError::Expired { requested: from, current });
        }
        let news = ring.news.subscribe();
        drop(state);
        Ok(WatchStream {
            log: self.clone(),
            range: range.clone(),
            news,
            ready: VecDeque::new(),
            read: from,
            returned: from,
        })
    }

    /// Forgets all events: what led to `revision` is not known. Watches that have not seen it expire.
    pub(super) fn reset(&self, revision: u64) {
        let mut state = self.lock();
        state.published = revision;
        state.opened = revision;
        state.events = 0;
        state.bytes = 0;
        for ring in state.rings.values_mut() {
            ring.events.clear();
            ring.bytes = 0;
            ring.floor = revision;
            ring.news.send_replace(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics between two related changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn ring(&mut self, kind: &str) -> &mut Ring {
        let opened = self.opened;
        // `entry` takes an owned name: one small copy an event, and no second look-up.
        self.rings.entry(kind.into()).or_insert_with(|| Ring {
            events: VecDeque::new(),
            bytes: 0,
            floor: opened,
            news: watch::Sender::new(()),
        })
    }

    /// Forgets what there is no room for. Those that keep up have read what is older than the grace; whatever happens, there is
    /// a bound.
    fn trim(&mut self, now: Instant) {
        let StoreOptions { log_events, log_bytes, log_grace, .. } = self.options;
        while self.events > log_events || self.bytes > log_bytes {
            let is_far_over = self.events / IN_GRACE > log_events || self.bytes / IN_GRACE > log_bytes;
            let largest = self.rings.values_mut().max_by_key(|ring| ring.bytes);
            let may_go = |at: &Instant| is_far_over || now.duration_since(*at) >= log_grace;
            let Some((ring, (_, event))) = largest
                .and_then(|ring| ring.events.pop_front_if(|(at, _)| may_go(at)).map(|event| (ring, event)))
            else {
                return;
            };
            let cost = cost(&event);
            ring.floor = event.revision;
            ring.bytes -= cost;
            self.bytes -= cost;
            self.events -= 1;
            if ring.events.len() * SPARE < ring.events.capacity() {
                ring.events.shrink_to_fit();
            }
        }
    }
}

/// The events of a range, in the order of revisions. Holds a position in the shared log, not a queue of its own.
pub struct WatchStream {
    log: Arc<Log>,
    range: Range,
    news: watch::Receiver<()>,
    /// Events that were read from the log and not returned yet.
    ready: VecDeque<Arc<Event>>,
    /// The log was read up to here.
    read: u64,
    /// Events up to here were returned.
    returned: u64,
}

impl WatchStream {
    /// The next event, once there is one. Dropping the future loses nothing.
    ///
    /// [`StoreError::Expired`] when this watch has fallen behind what the log keeps, and from then on.
    pub async fn next(&mut self) -> Result<Arc<Event>, StoreError> {
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            self.news.changed().await.map_err(|_| StoreError::Closed)?;
        }
    }

    /// The next event if there is one now.
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, StoreError> {
        if self.ready.is_empty() {
            self.read_ahead()?;
        }
        let event = self.ready.pop_front();
        if let Some(event) = &event {
            self.returned = event.revision;
        }
        Ok(event)
    }

    /// The revision up to which this watch has returned every event of its range: what a bookmark says.
    pub fn position(&mut self) -> Result<u64, StoreError> {
        if self.ready.is_empty() {
            self.read_ahead()?;
            if self.ready.is_empty() {
                self.returned = self.read;
            }
        }
        Ok(self.returned)
    }

    fn read_ahead(&mut self) -> Result<(), StoreError> {
        loop {
            // Seen before the log is read, so that what is published after it wakes `next`.
            self.news.mark_unchanged();
            let mut state = self.log.lock();
            state.trim(Instant::now());
            let published = state.published;
            let ring = state.ring(self.range.kind());
            if self.read < ring.floor {
                return Err(StoreError::Expired { requested: self.read, current: published });
            }
            let start = ring.events.partition_point(|(_, event)| event.revision <= self.read);
            let end = ring.events.len().min(start + SCAN);
            for (_, event) in ring.events.range(start..end) {
                self.read = event.revision;
                if self.range.contains(&event.object.key) {
                    self.ready.push_back(event.clone());
                    if self.ready.len() == READ_AHEAD {
                        return Ok(());
                    }
                }
            }
            if end == ring.events.len() {
                // `from` may be ahead of what is published: a reader sees a commit before watchers do.
                self.read = self.read.max(published);
                return Ok(());
            }
            if !self.ready.is_empty() {
                return Ok(());
            }
        }
    }
}

/// What an event takes: its values, and the first of them once more as watchers are told of it.
fn cost(event: &Event) -> usize {
    let previous = match (&event.kind, &event.previous) {
        // A deleted object shares the value of its previous state.
        (EventKind::Deleted, _) | (_, None) => 0,
        (_, Some(previous)) => previous.value.len(),
    };
    EVENT_OVERHEAD + 2 * event.object.value.len() + previous
}
