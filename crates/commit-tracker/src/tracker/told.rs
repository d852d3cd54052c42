//! What was said of a Kustomization, so that a state that lasts is told once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The last thing that was said of each Kustomization of which there was anything to say, by its UID.
#[derive(Debug, Default)]
pub(crate) struct Told {
    last: Mutex<HashMap<Box<str>, Box<str>>>,
}

impl Told {
    /// Whether this is something else than what was said last; it is what was said last from now on.
    pub(crate) fn is_new(&self, uid: &str, text: &str) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(uid).is_some_and(|said| **said == *text) {
            return false;
        }
        last.insert(uid.into(), text.into());
        true
    }

    /// There is nothing to say any more.
    pub(crate) fn clear(&self, uid: &str) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}
