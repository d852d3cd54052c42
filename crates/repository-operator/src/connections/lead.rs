//! Which connections are looked at, and when.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windlass_api::{Connection, Repository};
use windlass_auth::ApiClients;
use windlass_repository::Opener;
use windlass_runtime::{BackoffPolicy, Clock, Event, ObjectKey, Store, TermQueue, run_keyed};

use super::reconcile::reconcile;
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
    queue: TermQueue<ObjectKey>,
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
            queue: TermQueue::default(),
        }
    }

    /// Works with these clients until `shutdown`, or until it is dropped; passes that are under way at the shutdown are
    /// finished.
    pub(crate) async fn lead(self: &Arc<Self>, clients: ApiClients, shutdown: &CancellationToken) {
        let term = self.queue.begin(BackoffPolicy::OBJECT, || self.store.keys());
        let this = Arc::clone(self);
        let work = move |key| {
            let (this, clients) = (Arc::clone(&this), clients.clone());
            async move { reconcile(&this, &clients, &key).await }
        };
        let panicked = |key: &ObjectKey| tracing::error!(connection = %key, "the pass panicked");
        run_keyed(term.queue.clone(), self.workers, shutdown.clone(), work, panicked).await;
    }

    pub(crate) fn connection_seen(&self, event: &Event<Connection>) {
        match event {
            Event::Applied { old, new } if old.as_ref().is_some_and(|old| Arc::ptr_eq(old, new)) => {}
            Event::Applied { new, .. } => self.queue.add(ObjectKey::of(&**new)),
            Event::Deleted(gone) => {
                let key = ObjectKey::of(&**gone);
                self.take_rekeyed(&key);
                self.queue.forget(&key);
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
                return self.store.keys().into_iter().for_each(|key| self.queue.add(key));
            }
        };
        if old != new {
            old.into_iter().chain(new).for_each(|key| self.queue.add(key));
        }
    }

    /// The connections whose key is in a Secret that changed: they are checked with it.
    pub(crate) fn secret_changed(&self, change: &SecretChange) -> Vec<ObjectKey> {
        let connections = self.store.list_in(&change.key.namespace);
        let keys = connections.iter().filter(|it| change.is_key_of(it)).map(|it| ObjectKey::of(&**it));
        let keys: Vec<ObjectKey> = keys.collect();
        for key in &keys {
            self.rekeyed.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
            self.queue.add(key.clone());
        }
        keys
    }

    /// Whether the key of a connection has changed since this was asked. A check that then fails to be told of is made
    /// again by its interval.
    pub(super) fn take_rekeyed(&self, key: &ObjectKey) -> bool {
        self.rekeyed.lock().unwrap_or_else(PoisonError::into_inner).remove(key)
    }
}

/// The connection that a repository refers to.
pub(crate) fn referred_to(repository: &Repository) -> Option<ObjectKey> {
    let name = repository.spec.connection_name();
    let namespace = repository.metadata.namespace.clone().unwrap_or_default();
    (!name.is_empty()).then(|| ObjectKey { namespace, name: name.to_owned() })
}
