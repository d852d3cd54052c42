//! Removing many objects, and what holds the one that they go before.

use std::sync::Arc;

use futures::{TryStreamExt as _, stream};
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};
use crate::kinds::ServedKind;
use crate::meta::Meta;
use crate::state::Inner;
use crate::writer::{Deletion, Writer};
use windlass_store::{Key, Object};

/// How many objects are worked on at a time. Commits that wait together share a sync to disk.
pub(super) const PARALLEL: usize = 32;
/// How often a write that meets another one is tried again.
const TRIES: usize = 10;

/// Asks for the deletion of these objects, as a client would. Those that are gone already are no error.
pub(super) async fn delete_all(inner: &Arc<Inner>, served: &ServedKind, objects: &[Object]) -> Result<()> {
    stream::iter(objects.iter().map(Ok))
        .try_for_each_concurrent(PARALLEL, |object| async move {
            let writer = Writer::internal(inner, served, &object.key);
            match Box::pin(writer.delete(object.key.name(), &Deletion::default())).await {
                Err(failure) if !failure.is_not_found() => Err(failure),
                _ => Ok(()),
            }
        })
        .await
}

/// The object that is stored under this key, if it is still the one with this UID and its kind is served.
pub(super) async fn find(inner: &Inner, key: &Key, uid: &str) -> Result<Option<(ServedKind, Object)>> {
    let Some(served) = inner.catalog.current().stored(key.group(), key.resource()) else { return Ok(None) };
    let found = inner.store.get(key).await?;
    Ok(found.filter(|object| Meta::of(object).uid == uid).map(|object| (served, object)))
}

/// Changes an object at this time; removes it when it is being deleted and nothing holds it any more. What it was changed
/// to; `None` when it was gone before.
pub(super) async fn update(
    inner: &Arc<Inner>,
    key: &Key,
    uid: &str,
    change: impl Fn(&mut Map<String, Value>, &str),
) -> Result<Option<Map<String, Value>>> {
    for _ in 0..TRIES {
        let Some((served, stored)) = find(inner, key, uid).await? else { return Ok(None) };
        let (now, mut changed) = (inner.now_text(), None);
        let change = |document: &mut Map<String, Value>| {
            change(document, &now);
            changed = Some(document.clone());
        };
        if Box::pin(Writer::internal(inner, &served, key).change(&stored, change)).await? {
            return Ok(changed);
        }
    }
    Err(Failure::bad_request("the object was changed again and again"))
}
