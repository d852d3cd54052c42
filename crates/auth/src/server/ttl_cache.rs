//! Answers that stay true for a short while.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A bounded map whose entries lapse.
#[derive(Debug)]
pub(crate) struct TtlCache<K, V> {
    entries: Mutex<HashMap<K, (Instant, V)>>,
    most: usize,
}

impl<K: Eq + Hash, V: Clone> TtlCache<K, V> {
    /// At most `most` entries.
    pub(crate) fn new(most: usize) -> Self {
        Self { entries: Mutex::default(), most }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(key).filter(|(until, _)| *until > Instant::now()).map(|(_, value)| value.clone())
    }

    /// Keeps `value` for `lifetime`. A full map forgets what lapsed, and everything when that is nothing: whoever can
    /// fill it can cost others a question, not memory.
    pub(crate) fn insert(&self, key: K, value: V, lifetime: Duration) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.len() >= self.most {
            entries.retain(|_, (until, _)| *until > now);
        }
        if entries.len() >= self.most {
            entries.clear();
        }
        entries.insert(key, (now + lifetime, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_lapses_and_a_full_map_does_not_grow() {
        let cache = TtlCache::new(2);
        cache.insert("a", 1, Duration::from_secs(10));
        assert_eq!(cache.get(&"a"), Some(1));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(cache.get(&"a"), None);
        for key in ["b", "c", "d", "e"] {
            cache.insert(key, 2, Duration::from_secs(10));
            assert_eq!(cache.get(&key), Some(2));
            assert!(cache.entries.lock().unwrap().len() <= 2);
        }
    }
}
