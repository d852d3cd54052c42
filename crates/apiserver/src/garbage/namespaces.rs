//! The content of a namespace goes before its Namespace object does.
//!
//! Deleting a Namespace marks it (`Terminating`), which keeps new objects out, deletes everything that is in the namespace, waits for
//! those with finalizers, takes the `kubernetes` finalizer off, and lets the object go.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::cleaning::delete_all;
use crate::failure::{Failure, Result};
use crate::kinds::{Builtin, ServedKind};
use crate::meta::Meta;
use crate::namespaces::holds_content;
use crate::state::Inner;
use windlass_apimachinery::document;
use windlass_apimachinery::metadata;
use windlass_store::{Key, Object, Page, Range, WatchStream, Write};

/// How often a write that meets another one is tried again.
const TRIES: usize = 10;
/// The finalizer in `spec` that stands for the content.
const CONTENT: &str = "kubernetes";

type Document = Map<String, Value>;

/// As [`super::cleaning::Removal`].
pub(super) fn remove<'a>(inner: &'a Weak<Inner>, key: &'a Key, uid: &'a str) -> BoxFuture<'a, Result<()>> {
    Box::pin(remove_content(inner, key, uid))
}

/// Objects that are left, by kind.
struct Content {
    kinds: Vec<(ServedKind, Vec<Object>)>,
    /// What happens to them next.
    events: Vec<WatchStream>,
}

impl Content {
    async fn of(inner: &Arc<Inner>, namespace: &str) -> Result<Self> {
        let mut content = Self { kinds: Vec::new(), events: Vec::new() };
        let registry = inner.catalog.current();
        for kind in registry.kinds.iter().filter(|kind| kind.namespaced) {
            let range = Range::new(&kind.group, &kind.plural, Some(namespace))?;
            let listed = inner.store.list(&range, Page::default()).await?;
            if let (false, Some(served)) =
                (listed.objects.is_empty(), registry.stored(&kind.group, &kind.plural))
            {
                content.events.push(inner.store.watch(&range, listed.revision)?);
                content.kinds.push((served, listed.objects));
            }
        }
        Ok(content)
    }

    /// The conditions that say what is left, in the words of a real server.
    fn conditions(&self, now: &str) -> Vec<Value> {
        let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
        let mut remaining = Vec::new();
        for (served, objects) in &self.kinds {
            let kind = &served.kind;
            remaining.push(format!(
                "{}.{} has {} resource instances",
                kind.plural,
                kind.group,
                objects.len()
            ));
            for finalizer in objects.iter().flat_map(|object| Meta::of(object).finalizers) {
                *finalizers.entry(finalizer).or_default() += 1;
            }
        }
        remaining.sort();
        let finalizers: Vec<String> = finalizers
            .into_iter()
            .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"))
            .collect();
        let condition = |kind: &str, bad: &[String], words: [&str; 4]| {
            let [ok_reason, ok_message, reason, message] = words;
            let ok = bad.is_empty();
            let text = if ok { ok_message.to_owned() } else { format!("{message}: {}", bad.join(", ")) };
            json!({ "type": kind, "status": if ok { "False" } else { "True" }, "lastTransitionTime": now,
                "reason": if ok { ok_reason } else { reason }, "message": text })
        };
        let fine = |kind: &str, reason: &str, message: &str| condition(kind, &[], [reason, message, "", ""]);
        vec![
            fine(
                "NamespaceDeletionDiscoveryFailure",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            fine(
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            fine(
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
            condition(
                "NamespaceContentRemaining",
                &remaining,
                [
                    "ContentRemoved",
                    "All content successfully removed",
                    "SomeResourcesRemain",
                    "Some resources are remaining",
                ],
            ),
            condition(
                "NamespaceFinalizersRemaining",
                &finalizers,
                [
                    "ContentHasNoFinalizers",
                    "All content-preserving finalizers finished",
                    "SomeFinalizersRemain",
                    "Some content in the namespace has finalizers remaining",
                ],
            ),
        ]
    }
}

async fn remove_content(inner: &Weak<Inner>, key: &Key, uid: &str) -> Result<()> {
    let namespace = key.name();
    loop {
        let Some(strong) = inner.upgrade() else { return Ok(()) };
        for (served, objects) in &Content::of(&strong, namespace).await?.kinds {
            delete_all(&strong, served, objects).await?;
        }
        // What is left has finalizers.
        let left = Content::of(&strong, namespace).await?;
        let conditions = left.conditions(&strong.now_text());
        let done = left.kinds.is_empty();
        let kept = update(&strong, key, uid, |document| {
            set_conditions(document, &conditions);
            if done && let Some(Value::Object(spec)) = document.get_mut("spec") {
                if let Some(Value::Array(finalizers)) = spec.get_mut("finalizers") {
                    finalizers.retain(|finalizer| finalizer != CONTENT);
                }
                if spec.get("finalizers") == Some(&json!([])) {
                    spec.remove("finalizers");
                }
            }
        })
        .await?;
        if done || !kept {
            return Ok(());
        }
        let stop = strong.stop.clone();
        drop(strong);
        let mut events = left.events;
        let next = futures::future::select_all(events.iter_mut().map(|events| Box::pin(events.next())));
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            (event, ..) = next => { event?; }
        }
    }
}

fn set_conditions(document: &mut Document, conditions: &[Value]) {
    let Value::Object(status) = document.entry("status").or_insert_with(|| json!({})) else { return };
    let old = status.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
    let kept: Vec<Value> = conditions
        .iter()
        .map(|condition| {
            let mut condition = condition.clone();
            if let Some(before) = old.iter().find(|before| before["type"] == condition["type"])
                && before["status"] == condition["status"]
            {
                condition["lastTransitionTime"] = before["lastTransitionTime"].clone();
            }
            condition
        })
        .collect();
    status.insert("conditions".to_owned(), json!(kept));
}

/// Changes a Namespace that is being deleted; removes it when nothing holds it any more. Whether it is still there.
async fn update(inner: &Arc<Inner>, key: &Key, uid: &str, change: impl Fn(&mut Document)) -> Result<bool> {
    let registry = inner.catalog.current();
    let kind = registry.builtin(Builtin::Namespace).ok_or_else(Failure::unknown_path)?;
    for _ in 0..TRIES {
        let Some(stored) = inner.store.get(key).await? else { return Ok(false) };
        let mut document: Document =
            serde_json::from_slice(&stored.value).map_err(|error| Failure::internal(&error))?;
        if metadata::text(&document, "uid") != uid || !metadata::is_deleting(&document) {
            return Ok(false);
        }
        change(&mut document);
        let held = !metadata::finalizers(&document).is_empty() || holds_content(&document);
        let value = Bytes::from(document::encode(&kind.stored().head, &document, b""));
        if held && value == stored.value {
            return Ok(true);
        }
        let write = if held {
            Write::update(key.clone(), stored.revision, value)
        } else {
            Write::delete(key.clone(), stored.revision)
        };
        if inner.commit(kind, vec![write]).await?.is_some() {
            return Ok(held);
        }
    }
    Err(Failure::bad_request("the namespace was changed again and again"))
}
