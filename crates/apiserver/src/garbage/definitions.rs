//! The objects of a kind go before its definition does.
//!
//! A definition that is being deleted has a finalizer. A task of its own deletes all of its objects, waits until those
//! with finalizers are gone too, and takes the finalizer off. Everything that it does may be done again, so a server
//! that was stopped on the way starts it anew.

use std::sync::Weak;

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Map, Value};

use super::cleaning::delete_all;
use crate::failure::{Failure, Result};
use crate::kinds::{Builtin, ServedKind};
use crate::meta::Meta;
use crate::state::Inner;
use windlass_apimachinery::definition::{CLEANUP, is_true, set_condition};
use windlass_apimachinery::document;
use windlass_apimachinery::metadata;
use windlass_store::{Key, Page, Range, StoreError, Write};

/// How often a write that meets another one is tried again.
const TRIES: usize = 10;

type Document = Map<String, Value>;

/// Whether what goes before a definition is to be removed.
pub(super) fn is_due(meta: &Meta) -> bool {
    meta.deletion_timestamp.is_some() && meta.finalizers.iter().any(|one| one == CLEANUP)
}

/// As [`super::cleaning::Removal`].
pub(super) fn remove<'a>(inner: &'a Weak<Inner>, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<()>> {
    Box::pin(remove_all(inner, key, uid))
}

async fn remove_all(inner: &Weak<Inner>, key: &Key, uid: &str) -> Result<()> {
    let message = "CustomResource deletion is in progress";
    let Some(document) = update(inner, key, uid, |document, now| {
        set_condition(document, "Terminating", "True", "InstanceDeletionInProgress", message, now);
    })
    .await?
    else {
        return Ok(());
    };
    let range = range_of(&document)?;
    let (reason, message) = if is_true(&document, "Established") {
        remove_objects(inner, &document, &range).await?;
        ("InstanceDeletionCompleted", "removed all instances")
    } else {
        ("NeverEstablished", "resource was never established")
    };
    update(inner, key, uid, |document, now| {
        set_condition(document, "Terminating", "False", reason, message, now);
        metadata::remove_finalizer(document, CLEANUP);
    })
    .await?;
    Ok(())
}

fn range_of(document: &Document) -> Result<Range> {
    let spec = document.get("spec").unwrap_or(&Value::Null);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(Range::new(&text(&spec["group"]), &text(&spec["names"]["plural"]), None)?)
}

/// Deletes every object, and waits until those that others hold are gone.
async fn remove_objects(inner: &Weak<Inner>, document: &Document, range: &Range) -> Result<()> {
    loop {
        let Some(strong) = inner.upgrade() else { return Ok(()) };
        let listed = strong.store.list(range, Page::default()).await?;
        if listed.objects.is_empty() {
            return Ok(());
        }
        let mut events = strong.store.watch(range, listed.revision)?;
        let Some(served) = strong.served_of(document) else {
            return Err(Failure::bad_request("its kind is not served"));
        };
        delete_all(&strong, &served, &listed.objects).await?;
        let stop = strong.stop.clone();
        // The server may be dropped while this waits.
        drop(strong);
        tokio::select! {
            () = stop.cancelled() => return Err(Failure::bad_request("the server is shutting down")),
            event = events.next() => { event?; }
        }
    }
}

impl Inner {
    fn served_of(&self, document: &Document) -> Option<ServedKind> {
        let spec = document.get("spec")?;
        self.catalog.current().stored(spec["group"].as_str()?, spec["names"]["plural"].as_str()?)
    }
}

/// Changes a definition; removes it when it is being deleted and nothing holds it. `None`: it is gone.
async fn update(
    inner: &Weak<Inner>,
    key: &Key,
    uid: &str,
    change: impl Fn(&mut Document, &str),
) -> Result<Option<Document>> {
    for _ in 0..TRIES {
        let Some(strong) = inner.upgrade() else { return Ok(None) };
        let Some(stored) = strong.store.get(key).await? else { return Ok(None) };
        let mut document: Document =
            serde_json::from_slice(&stored.value).map_err(|error| Failure::internal(&error))?;
        if metadata::text(&document, "uid") != uid {
            return Ok(None);
        }
        change(&mut document, &strong.now_text());
        let removed = metadata::is_deleting(&document) && metadata::finalizers(&document).is_empty();
        let registry = strong.catalog.current();
        let kind = registry.builtin(Builtin::Definition).ok_or_else(Failure::unknown_path)?;
        let write = if removed {
            Write::delete(key.clone(), stored.revision)
        } else {
            let value = Bytes::from(document::encode(&kind.stored().head, &document, b""));
            Write::update(key.clone(), stored.revision, value)
        };
        if strong.commit(kind, vec![write]).await?.is_some() {
            if removed {
                sweep(&strong, &document).await?;
            }
            return Ok(Some(document));
        }
    }
    Err(Failure::bad_request("the definition was changed again and again"))
}

/// A create that was under way when the kind went may have left an object that nobody can see.
async fn sweep(inner: &Inner, document: &Document) -> Result<()> {
    for object in inner.store.list(&range_of(document)?, Page::default()).await?.objects {
        match inner.store.commit(vec![Write::delete(object.key, object.revision)]).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
