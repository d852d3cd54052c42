//! A list of the past whose snapshot is no longer kept: the present, with the changes since undone.
//!
//! A real server keeps every version for minutes. Here a snapshot costs what is written beside it, and few are kept;
//! the events that feed watches reach further back and know each object's previous state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_store::{Key, ListPage, Object, Page, Range, Store, StoreError};

/// How long the log may lag behind what lists see.
const LAG: Duration = Duration::from_secs(5);

/// The page at its `snapshot`. [`StoreError::Expired`] when the events since then are not all kept.
pub(super) async fn list(store: &Arc<dyn Store>, range: &Range, page: Page) -> Result<ListPage, StoreError> {
    let expired = |requested| StoreError::Expired { requested, current: store.revision() };
    let Some(snapshot) = page.snapshot else { return Err(expired(0)) };
    let mut events = store.watch(range, snapshot)?;
    let present = store.list(range, Page::default()).await?;
    let mut objects: BTreeMap<Key, Object> =
        present.objects.into_iter().map(|object| (object.key.clone(), object)).collect();
    let mut since = Vec::new();
    let deadline = tokio::time::Instant::now() + LAG;
    while events.position()? < present.revision {
        while let Some(event) = events.try_next()? {
            since.push(event);
        }
        if store.revision() < present.revision && tokio::time::Instant::now() > deadline {
            return Err(expired(snapshot));
        }
        tokio::task::yield_now().await;
    }
    for event in since.iter().rev().filter(|event| event.revision <= present.revision) {
        match &event.previous {
            Some(previous) => objects.insert(previous.key.clone(), previous.clone()),
            None => objects.remove(&event.object.key),
        };
    }
    let is_after = |key: &Key| page.after.as_ref().is_none_or(|after| key > after);
    let is_selected = |object: &Object| page.filter.as_ref().is_none_or(|filter| filter(object));
    let mut selected: Vec<Object> =
        objects.into_values().filter(|object| is_after(&object.key) && is_selected(object)).collect();
    let limit = if page.limit == 0 { usize::MAX } else { page.limit };
    let more = selected.len() > limit;
    let remaining = (more && page.filter.is_none()).then(|| selected.len() - limit);
    selected.truncate(limit);
    Ok(ListPage { objects: selected, revision: snapshot, more, remaining, state: None })
}
