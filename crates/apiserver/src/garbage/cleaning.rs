//! Removing many objects, until they are gone.

use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{TryStreamExt as _, stream};
use tracing::{info, warn};

use crate::attributes::Attributes;
use crate::failure::Result;
use crate::kinds::ServedKind;
use crate::request::Target;
use crate::state::Inner;
use crate::writer::{Deletion, Writer};
use windlass_store::{Key, Object};

/// How many objects are worked on at a time. Commits that wait together share a sync to disk.
pub(super) const PARALLEL: usize = 32;

/// How long is waited after a failure at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Removes what goes before the object of this key and UID.
pub(super) type Removal = for<'a> fn(&'a Weak<Inner>, &'a Key, &'a str) -> BoxFuture<'a, Result<()>>;

/// Starts to remove what goes before an object that is being deleted, unless that is under way. It is tried again and again
/// until it succeeds.
pub(super) fn start(inner: &Weak<Inner>, key: &Key, uid: &str, remove: Removal) {
    let Some(strong) = inner.upgrade() else { return };
    if strong.cleaning.lock().unwrap_or_else(PoisonError::into_inner).insert(uid.to_owned()) {
        strong.spawn(run(inner.clone(), key.clone(), uid.to_owned(), remove));
    }
}

/// Boxed: removing objects leads back here.
fn run(inner: Weak<Inner>, key: Key, uid: String, remove: Removal) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let (resource, name) = (key.resource(), key.name());
        let mut wait = RETRY.0;
        while let Err(failure) = remove(&inner, &key, &uid).await {
            warn!(resource, name, ?failure, "failed to remove what goes before an object; trying again");
            let Some(stop) = inner.upgrade().map(|inner| inner.stop.clone()) else { return };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(RETRY.1),
            }
        }
        let Some(inner) = inner.upgrade() else { return };
        inner.cleaning.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        info!(resource, name, "removed what goes before an object that is being deleted");
    })
}

/// Asks for the deletion of these objects, as a client would. Those that are gone already are no error.
pub(super) async fn delete_all(inner: &Arc<Inner>, served: &ServedKind, objects: &[Object]) -> Result<()> {
    stream::iter(objects.iter().map(Ok))
        .try_for_each_concurrent(PARALLEL, |object| async move {
            let writer = Writer::new(inner, Attributes::internal(Target::object(served, &object.key)));
            match Box::pin(writer.delete(object.key.name(), &Deletion::default())).await {
                Err(failure) if !failure.is_not_found() => Err(failure),
                _ => Ok(()),
            }
        })
        .await
}
