//! Which connections are looked at, and when.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_api::{Connection, Repository};
use windlass_auth::ApiClients;
use windlass_repository::Opener;
use windlass_runtime::{BackoffPolicy, Clock, Event, KeyedQueue, ObjectKey, Store, run_keyed};

use super::reconcile::reconcile;
use super::referred_to;
use crate::metrics::HealthMetrics;
use crate::secrets::SecretChange;

/// The work on connections. It is done by whoever leads.
pub(crate) struct Connections {
    pub(super) store: Store<Connection>,
    pub(super) repositories: Store<Repository>,
    pub(super) opener: Opener,
    pub(super) clock: Arc<dyn Clock>,
    /// The most time that a check may take.
    pub(super) deadline: Duration,
    pub(super) metrics: HealthMetrics,
    workers: usize,
    /// Those whose key has changed, until they were checked with it.
    rekeyed: Mutex<HashSet<ObjectKey>>,
    /// The queue of the term that goes on, if one does.
    current: Mutex<Option<KeyedQueue<ObjectKey>>>,
}

impl Connections {
    pub(crate) fn new(
        process: &windlass_launch::Context,
        store: Store<Connection>,
        repositories: Store<Repository>,
    ) -> Self {
        Self {
            store,
            repositories,
            opener: process.opener.clone(),
            clock: Arc::clone(&process.clock),
            deadline: process.check_deadline,
            metrics: HealthMetrics::new(&process.metrics),
            workers: process.settings.operator().worker_count,
            rekeyed: Mutex::default(),
            current: Mutex::default(),
        }
    }

    /// Works with these clients until `shutdown`, or until it is dropped; passes that are under way at the shutdown are
    /// finished.
    pub(crate) async fn lead(self: &Arc<Self>, clients: ApiClients, shutdown: &CancellationToken) {
        let queue = KeyedQueue::new(BackoffPolicy::OBJECT);
        // First the queue, then what is known already: nothing can fall between the two.
        self.set(Some(queue.clone()));
        for connection in self.store.list() {
            queue.add(ObjectKey::of(&*connection));
        }
        let this = Arc::clone(self);
        let work = move |key| {
            let (this, clients) = (Arc::clone(&this), clients.clone());
            async move { reconcile(&this, &clients, &key).await }
        };
        let panicked = |key: &ObjectKey| tracing::error!(connection = %key, "the pass panicked");
        run_keyed(queue, self.workers, shutdown.clone(), work, panicked).await;
        self.set(None);
    }

    pub(crate) fn connection_seen(&self, event: &Event<Connection>) {
        match event {
            Event::Applied { old, new } if old.as_ref().is_some_and(|old| Arc::ptr_eq(old, new)) => {}
            Event::Applied { new, .. } => self.add(ObjectKey::of(&**new)),
            Event::Deleted(gone) => {
                self.take_rekeyed(&ObjectKey::of(&**gone));
                if let Some(queue) = &*self.lock() {
                    queue.forget(&ObjectKey::of(&**gone));
                }
            }
            Event::Synced => {}
        }
    }

    /// Whether a connection is referred to is looked at again when a repository comes, goes, or refers to another one.
    pub(crate) fn repository_seen(&self, event: &Event<Repository>) {
        let (old, new) = match event {
            Event::Applied { old, new } => (old.as_deref().and_then(referred_to), referred_to(new)),
            Event::Deleted(gone) => (referred_to(gone), None),
            Event::Synced => {
                for connection in self.store.list() {
                    self.add(ObjectKey::of(&*connection));
                }
                return;
            }
        };
        if old != new {
            old.into_iter().chain(new).for_each(|key| self.add(key));
        }
    }

    /// The connections whose key is in a Secret that changed: they are checked with it.
    pub(crate) fn secret_changed(&self, change: &SecretChange) -> Vec<ObjectKey> {
        let connections = self.store.list_in(&change.key.namespace);
        let keys = connections.iter().filter(|it| change.is_key_of(it)).map(|it| ObjectKey::of(&**it));
        let keys: Vec<ObjectKey> = keys.collect();
        for key in &keys {
            self.rekeyed.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
            self.add(key.clone());
        }
        keys
    }

    /// Whether the key of a connection has changed since this was asked. A check that then fails to be told of is made
    /// again by its interval.
    pub(super) fn take_rekeyed(&self, key: &ObjectKey) -> bool {
        self.rekeyed.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }

    fn add(&self, key: ObjectKey) {
        if let Some(queue) = &*self.lock() {
            queue.add(key);
        }
    }

    fn set(&self, queue: Option<KeyedQueue<ObjectKey>>) {
        *self.lock() = queue;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<KeyedQueue<ObjectKey>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
