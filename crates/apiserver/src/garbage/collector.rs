//! The task that follows every kind and has done what is to be done.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use futures::future::{pending, select_all};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::cleaning::PARALLEL;
use super::graph::Graph;
use super::item::{self, Item, Visit};
use super::{definitions, namespaces};
use crate::catalog::Snapshot;
use crate::failure::Result;
use crate::kinds::{Builtin, Kind};
use crate::meta::Meta;
use crate::state::Inner;
use windlass_apimachinery::document::Document;
use windlass_store::{Event, EventKind, Key, Object, Page, Range, StoreError, WatchStream};

/// How long after a failure an object is looked at again.
const LOOK_AGAIN: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(50))
    .with_max_delay(Duration::from_mins(1))
    .without_max_times();
/// How long after a failure what goes before an object is removed again.
const REMOVE_AGAIN: ExponentialBuilder = LOOK_AGAIN.with_min_delay(Duration::from_secs(1));
/// How long after a failure kinds are read again.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// How many objects are read at a time when a kind is looked through.
const PAGE: usize = 500;
/// How often all kinds are read before what was seen counts as complete.
const PASSES: usize = 8;

/// Starts the task. It ends with the server.
pub(crate) fn spawn(inner: &Arc<Inner>) {
    let collector = Collector {
        inner: Arc::downgrade(inner),
        stop: inner.stop.clone(),
        changes: inner.catalog.changes(),
        graph: Graph::default(),
        kinds: BTreeMap::new(),
        followed: None,
        queue: Queue::default(),
        unresolved: HashSet::new(),
        retry: None,
        running: JoinSet::new(),
    };
    inner.spawn(collector.run());
}

struct Collector {
    inner: Weak<Inner>,
    stop: CancellationToken,
    /// Told when other kinds are served.
    changes: watch::Receiver<()>,
    graph: Graph,
    /// The events of each kind, by group and plural.
    kinds: BTreeMap<(String, String), WatchStream>,
    /// What was served when each kind of it was followed; nothing while one is not.
    followed: Option<Arc<Snapshot>>,
    queue: Queue,
    /// Objects with an owner of a kind that is not served.
    unresolved: HashSet<String>,
    /// When kinds that could not be read are tried again.
    retry: Option<Instant>,
    running: JoinSet<(String, Result<Visit>)>,
}

/// What is to be looked at, each object once at a time.
#[derive(Default)]
struct Queue {
    ready: VecDeque<String>,
    waiting: HashSet<String>,
    running: HashSet<String>,
    later: BTreeMap<Instant, Vec<String>>,
    /// The delays to come of each object that failed the last time.
    failures: HashMap<String, <ExponentialBuilder as BackoffBuilder>::Backoff>,
}

impl Queue {
    fn push(&mut self, uid: String) {
        if self.waiting.insert(uid.clone()) {
            self.ready.push_back(uid);
        }
    }

    /// The next that is not being worked on.
    fn pop(&mut self) -> Option<String> {
        for _ in 0..self.ready.len() {
            let uid = self.ready.pop_front()?;
            if !self.running.contains(&uid) {
                self.waiting.remove(&uid);
                self.running.insert(uid.clone());
                return Some(uid);
            }
            self.ready.push_back(uid);
        }
        None
    }

    fn failed(&mut self, uid: String) {
        let delays = self.failures.entry(uid.clone()).or_insert_with(|| LOOK_AGAIN.build());
        let delay = delays.next().unwrap_or_default();
        self.later.entry(Instant::now() + delay).or_default().push(uid);
    }

    /// Moves those to the front whose time has come.
    fn wake(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.later.first_entry().filter(|entry| *entry.key() <= now) {
            for uid in entry.remove() {
                self.push(uid);
            }
        }
    }
}

impl Collector {
    async fn run(mut self) {
        loop {
            self.drain().await;
            self.dispatch();
            let next_retry = self.queue.later.keys().next().copied().into_iter().chain(self.retry).min();
            tokio::select! {
                () = self.stop.cancelled() => break,
                Ok(()) = self.changes.changed() => {
                    for uid in std::mem::take(&mut self.unresolved) {
                        self.queue.push(uid);
                    }
                }
                (kind, event) = next_event(&mut self.kinds) => self.saw(kind, event),
                () = sleep_until(next_retry.unwrap_or_else(Instant::now)), if next_retry.is_some() => {
                    self.queue.wake();
                }
                Some(ended) = self.running.join_next() => {
                    if let Ok((uid, result)) = ended {
                        self.done(uid, result);
                    }
                }
            }
        }
        // Until they have let go of the store.
        self.running.shutdown().await;
    }

    /// Follows the kinds that are served now, and no others. A kind that is new is looked through.
    async fn follow_kinds(&mut self) -> Result<()> {
        let Some(inner) = self.inner.upgrade() else { return Ok(()) };
        let registry = inner.catalog.current();
        if self.followed.as_ref().is_some_and(|followed| Arc::ptr_eq(followed, &registry)) {
            return Ok(());
        }
        let served: BTreeMap<(String, String), &Arc<Kind>> = registry
            .kinds
            .iter()
            // As on a real server: there are many events, and they go by themselves.
            .filter(|kind| kind.builtin != Some(Builtin::Event))
            .map(|kind| ((kind.group.clone(), kind.plural.clone()), kind))
            .collect();
        self.kinds.retain(|kind, _| served.contains_key(kind));
        for (name, kind) in served {
            if !self.kinds.contains_key(&name) {
                let stream = self.look_through(&inner, kind).await?;
                self.kinds.insert(name, stream);
            }
        }
        self.followed = Some(registry);
        Ok(())
    }

    /// Reads all objects of a kind. Returns the events that follow.
    async fn look_through(&mut self, inner: &Arc<Inner>, kind: &Kind) -> Result<WatchStream> {
        let range = Range::new(&kind.group, &kind.plural, None)?;
        let mut gone: HashSet<String> = self.graph.of_kind(&kind.group, &kind.plural).into_iter().collect();
        // Opened first: what changes while this reads is seen again.
        let stream = inner.store.watch(&range, inner.store.revision())?;
        let mut page = Page { limit: PAGE, ..Page::default() };
        loop {
            let found = inner.store.list(&range, page).await?;
            for object in &found.objects {
                if !concerns_us(object) {
                    continue;
                }
                let meta = Meta::of(object);
                gone.remove(&meta.uid);
                self.put(object, &meta);
            }
            match found.objects.last() {
                Some(last) if found.more => {
                    page = Page { limit: PAGE, after: Some(last.key.clone()), ..Page::default() };
                }
                _ => break,
            }
        }
        for uid in gone {
            self.removed(&uid);
        }
        Ok(stream)
    }

    fn put(&mut self, object: &Object, meta: &Meta) {
        for uid in self.graph.put(&object.key, meta) {
            self.queue.push(uid);
        }
        let key = &object.key;
        let is_due = match (key.group(), key.resource()) {
            ("", "namespaces") => meta.deletion_timestamp.is_some(),
            ("apiextensions.k8s.io", "customresourcedefinitions") => definitions::is_due(meta),
            _ => false,
        };
        // Once at a time.
        if is_due
            && let Some(inner) = self.inner.upgrade()
            && inner.cleaning.lock().unwrap_or_else(PoisonError::into_inner).insert(meta.uid.clone())
        {
            inner.spawn(clean(self.inner.clone(), key.clone(), meta.uid.clone()));
        }
    }

    fn removed(&mut self, uid: &str) {
        for uid in self.graph.remove(uid) {
            self.queue.push(uid);
        }
        self.unresolved.remove(uid);
    }

    fn apply(&mut self, event: &Event) {
        if event.kind == EventKind::Deleted {
            let meta = Meta::of(event.previous.as_ref().unwrap_or(&event.object));
            return self.removed(&meta.uid);
        }
        let before = event.previous.as_ref();
        // An object that was made again under its name: the one before is gone.
        if concerns_us(&event.object) || before.is_some_and(concerns_us) {
            let meta = Meta::of(&event.object);
            self.put(&event.object, &meta);
        }
    }

    fn saw(&mut self, kind: (String, String), event: Result<Arc<Event>, StoreError>) {
        match event {
            Ok(event) => self.apply(&event),
            // We fell behind, or the store was opened again: the kind is looked through anew.
            Err(error) => {
                debug!(%error, resource = kind.1, "lost the events of a kind");
                self.kinds.remove(&kind);
                self.followed = None;
            }
        }
    }

    /// Takes in every event that is there, so that what is decided next is decided on all that was written before.
    async fn drain(&mut self) {
        for _ in 0..PASSES {
            self.retry = None;
            if let Err(error) = self.follow_kinds().await {
                warn!(?error, "failed to look through what is stored for objects without owners");
                self.retry = Some(Instant::now() + READ_AGAIN);
            }
            let mut seen = Vec::new();
            for (kind, stream) in &mut self.kinds {
                while let Some(event) = stream.try_next().transpose() {
                    let is_lost = event.is_err();
                    seen.push((kind.clone(), event));
                    if is_lost {
                        break;
                    }
                }
            }
            if seen.is_empty() {
                return;
            }
            for (kind, event) in seen {
                self.saw(kind, event);
            }
        }
    }

    /// Starts work on what is waiting, as much as may run at a time.
    fn dispatch(&mut self) {
        while self.running.len() < PARALLEL {
            let Some(uid) = self.queue.pop() else { return };
            let Some(node) = self.graph.node(&uid).cloned() else {
                self.queue.running.remove(&uid);
                self.queue.failures.remove(&uid);
                continue;
            };
            let item = Item { dependants: self.graph.dependants(&uid), node, uid: uid.clone() };
            let inner = self.inner.clone();
            self.running.spawn(async move {
                let result = match inner.upgrade() {
                    Some(inner) => item::look_at(&inner, item).await,
                    None => Ok(Visit::Done),
                };
                (uid, result)
            });
        }
    }

    fn done(&mut self, uid: String, result: Result<Visit>) {
        self.queue.running.remove(&uid);
        match result {
            Ok(outcome) => {
                self.queue.failures.remove(&uid);
                match outcome {
                    Visit::Done => {}
                    Visit::Again => self.queue.push(uid),
                    Visit::LookAt(uids) => uids.into_iter().for_each(|uid| self.queue.push(uid)),
                    Visit::Unresolved => {
                        self.unresolved.insert(uid);
                    }
                }
            }
            Err(failure) => {
                warn!(uid, ?failure, "failed to look after an object whose owner has changed");
                self.queue.failed(uid);
            }
        }
    }
}

/// Removes what goes before an object that is being deleted, tried again and again until it succeeds.
async fn clean(inner: Weak<Inner>, key: Key, uid: String) {
    let (resource, name) = (key.resource(), key.name());
    for wait in REMOVE_AGAIN.build() {
        let removed = match resource {
            "namespaces" => namespaces::remove(&inner, &key, &uid).await,
            _ => definitions::remove(&inner, &key, &uid).await,
        };
        let Some(strong) = inner.upgrade() else { return };
        let Err(failure) = removed else {
            strong.cleaning.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
            info!(resource, name, "removed what goes before an object that is being deleted");
            return;
        };
        warn!(resource, name, ?failure, "failed to remove what goes before an object; trying again");
        let stop = strong.stop.clone();
        drop(strong);
        if stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
            return;
        }
    }
}

/// Whether the object has owners, or is being deleted: a quick look at its bytes, with false alarms.
fn concerns_us(object: &Object) -> bool {
    let metadata = Document::new(&object.value).own_metadata();
    let has = |name: &[u8]| metadata.windows(name.len()).any(|window| window == name);
    has(b"\"ownerReferences\"") || has(b"\"deletionTimestamp\"")
}

/// The next event of any kind.
async fn next_event(
    kinds: &mut BTreeMap<(String, String), WatchStream>,
) -> ((String, String), Result<Arc<Event>, StoreError>) {
    let waiting: Vec<_> = kinds
        .iter_mut()
        .map(|(kind, stream)| Box::pin(async move { (kind.clone(), stream.next().await) }))
        .collect();
    if waiting.is_empty() {
        return pending().await;
    }
    select_all(waiting).await.0
}
