//! What was last logged of a Kustomization, so that a state that lasts is logged once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The last thing that was logged of each Kustomization that is in a state worth a line, by its UID.
#[derive(Debug, Default)]
pub(crate) struct LastLogged {
    last: Mutex<HashMap<Box<str>, Box<str>>>,
}

impl LastLogged {
    /// Whether this is something else than what was logged last; it is that from now on.
    pub(crate) fn is_change(&self, uid: &str, text: &str) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.get(uid).is_some_and(|logged| **logged == *text) {
            return false;
        }
        last.insert(uid.into(), text.into());
        true
    }

    /// The Kustomization is in no such state any more.
    pub(crate) fn clear(&self, uid: &str) {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}
