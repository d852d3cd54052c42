//! The objects of a kind go before its definition does.
//!
//! A definition that is being deleted has a finalizer. A task of its own deletes all of its objects, waits until those
//! with finalizers are gone too, and takes the finalizer off. Everything that it does may be done again, so a server
//! that was stopped on the way starts it anew.

use std::sync::{Arc, PoisonError, Weak};

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tracing::info;

use super::until_done;
use crate::failure::{Failure, Result};
use crate::kinds::{Builtin, Kind, ServedKind};
use crate::state::Inner;
use windlass_apimachinery::definition::{CLEANUP, is_true, set_condition};
use windlass_apimachinery::document;
use windlass_apimachinery::metadata;
use windlass_store::{Key, Object, Page, Range, StoreError, Write};

/// How often a write that meets another one is tried again.
const TRIES: usize = 10;

type Document = Map<String, Value>;

impl Inner {
    /// Starts the removal of what belongs to definitions that are being deleted.
    pub(crate) fn clean_up(self: &Arc<Self>, documents: &[(Object, Document)]) {
        for (object, document) in documents {
            if !metadata::is_deleting(document) || !metadata::finalizers(document).contains(&CLEANUP) {
                continue;
            }
            let uid = metadata::text(document, "uid").to_owned();
            let mut cleaning = self.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
            if cleaning.insert(uid.clone()) {
                self.spawn(clean(Arc::downgrade(self), object.key.clone(), uid));
            }
        }
    }
}

/// Boxed: removing objects may change definitions, which leads back here.
fn clean(inner: Weak<Inner>, key: Key, uid: String) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let name = key.name().to_owned();
        let is_done = until_done(&inner, &name, || Box::pin(remove_all(&inner, &key, &uid))).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.cleaning.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        if is_done {
            info!(definition = name, "removed a definition and its objects");
        }
    })
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
    if is_true(&document, "Established") {
        remove_objects(inner, &document, &range).await?;
        update(inner, key, uid, |document, now| {
            let message = "removed all instances";
            set_condition(document, "Terminating", "False", "InstanceDeletionCompleted", message, now);
            drop_finalizer(document);
        })
        .await?;
    } else {
        update(inner, key, uid, |document, now| {
            let message = "resource was never established";
            set_condition(document, "Terminating", "False", "NeverEstablished", message, now);
            drop_finalizer(document);
        })
        .await?;
    }
    Ok(())
}

fn range_of(document: &Document) -> Result<Range> {
    let spec = document.get("spec").unwrap_or(&Value::Null);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(Range::new(&text(&spec["group"]), &text(&spec["names"]["plural"]), None)?)
}

fn drop_finalizer(document: &mut Document) {
    let fields = metadata::of(document);
    if let Some(Value::Array(finalizers)) = fields.get_mut("finalizers") {
        finalizers.retain(|finalizer| finalizer != CLEANUP);
        if finalizers.is_empty() {
            fields.remove("finalizers");
        }
    }
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
        super::delete_all(&strong, &served, &listed.objects).await?;
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
        let write = if removed {
            Write::delete(key.clone(), stored.revision)
        } else {
            let registry = strong.catalog.current();
            let kind: &Kind = registry.builtin(Builtin::Definition).ok_or_else(Failure::unknown_path)?;
            let value = Bytes::from(document::encode(&kind.stored().head, &document, b""));
            Write::update(key.clone(), stored.revision, value)
        };
        match strong.store.commit(vec![write]).await {
            Ok(_) => {
                if removed {
                    strong.definitions_changed().await;
                    sweep(&strong, &document).await?;
                }
                return Ok(Some(document));
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
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

/// Marks a definition as being deleted, held until its objects are gone.
pub(crate) fn mark(document: &mut Document, now: &str) {
    let fields = metadata::of(document);
    fields.insert("deletionTimestamp".to_owned(), json!(now));
    let finalizers = fields.entry("finalizers").or_insert_with(|| json!([]));
    if let Value::Array(finalizers) = finalizers
        && !finalizers.contains(&json!(CLEANUP))
    {
        finalizers.push(json!(CLEANUP));
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(document, "Terminating", "True", "InstanceDeletionPending", message, now);
}
