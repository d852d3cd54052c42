//! Work on objects beside the sources themselves, by whoever leads: a queue for each term.

use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;
use windlass_runtime::{BackoffPolicy, KeyedQueue, Leadership, ObjectKey, Requeue, Term, run_keyed};

/// Objects of one kind that are worked on at a time.
const WORKERS: usize = 4;

/// The objects that are to be looked at. What is added while this process does not lead is nobody's: whoever leads begins
/// with all there are.
#[derive(Clone, Default)]
pub(crate) struct Terms(Arc<Mutex<Option<KeyedQueue<ObjectKey>>>>);

impl Terms {
    /// Has an object looked at now.
    pub(crate) fn add(&self, key: ObjectKey) {
        if let Some(queue) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            queue.add(key);
        }
    }

    /// Works whenever this process leads, until `shutdown`. `known` are the objects that there are when a term begins, and
    /// `work` makes what works on one of them within that term.
    pub(crate) async fn lead<W, F>(
        &self,
        leadership: &Leadership,
        shutdown: &CancellationToken,
        known: impl Fn() -> Vec<ObjectKey>,
        work: impl Fn(&Term) -> W,
    ) where
        W: Fn(ObjectKey) -> F,
        F: Future<Output = Requeue> + Send + 'static,
    {
        while let Some(term) = shutdown.run_until_cancelled(leadership.term()).await {
            let queue = KeyedQueue::new(BackoffPolicy::OBJECT);
            // First the queue, then what is known already: nothing can fall between the two.
            self.set(Some(queue.clone()));
            for key in known() {
                queue.add(key);
            }
            let working = run_keyed(queue, WORKERS, shutdown.clone(), work(&term), |_key| {});
            tokio::select! {
                biased;
                () = term.ended() => {}
                () = working => return,
            }
            self.set(None);
        }
    }

    fn set(&self, queue: Option<KeyedQueue<ObjectKey>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = queue;
    }
}
