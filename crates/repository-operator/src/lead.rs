//! Working on repositories while this process leads. One that stands by watches, and begins where it took over.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use windlass_api::conditions::{self, types};
use windlass_api::{Connection, Repository};
use windlass_runtime::{
    BackoffPolicy, Event, KeyedQueue, Leadership, ObjectKey, Store, Term, TermQueue, run_keyed,
};

use crate::connections::{Connections, referred_to};
use crate::controller::Controller;
use crate::folders::Folders;
use crate::memory::Memory;
use crate::metrics::RepositoryMetrics;
use crate::neighbours::affected;
use crate::reconcile::reconcile;
use crate::secrets::SecretChange;

/// The operator's work, term by term.
pub(crate) struct Work {
    pub(crate) connections: Arc<Connections>,
    pub(crate) controller: Controller,
    pub(crate) leadership: Leadership,
    pub(crate) workers: usize,
    pub(crate) queue: TermQueue<ObjectKey>,
    /// Whether changes in the folders of local repositories are waited for.
    pub(crate) watch_folders: bool,
}

/// Forwards what the watch has seen to the queue of the term.
pub(crate) struct Forwarder {
    queue: TermQueue<ObjectKey>,
    memory: Arc<Memory>,
    store: Store<Repository>,
    metrics: RepositoryMetrics,
}

impl Work {
    pub(crate) fn forwarder(&self) -> Forwarder {
        Forwarder {
            queue: self.queue.clone(),
            memory: Arc::clone(&self.controller.memory),
            store: self.controller.store.clone(),
            metrics: self.controller.metrics.clone(),
        }
    }

    /// Works whenever this process leads, until `shutdown`; passes that are under way then are finished.
    pub(crate) async fn run(&self, shutdown: &CancellationToken) {
        self.leadership.lead(shutdown, |term| self.lead(term, shutdown)).await;
    }

    async fn lead(&self, term: Term, shutdown: &CancellationToken) {
        let cancel = shutdown.child_token();
        let _stop = cancel.clone().drop_guard();
        let clients = self.controller.clients.map(|client| term.guard(client));
        let connections = self.connections.lead(clients.clone(), shutdown);
        let known = &self.controller.store;
        let work = self.queue.begin(BackoffPolicy::OBJECT, || known.keys());
        let Controller { opener, memory, .. } = self.controller.clone();
        let folders = self.watch_folders.then(|| Arc::new(Folders::new(opener, memory, work.queue.clone())));
        let controller = Arc::new(Controller { clients, folders, cancel, ..self.controller.clone() });
        let (metrics, taken) = (self.controller.metrics.clone(), work.queue.clone());
        let repositories = run_keyed(
            work.queue.clone(),
            self.workers,
            shutdown.clone(),
            move |key| {
                controller.metrics.taken(taken.waited(&key));
                reconcile(Arc::clone(&controller), key)
            },
            move |_key| metrics.panicked(),
        );
        tokio::join!(repositories, connections);
    }
}

impl Forwarder {
    pub(crate) fn forward(&self, event: Event<Repository>) {
        match &event {
            Event::Applied { old, new } => self.memory.standings.note(old.as_deref(), Some(new)),
            Event::Deleted(gone) => self.memory.standings.note(Some(gone), None),
            Event::Synced => {}
        }
        let Some(queue) = &self.queue.current() else {
            if let Event::Deleted(gone) = event {
                self.memory.forget(&ObjectKey::of(&*gone));
            }
            return;
        };
        match event {
            Event::Applied { old, new } => {
                // Told again by a resync: whether anything is due is a question of time, which the queue keeps.
                if old.as_ref().is_some_and(|old| Arc::ptr_eq(old, &new)) {
                    return;
                }
                if let Some(old) = &old {
                    self.metrics.seen(old, &new);
                }
                queue.add(ObjectKey::of(&*new));
                self.forward_to_neighbours(queue, old.as_deref(), Some(&new));
            }
            Event::Deleted(gone) => {
                let key = ObjectKey::of(&*gone);
                self.memory.forget(&key);
                queue.forget(&key);
                // For a last pass, which lets go of what is kept for it.
                queue.add(key);
                self.forward_to_neighbours(queue, Some(&gone), None);
            }
            Event::Synced => {}
        }
    }

    /// A connection is another one, or works again: its repositories get the tokens that they have not.
    pub(crate) fn connection_changed(&self, event: &Event<Connection>) {
        let Event::Applied { old, new } = event else { return };
        let facts = |connection: &Connection| {
            let ready = conditions::find(&connection.status.conditions, types::READY);
            (connection.metadata.generation, ready.map(|ready| ready.status.clone()))
        };
        if old.as_ref().is_some_and(|old| facts(old) == facts(new)) {
            return;
        }
        let another = old.as_ref().is_some_and(|old| facts(old).0 != facts(new).0);
        self.tokens_wanted(&ObjectKey::of(&**new), another);
    }

    /// The repositories of a connection get the tokens that they have not, or `another`.
    pub(crate) fn tokens_wanted(&self, connection: &ObjectKey, another: bool) {
        for repository in self.store.list_in(&connection.namespace) {
            if referred_to(&repository).as_ref() == Some(connection) {
                let of = ObjectKey::of(&*repository);
                self.memory.token_wanted(&of, another);
                self.queue.add(of);
            }
        }
    }

    /// A Secret has changed: the repositories that name it are checked with what it says now.
    pub(crate) fn secret_changed(&self, change: &SecretChange) {
        for repository in self.store.list_in(&change.key.namespace) {
            if change.concerns(&repository) {
                let key = ObjectKey::of(&*repository);
                self.memory.secret_changed(&key);
                self.queue.add(key);
            }
        }
    }

    /// Those that wait for this repository, or it for them, look again. While the first list comes in all are new.
    fn forward_to_neighbours(
        &self,
        queue: &KeyedQueue<ObjectKey>,
        old: Option<&Repository>,
        new: Option<&Repository>,
    ) {
        let Some(changed) = new.or(old).filter(|_| self.store.is_synced()) else { return };
        let namespace = changed.metadata.namespace.as_deref().unwrap_or_default();
        for other in affected(old, new, || self.store.list_in(namespace)) {
            queue.add(ObjectKey::of(&*other));
        }
    }
}
