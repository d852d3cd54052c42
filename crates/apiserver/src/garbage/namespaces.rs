//! The content of a namespace goes before its Namespace object does.
//!
//! Deleting a Namespace marks it (`Terminating`), which keeps new objects out, deletes everything that is in the namespace, waits for
//! those with finalizers, takes the `kubernetes` finalizer off, and lets the object go.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use serde_json::{Value, json};

use super::cleaning::{delete_all, update};
use crate::failure::Result;
use crate::kinds::ServedKind;
use crate::meta::Meta;
use crate::state::Inner;
use windlass_apimachinery::definition::set_condition;
use windlass_store::{Key, Object, Page, Range, WatchStream};

/// The finalizer in `spec` that stands for the content.
const CONTENT: &str = "kubernetes";

/// What cannot fail here, in the words of a real server: the condition's type, its reason and its message.
const FINE: [[&str; 3]; 3] = [
    ["NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"],
    [
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ],
    [
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ],
];

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

    /// The conditions that say what is left, in the words of a real server: type, status, reason and message.
    fn conditions(&self) -> Vec<(&'static str, &'static str, &'static str, String)> {
        let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
        let objects = self.kinds.iter().flat_map(|(_, objects)| objects);
        for finalizer in objects.flat_map(|object| Meta::of(object).finalizers) {
            *finalizers.entry(finalizer).or_default() += 1;
        }
        let finalizers =
            finalizers.iter().map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
        let remaining = self.kinds.iter().map(|(served, objects)| {
            format!("{}.{} has {} resource instances", served.kind.plural, served.kind.group, objects.len())
        });
        let left = |kind, fine: [&'static str; 2], bad: [&'static str; 2], mut left: Vec<String>| {
            left.sort();
            match left.as_slice() {
                [] => (kind, "False", fine[0], fine[1].to_owned()),
                left => (kind, "True", bad[0], format!("{}: {}", bad[1], left.join(", "))),
            }
        };
        let fine = FINE.map(|[kind, reason, message]| (kind, "False", reason, message.to_owned()));
        let mut conditions = fine.to_vec();
        conditions.push(left(
            "NamespaceContentRemaining",
            ["ContentRemoved", "All content successfully removed"],
            ["SomeResourcesRemain", "Some resources are remaining"],
            remaining.collect(),
        ));
        conditions.push(left(
            "NamespaceFinalizersRemaining",
            ["ContentHasNoFinalizers", "All content-preserving finalizers finished"],
            ["SomeFinalizersRemain", "Some content in the namespace has finalizers remaining"],
            finalizers.collect(),
        ));
        conditions
    }
}

/// Removes the content of the namespace of this key and UID, and then the namespace.
pub(super) async fn remove(inner: &Weak<Inner>, key: &Key, uid: &str) -> Result<()> {
    let namespace = key.name();
    loop {
        let Some(strong) = inner.upgrade() else { return Ok(()) };
        for (served, objects) in &Content::of(&strong, namespace).await?.kinds {
            delete_all(&strong, served, objects).await?;
        }
        // What is left has finalizers.
        let left = Content::of(&strong, namespace).await?;
        let conditions = left.conditions();
        let done = left.kinds.is_empty();
        let found = update(&strong, key, uid, |document, now| {
            for (kind, status, reason, message) in &conditions {
                set_condition(document, kind, status, reason, message, now);
            }
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
        if done || found.is_none() {
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
