//! Commits that a source has and its Kustomization has not applied yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

/// When the oldest commit was merged that is not applied yet, for each Kustomization that has one.
#[derive(Debug, Default)]
pub struct Unapplied {
    oldest: Mutex<HashMap<Box<str>, Timestamp>>,
}

impl Unapplied {
    /// The merge time of the oldest commit that the Kustomization of this UID has not applied; none when it has applied all.
    pub fn oldest(&self, uid: &str) -> Option<Timestamp> {
        self.lock().get(uid).copied()
    }

    pub(crate) fn set(&self, uid: &str, oldest: Option<Timestamp>) {
        match oldest {
            Some(merged) => {
                self.lock().insert(uid.into(), merged);
            }
            None => {
                self.lock().remove(uid);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Timestamp>> {
        self.oldest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
