//! The bounded log of events that feeds watches.
//!
//! One log for all watchers: a watcher holds a position, not a copy. Each kind has a ring of its own, so that a
//! burst of writes to one kind costs the watchers of another nothing; when the joint bounds are passed, the
//! largest ring loses its oldest event.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::{Event, EventKind, Range, StoreError, StoreOptions};

/// What an event costs beside its values: its allocations, keys and its place in the ring.
const EVENT_OVERHEAD: usize = 256;
/// How many times the bounds the log may be large while its events are young.
const IN_GRACE: usize = 8;
/// How many events a watcher takes from the log at once.
const READ_AHEAD: usize = 64;
/// How many events of its kind a watcher looks through while it holds the log's lock.
const SCAN: usize = 4096;

pub(super) struct Log {
    state: Mutex<State>,
    max_events: usize,
    max_bytes: usize,
    grace: Duration,
}

struct State {
    /// All events up to here were published.
    published: u64,
    /// The revision at which the store was opened: nothing before is known.
    opened: u64,
    events: usize,
    bytes: usize,
    rings: HashMap<Box<str>, Ring>,
}

struct Ring {
    /// By revision.
    events: VecDeque<Arc<Event>>,
    /// When each was published.
    times: VecDeque<Instant>,
    bytes: usize,
    /// Events of this kind up to this revision are no longer kept.
    floor: u64,
    news: watch::Sender<()>,
}

impl Log {
    pub(super) fn new(opened: u64, options: &StoreOptions) -> Self {
        let state = State { published: opened, opened, events: 0, bytes: 0, rings: HashMap::new() };
        Self {
            state: Mutex::new(state),
            max_events: options.log_events,
            max_bytes: options.log_bytes,
            grace: options.log_grace,
        }
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
            ring.events.push_back(event.clone());
            ring.times.push_back(now);
            if !touched.iter().any(|sender| sender.same_channel(&ring.news)) {
                touched.push(ring.news.clone());
            }
        }
        while state.events > self.max_events || state.bytes > self.max_bytes {
            // Those that keep up have read what is older. Whatever happens, there is a bound.
            let is_far_over =
                state.events / IN_GRACE > self.max_events || state.bytes / IN_GRACE > self.max_bytes;
            if !state.evict(|published| is_far_over || now.duration_since(published) >= self.grace) {
                break;
            }
        }
        drop(state);
        for sender in touched {
            sender.send_replace(());
        }
    }

    /// A watch of the events after `from`, which is not of the future.
    pub(super) fn watch(self: &Arc<Self>, range: &Range, from: u64) -> Result<WatchStream, StoreError> {
        let mut state = self.lock();
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
            ring.times.clear();
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
            times: VecDeque::new(),
            bytes: 0,
            floor: opened,
            news: watch::Sender::new(()),
        })
    }

    /// Drops the oldest event of the largest ring, if it may go that was published then.
    fn evict(&mut self, may_go: impl FnOnce(Instant) -> bool) -> bool {
        let Some(ring) = self.rings.values_mut().max_by_key(|ring| ring.bytes) else { return false };
        if !ring.times.front().is_some_and(|published| may_go(*published)) {
            return false;
        }
        ring.times.pop_front();
        let Some(event) = ring.events.pop_front() else { return false };
        let cost = cost(&event);
        ring.floor = event.revision;
        ring.bytes -= cost;
        self.bytes -= cost;
        self.events -= 1;
        true
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
            let published = state.published;
            let ring = state.ring(self.range.kind());
            if self.read < ring.floor {
                return Err(StoreError::Expired { requested: self.read, current: published });
            }
            let start = ring.events.partition_point(|event| event.revision <= self.read);
            let end = ring.events.len().min(start + SCAN);
            for event in ring.events.range(start..end) {
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

fn cost(event: &Event) -> usize {
    let previous = match (&event.kind, &event.previous) {
        // A deleted object shares the value of its previous state.
        (EventKind::Deleted, _) | (_, None) => 0,
        (_, Some(previous)) => previous.value.len(),
    };
    EVENT_OVERHEAD + event.object.value.len() + previous
}
