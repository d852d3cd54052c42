//! An index of the objects of a kind, in memory: which of them have which terms. What a term is, a function says that reads
//! values; this knows strings.
//!
//! It follows committed events, and is asked for a state that it may have left behind: what has changed since then is a
//! candidate as well, and whoever asks looks at each candidate in that state. So it never differs from a scan.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Event, EventKind, Key, Object, Page, Range, Store, StoreError, WatchStream};

/// The terms of an object.
pub type Terms = Arc<dyn Fn(&Object) -> Vec<String> + Send + Sync>;

/// How many bytes of objects are read at once while an index is built.
const AT_ONCE: usize = 1 << 20;
/// How many of the latest changes are remembered, for states of the past.
const RECENT: usize = 8192;
/// How many changes may come while an index is built.
const MEANWHILE: usize = 65_536;
/// How long the events of a state are waited for that was read before they were told.
const TOLD_WITHIN: Duration = Duration::from_millis(20);
/// What an entry costs beside its text, about.
const ENTRY: usize = 48;

/// Which objects of one kind have which terms.
pub struct Index {
    kind: Range,
    terms: Terms,
    state: Mutex<State>,
}

struct State {
    keys: HashMap<Box<str>, BTreeSet<Key>>,
    events: WatchStream,
    /// The latest changes, the oldest first.
    recent: VecDeque<(u64, Key)>,
    /// Every change after this revision is among them.
    recent_since: u64,
    bytes: usize,
    most_bytes: usize,
    /// It was left behind, or has grown too large: it answers nothing any more.
    is_over: bool,
}

impl Index {
    /// Reads every object of a kind; `kind` spans all namespaces. `None`: it would take more than so many bytes of memory,
    /// or more is written beside than can be followed.
    pub async fn build(
        store: &Arc<dyn Store>,
        kind: Range,
        terms: Terms,
        most_bytes: usize,
    ) -> Result<Option<Self>, StoreError> {
        let mut page = Page { bytes: AT_ONCE, ..Page::default() };
        let mut found = store.list(&kind, page.clone()).await?;
        let revision = found.revision;
        let events = store.watch(&kind, revision)?;
        let index = Self {
            kind,
            terms,
            state: Mutex::new(State {
                keys: HashMap::new(),
                events,
                recent: VecDeque::new(),
                recent_since: revision,
                bytes: 0,
                most_bytes,
                is_over: false,
            }),
        };
        let mut meanwhile = Vec::new();
        loop {
            {
                let mut state = index.lock();
                for object in &found.objects {
                    for term in (index.terms)(object) {
                        state.insert(term, &object.key);
                    }
                }
                while let Some(event) = state.events.try_next()? {
                    meanwhile.push(event);
                }
                if state.bytes > most_bytes || meanwhile.len() > MEANWHILE {
                    return Ok(None);
                }
            }
            let Some(last) = found.objects.last().filter(|_| found.more) else { break };
            page.after = Some(last.key.clone());
            page.state = found.state.take();
            found = store.list(&index.kind, page.clone()).await?;
        }
        {
            let mut state = index.lock();
            for event in meanwhile {
                index.apply(&mut state, &event);
            }
        }
        Ok(Some(index))
    }

    /// Takes in what has happened. False: it answers nothing any more, and another one has to be built.
    pub fn follow(&self) -> bool {
        self.catch_up(&mut self.lock())
    }

    /// About how much memory it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn catch_up(&self, state: &mut State) -> bool {
        while !state.is_over {
            match state.events.try_next() {
                Ok(Some(event)) => self.apply(state, &event),
                Ok(None) => break,
                Err(_) => state.is_over = true,
            }
        }
        if state.is_over {
            state.keys = HashMap::new();
            state.recent = VecDeque::new();
        }
        !state.is_over
    }

    fn apply(&self, state: &mut State, event: &Event) {
        let key = &event.object.key;
        let before = event.previous.as_ref().map(|object| (self.terms)(object)).unwrap_or_default();
        let now = if event.kind == EventKind::Deleted { Vec::new() } else { (self.terms)(&event.object) };
        for term in before.iter().filter(|term| !now.contains(term)) {
            state.remove(term, key);
        }
        for term in now {
            if !before.contains(&term) {
                state.insert(term, key);
            }
        }
        state.recent.push_back((event.revision, key.clone()));
        if state.recent.len() > RECENT
            && let Some((revision, _)) = state.recent.pop_front()
        {
            state.recent_since = revision;
        }
        state.is_over |= state.bytes > state.most_bytes;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, term: String, key: &Key) {
        let size = ENTRY + key.as_str().len();
        if let Some(keys) = self.keys.get_mut(term.as_str()) {
            if keys.insert(key.clone()) {
                self.bytes += size;
            }
        } else {
            self.bytes += size + ENTRY + term.len();
            self.keys.insert(term.into(), BTreeSet::from([key.clone()]));
        }
    }

    fn remove(&mut self, term: &str, key: &Key) {
        let Some(keys) = self.keys.get_mut(term) else { return };
        if keys.remove(key) {
            self.bytes = self.bytes.saturating_sub(ENTRY + key.as_str().len());
        }
        if keys.is_empty() {
            self.bytes = self.bytes.saturating_sub(ENTRY + term.len());
            self.keys.remove(term);
        }
    }

    fn count(&self, any_of: &[String]) -> usize {
        any_of.iter().filter_map(|term| self.keys.get(term.as_str())).map(BTreeSet::len).sum()
    }
}

/// What a list looks for in an index: of each group of terms, an object has at least one.
#[derive(Clone)]
pub struct Lookup {
    index: Arc<Index>,
    groups: Arc<[Vec<String>]>,
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookup").field("groups", &self.groups).finish_non_exhaustive()
    }
}

impl Lookup {
    /// A look-up of objects that have at least one term of each group; `None` without a group.
    pub fn new(index: Arc<Index>, groups: Vec<Vec<String>>) -> Option<Self> {
        (!groups.is_empty()).then(|| Self { index, groups: groups.into() })
    }

    /// The next `most` keys of the range after one, of which each object is that has the terms in the state of this
    /// revision, and perhaps others. `None`: the index cannot say.
    pub(super) fn next(
        &self,
        revision: u64,
        range: &Range,
        after: Option<&Key>,
        most: usize,
    ) -> Option<Vec<Key>> {
        if range.kind() != self.index.kind.kind() {
            return None;
        }
        let mut state = self.index.lock();
        let until = Instant::now() + TOLD_WITHIN;
        loop {
            if !self.index.catch_up(&mut state) {
                return None;
            }
            if state.events.position().ok()? >= revision {
                break;
            }
            if Instant::now() > until {
                return None;
            }
            // Readers see a commit just before watchers do.
            std::thread::yield_now();
        }
        if revision < state.recent_since {
            return None;
        }
        let start = match after {
            Some(after) if after.as_str() >= range.prefix() => Bound::Excluded(after.clone()),
            _ => Bound::Included(Key::first_of(range)),
        };
        let group = self.groups.iter().min_by_key(|group| state.count(group))?;
        let mut found = BTreeSet::new();
        for keys in group.iter().filter_map(|term| state.keys.get(term.as_str())) {
            let keys = keys.range((start.clone(), Bound::Unbounded));
            found.extend(keys.take_while(|key| range.contains(key)).take(most).cloned());
        }
        let changed = state.recent.iter().rev().take_while(|(changed, _)| *changed > revision);
        let is_after = |key: &Key| after.is_none_or(|after| key > after);
        found.extend(changed.map(|(_, key)| key).filter(|key| range.contains(key) && is_after(key)).cloned());
        Some(found.into_iter().take(most).collect())
    }
}
