//! Texts that many objects have in common.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde::{Deserialize as _, Deserializer};

/// The text, held once for all who hold it: ten thousand Kustomizations are in few namespaces, name few sources, and are
/// at few revisions, each of which its object, its ledger entry and what is cached about it say again.
pub(crate) fn intern(text: &str) -> Arc<str> {
    static TEXTS: LazyLock<Mutex<HashSet<Arc<str>>>> = LazyLock::new(Mutex::default);
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return Arc::clone(known);
    }
    if texts.len() == texts.capacity() {
        // Before it grows: those that nobody else holds go, and as many as are left may come before the next look.
        texts.retain(|text| Arc::strong_count(text) > 1);
        let left = texts.len();
        texts.reserve(left);
    }
    let new = Arc::<str>::from(text);
    texts.insert(Arc::clone(&new));
    new
}

/// A text that is read, if it is there and not empty.
pub(crate) fn interned<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Arc<str>>, D::Error> {
    let text = Option::<Box<str>>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()).map(|text| intern(&text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_held_once_while_somebody_holds_it() {
        let first = intern("held once");
        assert!(Arc::ptr_eq(&first, &intern("held once")));
        let weak = Arc::downgrade(&intern("held by nobody"));
        // Others make room for themselves.
        let others: Vec<_> = (0..10_000).map(|number| intern(&format!("other {number}"))).collect();
        assert!(weak.upgrade().is_none() && Arc::ptr_eq(&first, &intern("held once")));
        assert_eq!(others.len(), 10_000);
    }
}
