//! What is removed because something else was: dependants by owner reference, the content of namespaces, the objects
//! of a kind whose definition is deleted.
//!
//! One task ([`collector`]) follows the events of every kind and keeps in memory who belongs to whom ([`graph`]): only
//! objects that have owners, or that wait for their dependants, are in it. What is to be done is done through the same
//! code as a client's request, a bounded number at a time, and may be done twice: after a crash the task looks at all
//! of them anew.

mod collector;
mod definitions;
mod events;
mod graph;
mod item;
mod namespaces;

pub(crate) use definitions::mark as mark_definition;
pub(crate) use namespaces::{Namespaces, holds_content, mark as mark_namespace};

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::{TryStreamExt as _, stream};
use tracing::warn;

use crate::failure::Result;
use crate::kinds::ServedKind;
use crate::request::Target;
use crate::state::Inner;
use crate::verbs::{Context, DeleteOptions};
use windlass_store::Object;

/// Waits for the owner's dependants to be deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Waits for the owner's dependants to be let go.
pub(crate) const ORPHAN: &str = "orphan";

/// How many objects are worked on at a time. Commits that wait together share a sync to disk.
const PARALLEL: usize = 32;

/// How long is waited after a failure at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Empties this namespace or definition, again and again until it succeeds. False: the server has ended before.
async fn until_done<'a>(
    inner: &Weak<Inner>,
    name: &str,
    mut attempt: impl FnMut() -> BoxFuture<'a, Result<()>> + Send,
) -> bool {
    let mut wait = RETRY.0;
    while let Err(failure) = attempt().await {
        warn!(name, ?failure, "failed to remove what goes before it; trying again");
        let Some(stop) = inner.upgrade().map(|inner| inner.stop.clone()) else { return false };
        tokio::select! {
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(RETRY.1),
        }
    }
    true
}

/// Starts what removes objects on its own.
pub(crate) fn spawn(inner: &Arc<Inner>) {
    collector::spawn(inner);
    events::spawn(inner);
}

/// Asks for the deletion of these objects, as a client would. Those that are gone already are no error.
async fn delete_all(inner: &Arc<Inner>, served: &ServedKind, objects: &[Object]) -> Result<()> {
    stream::iter(objects.iter().map(Ok))
        .try_for_each_concurrent(PARALLEL, |object| async move {
            let context = Context::internal(inner, Target::object(served, &object.key));
            match Box::pin(context.delete(object.key.name(), &DeleteOptions::default())).await {
                Err(failure) if !failure.is_not_found() => Err(failure),
                _ => Ok(()),
            }
        })
        .await
}
