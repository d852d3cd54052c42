//! The content of a namespace goes before its Namespace object does.
//!
//! Namespaces are implicit here, unless the server was built to ask for them: a Namespace object is not needed to put
//! objects into it. Where there is one, deleting it marks it (`Terminating`), which keeps new objects out, deletes everything that is in the namespace, waits for
//! those with finalizers, takes the `kubernetes` finalizer off, and lets the object go.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, Weak};

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tracing::{info, warn};

use super::graph::Meta;
use super::{delete_all, until_done};
use crate::failure::{Failure, Result};
use crate::kinds::{Builtin, Kind, ServedKind};
use crate::request::Target;
use crate::state::Inner;
use crate::verbs::Context;
use windlass_apimachinery::document;
use windlass_apimachinery::metadata;
use windlass_store::{Key, Object, Page, Range, StoreError, WatchStream, Write};

/// How often a write that meets another one is tried again.
const TRIES: usize = 10;
/// The namespaces that are there from the first moment.
const FIRST: [&str; 2] = ["default", "kube-system"];
/// The finalizer in `spec` that stands for the content.
const CONTENT: &str = "kubernetes";

type Document = Map<String, Value>;

/// What is known of namespaces, which is changed with what is stored of them.
#[derive(Debug)]
pub(crate) struct Namespaces {
    /// Those that there are, and whether nothing may be created in them any more.
    stored: HashMap<String, bool>,
    /// Whether nothing may be created in one that there is not.
    must_exist: bool,
}

impl Namespaces {
    pub(crate) fn new(must_exist: bool) -> Self {
        Self { stored: HashMap::new(), must_exist }
    }

    /// Refuses to create an object of this name where nothing may be created.
    pub(crate) fn check(&self, kind: &Kind, name: &str, namespace: &str) -> Result<()> {
        match self.stored.get(namespace) {
            Some(true) => Err(Failure::namespace_terminating(kind, name, namespace)),
            None if self.must_exist => Err(Failure::no_namespace(namespace)),
            Some(false) | None => Ok(()),
        }
    }

    /// A Namespace was written, or removed (`None`).
    pub(crate) fn written(&mut self, name: &str, object: Option<&Object>) {
        match object {
            Some(object) => {
                self.stored.insert(name.to_owned(), Meta::of(object).deletion_timestamp.is_some());
            }
            None => {
                self.stored.remove(name);
            }
        }
    }
}

impl Inner {
    /// Reads which namespaces there are.
    pub(crate) async fn read_namespaces(&self) -> Result<()> {
        let range = Range::new("", "namespaces", None)?;
        let mut namespaces = self.namespaces.write().await;
        for object in self.store.list(&range, Page::default()).await?.objects {
            namespaces.written(object.key.name(), Some(&object));
        }
        Ok(())
    }

    /// Makes the namespaces that are there from the first moment, where they are not.
    pub(crate) async fn make_namespaces(self: &Arc<Self>) -> Result<()> {
        let registry = self.catalog.current();
        let served = registry.stored("", "namespaces").ok_or_else(Failure::unknown_path)?;
        for name in FIRST {
            let key = Key::new("", "namespaces", "", name)?;
            if self.store.get(&key).await?.is_some() {
                continue;
            }
            let Value::Object(object) = json!({ "metadata": { "name": name } }) else { continue };
            let target = Target { name: None, ..Target::object(&served, &key) };
            match Context::internal(self, target).make(object).await {
                // A full disk is no reason not to start.
                Err(failure) if !failure.is_already_exists() => {
                    warn!(namespace = name, ?failure, "failed to make a namespace that is always there");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Marks a Namespace as being deleted.
pub(crate) fn mark(document: &mut Document, now: &str) {
    metadata::of(document).insert("deletionTimestamp".to_owned(), json!(now));
    if let Value::Object(status) = document.entry("status").or_insert_with(|| json!({})) {
        status.insert("phase".to_owned(), json!("Terminating"));
    }
}

/// Starts to empty a namespace, unless that is under way.
pub(super) fn empty(inner: &Weak<Inner>, key: &Key, uid: &str) {
    let Some(strong) = inner.upgrade() else { return };
    let mut cleaning = strong.cleaning.lock().unwrap_or_else(PoisonError::into_inner);
    if cleaning.insert(uid.to_owned()) {
        strong.spawn(run(inner.clone(), key.clone(), uid.to_owned()));
    }
}

fn run(inner: Weak<Inner>, key: Key, uid: String) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let namespace = key.name();
        let is_done = until_done(&inner, namespace, || Box::pin(remove_content(&inner, &key, &uid))).await;
        let Some(inner) = inner.upgrade() else { return };
        inner.cleaning.lock().unwrap_or_else(PoisonError::into_inner).remove(&uid);
        if is_done {
            info!(namespace, "removed the content of a namespace");
        }
    })
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
        let mut namespaces = inner.namespaces.write().await;
        match inner.store.commit(vec![write]).await {
            Ok(_) if held => return Ok(true),
            Ok(_) => {
                namespaces.written(key.name(), None);
                return Ok(false);
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::bad_request("the namespace was changed again and again"))
}

/// Whether a Namespace has finalizers in its spec: its content was not removed yet.
pub(crate) fn holds_content(document: &Document) -> bool {
    let finalizers = document.get("spec").and_then(|spec| spec.get("finalizers"));
    finalizers.and_then(Value::as_array).is_some_and(|finalizers| !finalizers.is_empty())
}
