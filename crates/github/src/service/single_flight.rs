//! Equal reads that are under way share one answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OnceCell;

/// Reads under way, by what they read.
pub(crate) struct SingleFlight<T> {
    under_way: Mutex<HashMap<String, Weak<OnceCell<T>>>>,
}

impl<T: Clone> SingleFlight<T> {
    pub(crate) fn new() -> Self {
        Self { under_way: Mutex::new(HashMap::new()) }
    }

    /// The answer of `read`, or that of whoever reads the same right now. If that one gives up, another goes on.
    pub(crate) async fn share<F>(&self, key: &str, read: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T>,
    {
        let cell = self.join(key);
        cell.get_or_init(read).await.clone()
    }

    fn join(&self, key: &str) -> Arc<OnceCell<T>> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = under_way.get(key).and_then(Weak::upgrade)
            && !cell.initialized()
        {
            return cell;
        }
        under_way.retain(|_, cell| cell.strong_count() > 0);
        let cell = Arc::new(OnceCell::new());
        under_way.insert(key.to_owned(), Arc::downgrade(&cell));
        cell
    }
}
