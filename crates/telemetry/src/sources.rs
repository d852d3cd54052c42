//! The sources of one process.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::{CumulativeSource, CumulativeView};

/// Everything whose series this process exports.
#[derive(Default)]
pub(crate) struct Sources {
    list: RwLock<Vec<Arc<dyn CumulativeSource>>>,
}

impl Sources {
    pub(crate) fn add(&self, source: Arc<dyn CumulativeSource>) {
        self.list.write().unwrap_or_else(PoisonError::into_inner).push(source);
    }

    /// The sources so far.
    pub(crate) fn all(&self) -> Vec<Arc<dyn CumulativeSource>> {
        self.list.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What `/metrics` shows of them now.
    pub(crate) fn scraped(&self) -> Vec<Arc<dyn CumulativeView>> {
        self.all().into_iter().filter_map(|source| source.scraped()).collect()
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources").field("count", &self.all().len()).finish()
    }
}
