//! The queue of a process that works only while it leads.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::KeyedQueue;
use crate::BackoffPolicy;

/// The queue of the term that goes on, if this process leads. Clones share it.
///
/// What is added while this process does not lead is nobody's: whoever leads begins with all the keys there are.
pub struct TermQueue<T>(Arc<Mutex<Option<KeyedQueue<T>>>>);

/// A term's part in a [`TermQueue`], which has no queue any more once this is dropped.
#[must_use]
pub struct TermWork<T> {
    /// What is to be worked off.
    pub queue: KeyedQueue<T>,
    terms: TermQueue<T>,
}

impl<T> Clone for TermQueue<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for TermQueue<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone + Eq + Hash> TermQueue<T> {
    /// Makes a key due now.
    pub fn add(&self, key: T) {
        if let Some(queue) = self.current() {
            queue.add(key);
        }
    }

    /// Drops what is waiting for a key; the object is gone.
    pub fn forget(&self, key: &T) {
        if let Some(queue) = self.current() {
            queue.forget(key);
        }
    }

    /// The queue of the term that goes on.
    pub fn current(&self) -> Option<KeyedQueue<T>> {
        self.lock().clone()
    }

    /// Begins a term with an empty queue, and adds to it what is `known`, which is asked for once the queue takes in what
    /// comes: nothing can fall between the two.
    pub fn begin<K: IntoIterator<Item = T>>(
        &self,
        policy: BackoffPolicy,
        known: impl FnOnce() -> K,
    ) -> TermWork<T> {
        let queue = KeyedQueue::new(policy);
        *self.lock() = Some(queue.clone());
        for key in known() {
            queue.add(key);
        }
        TermWork { queue, terms: self.clone() }
    }
}

impl<T> TermQueue<T> {
    fn lock(&self) -> MutexGuard<'_, Option<KeyedQueue<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for TermWork<T> {
    fn drop(&mut self) {
        *self.terms.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::TermQueue;
    use crate::BackoffPolicy;

    #[test]
    fn what_is_added_in_a_term_is_queued_and_what_is_added_in_none_is_nobodys() {
        let terms = TermQueue::default();
        terms.add("before");
        assert!(terms.current().is_none());
        let seen = terms.clone();
        let work = terms.begin(BackoffPolicy::OBJECT, move || {
            seen.add("while the known ones are listed");
            ["known"]
        });
        terms.add("later");
        assert_eq!(work.queue.waiting(), 3);
        terms.forget(&"known");
        assert_eq!(work.queue.waiting(), 2);
        drop(work);
        assert!(terms.current().is_none());
    }
}
