//! Equal questions that are under way share one answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OnceCell;

/// Questions under way, by what they ask.
pub(crate) struct Flights<T> {
    under_way: Mutex<HashMap<String, Weak<OnceCell<T>>>>,
}

impl<T: Clone> Flights<T> {
    pub(crate) fn new() -> Self {
        Self { under_way: Mutex::new(HashMap::new()) }
    }

    /// The answer of `ask`, or that of whoever asks the same right now. If that one gives up, another goes on.
    pub(crate) async fn share<F>(&self, question: &str, ask: impl FnOnce() -> F) -> T
    where
        F: Future<Output = T>,
    {
        let cell = self.join(question);
        cell.get_or_init(ask).await.clone()
    }

    fn join(&self, question: &str) -> Arc<OnceCell<T>> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = under_way.get(question).and_then(Weak::upgrade)
            && !cell.initialized()
        {
            return cell;
        }
        under_way.retain(|_, cell| cell.strong_count() > 0);
        let cell = Arc::new(OnceCell::new());
        under_way.insert(question.to_owned(), Arc::downgrade(&cell));
        cell
    }
}
