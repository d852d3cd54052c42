//! What the handler of a watch is told.

use std::sync::Arc;

/// What happened to an object, or to the watch.
#[derive(Debug)]
pub enum Event<K> {
    /// An object was created or changed, or is told again by a resync (`old` and `new` are then the same `Arc`).
    Applied {
        /// The version that was known before.
        old: Option<Arc<K>>,
        /// The current version.
        new: Arc<K>,
    },
    /// An object is gone; this is its last known version.
    Deleted(Arc<K>),
    /// The store holds all that a list held: after the first list, and after each further one.
    Synced,
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Applied { old, new } => Self::Applied { old: old.clone(), new: Arc::clone(new) },
            Self::Deleted(object) => Self::Deleted(Arc::clone(object)),
            Self::Synced => Self::Synced,
        }
    }
}
