//! Working on repositories while this process leads. One that stands by watches, and begins where it took over.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use windlass_api::Repository;
use windlass_runtime::{BackoffPolicy, Event, KeyedQueue, Leadership, ObjectKey, Term, run_keyed};

use crate::queued::Queued;
use crate::reconcile::{Context, reconcile};

/// The queue of the term that goes on, if one does.
pub(crate) type Current = Arc<Mutex<Option<KeyedQueue<ObjectKey>>>>;

/// The operator's work, term by term.
pub(crate) struct Work {
    pub(crate) context: Context,
    pub(crate) leadership: Leadership,
    pub(crate) workers: usize,
    pub(crate) current: Current,
}

/// Takes what the watch has seen to the queue of the term.
pub(crate) struct Teller {
    current: Current,
    queued: Arc<Queued>,
}

impl Work {
    pub(crate) fn teller(&self) -> Teller {
        Teller { current: Arc::clone(&self.current), queued: Arc::clone(&self.context.queued) }
    }

    /// Works whenever this process leads, until `shutdown`; passes that are under way then are finished.
    pub(crate) async fn run(&self, shutdown: &CancellationToken) {
        while let Some(term) = shutdown.run_until_cancelled(self.leadership.term()).await {
            self.lead(&term, shutdown).await;
            if shutdown.is_cancelled() {
                return;
            }
        }
    }

    /// Works until the term is over: then every pass is dropped where it is.
    async fn lead(&self, term: &Term, shutdown: &CancellationToken) {
        let cancel = shutdown.child_token();
        let _stop = cancel.clone().drop_guard();
        let clients = self.context.clients.map(|client| term.guard(client));
        let context = Arc::new(Context { clients, cancel, ..self.context.clone() });
        let queue = KeyedQueue::new(BackoffPolicy::OBJECT);
        // First the queue, then what is known already: nothing can fall between the two.
        self.set(Some(queue.clone()));
        for repository in self.context.store.list() {
            queue.add(ObjectKey::of(&*repository));
        }
        let work =
            run_keyed(queue, self.workers, shutdown.clone(), move |key| reconcile(Arc::clone(&context), key));
        tokio::select! {
            biased;
            () = term.ended() => {}
            () = work => {}
        }
        self.set(None);
    }

    fn set(&self, queue: Option<KeyedQueue<ObjectKey>>) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = queue;
    }
}

impl Teller {
    pub(crate) fn tell(&self, event: Event<Repository>) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Applied { old, new } => {
                // Told again by a resync: whether anything is due is a question of time, which the queue keeps.
                if !old.is_some_and(|old| Arc::ptr_eq(&old, &new))
                    && let Some(queue) = &*current
                {
                    queue.add(ObjectKey::of(&*new));
                }
            }
            Event::Deleted(gone) => {
                let key = ObjectKey::of(&*gone);
                self.queued.forget(&key);
                if let Some(queue) = &*current {
                    queue.forget(&key);
                }
            }
            Event::Synced => {}
        }
    }
}
