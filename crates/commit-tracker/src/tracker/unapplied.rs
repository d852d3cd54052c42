//! Commits that a source has and its Kustomization has not applied yet.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::Revision;

/// When the oldest commit was merged that is not applied yet, for each Kustomization that has one.
#[derive(Debug, Default)]
pub struct Unapplied {
    oldest: Mutex<HashMap<Box<str>, (Revision, Timestamp)>>,
    suspended: Mutex<HashSet<Box<str>>>,
}

impl Unapplied {
    /// The merge time of the oldest commit that the Kustomization of this UID has not applied; none when it has applied all.
    pub fn oldest(&self, uid: &str) -> Option<Timestamp> {
        self.lock().get(uid).map(|(_, merged)| *merged)
    }

    /// Whether the Kustomization of this UID applies nothing until somebody resumes it.
    pub fn is_suspended(&self, uid: &str) -> bool {
        self.suspended.lock().unwrap_or_else(PoisonError::into_inner).contains(uid)
    }

    pub(crate) fn suspend(&self, uid: &str, suspended: bool) {
        let mut all = self.suspended.lock().unwrap_or_else(PoisonError::into_inner);
        if suspended {
            all.insert(uid.into());
        } else {
            all.remove(uid);
        }
    }

    /// The oldest commit that comes with a revision.
    pub(crate) fn set(&self, uid: &str, coming: &Revision, oldest: Option<Timestamp>) {
        match oldest {
            Some(merged) => {
                self.lock().insert(uid.into(), (coming.clone(), merged));
            }
            None => self.clear(uid),
        }
    }

    /// Everything is applied.
    pub(crate) fn clear(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Everything is applied if the revision that was coming is.
    pub(crate) fn clear_if(&self, uid: &str, is_applied: impl Fn(&Revision) -> bool) {
        let mut oldest = self.lock();
        if oldest.get(uid).is_some_and(|(coming, _)| is_applied(coming)) {
            oldest.remove(uid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, (Revision, Timestamp)>> {
        self.oldest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
