//! The objects of a kind go before its definition does.
//!
//! A definition that is being deleted has a finalizer. A task of its own deletes all of its objects, waits until those
//! with finalizers are gone too, and takes the finalizer off. Everything that it does may be done again, so a server
//! that was stopped on the way starts it anew.

use std::sync::Weak;

use super::cleaning::{delete_all, update};
use crate::failure::{Failure, Result};
use crate::meta::Meta;
use crate::state::Inner;
use windlass_apimachinery::definition::{CLEANUP, is_true, set_condition};
use windlass_apimachinery::metadata;
use windlass_store::{Key, Page, Range, StoreError, Write};

/// Whether what goes before a definition is to be removed.
pub(super) fn is_due(meta: &Meta) -> bool {
    meta.deletion_timestamp.is_some() && meta.finalizers.iter().any(|one| one == CLEANUP)
}

/// Removes the objects of the definition of this key and UID, and then the definition.
pub(super) async fn remove(inner: &Weak<Inner>, key: &Key, uid: &str) -> Result<()> {
    let message = "CustomResource deletion is in progress";
    let Some(strong) = inner.upgrade() else { return Ok(()) };
    let Some(document) = update(&strong, key, uid, |document, now| {
        set_condition(document, "Terminating", "True", "InstanceDeletionInProgress", message, now);
    })
    .await?
    else {
        return Ok(());
    };
    // The server may be dropped while this waits.
    drop(strong);
    // A definition is called as what it defines.
    let (plural, group) = key.name().split_once('.').unwrap_or_default();
    let range = Range::new(group, plural, None)?;
    let (reason, message) = if is_true(&document, "Established") {
        remove_objects(inner, group, plural, &range).await?;
        ("InstanceDeletionCompleted", "removed all instances")
    } else {
        ("NeverEstablished", "resource was never established")
    };
    let Some(strong) = inner.upgrade() else { return Ok(()) };
    let document = update(&strong, key, uid, |document, now| {
        set_condition(document, "Terminating", "False", reason, message, now);
        metadata::remove_finalizer(document, CLEANUP);
    })
    .await?;
    match document {
        Some(document) if metadata::finalizers(&document).is_empty() => sweep(&strong, &range).await,
        _ => Ok(()),
    }
}

/// Deletes every object, and waits until those that others hold are gone.
async fn remove_objects(inner: &Weak<Inner>, group: &str, plural: &str, range: &Range) -> Result<()> {
    loop {
        let Some(strong) = inner.upgrade() else { return Ok(()) };
        let listed = strong.store.list(range, Page::default()).await?;
        if listed.objects.is_empty() {
            return Ok(());
        }
        let mut events = strong.store.watch(range, listed.revision)?;
        let Some(served) = strong.catalog.current().stored(group, plural) else {
            return Err(Failure::bad_request("its kind is not served"));
        };
        delete_all(&strong, &served, &listed.objects).await?;
        let stop = strong.stop.clone();
        drop(strong);
        tokio::select! {
            () = stop.cancelled() => return Err(Failure::bad_request("the server is shutting down")),
            event = events.next() => { event?; }
        }
    }
}

/// A create that was under way when the kind went may have left an object that nobody can see.
async fn sweep(inner: &Inner, range: &Range) -> Result<()> {
    for object in inner.store.list(range, Page::default()).await?.objects {
        match inner.store.commit(vec![Write::delete(object.key, object.revision)]).await {
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
