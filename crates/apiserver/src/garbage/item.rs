//! What becomes of one object whose owners, or whose dependants, have changed.
//!
//! The rules are those of kube-controller-manager's garbage collector: an object stays while one of its owners exists;
//! references to owners that are gone, or that wait for it, are then taken off; without such an owner it is deleted, in
//! the foreground if an owner waits for it and it has dependants itself.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::cleaning::{find, update};
use super::graph::{Dependant, Node};
use crate::failure::Result;
use crate::meta::{FOREGROUND, Meta, ORPHAN};
use crate::state::Inner;
use crate::writer::{Deletion, Dependants, Writer};
use windlass_apimachinery::metadata;
use windlass_store::{Key, Object};

/// An object to look at, with what the graph knows of it.
pub(super) struct Item {
    pub(super) uid: String,
    pub(super) node: Node,
    pub(super) dependants: Vec<Dependant>,
}

/// What follows from having looked at an object.
pub(super) enum Visit {
    Done,
    /// It was changed meanwhile.
    Again,
    /// These are to be looked at.
    LookAt(Vec<String>),
    /// An owner is of a kind that is not served: nothing is known of it until other kinds are.
    Unresolved,
}

type Document = Map<String, Value>;

/// Does with an object what its owners and its own deletion ask for.
pub(super) async fn look_at(inner: &Arc<Inner>, item: Item) -> Result<Visit> {
    let Some((served, object)) = find(inner, &item.node.key, &item.uid).await? else {
        return Ok(Visit::Done);
    };
    let meta = Meta::of(&object);
    if meta.deletion_timestamp.is_some() {
        return if item.node.orphaning {
            orphan(inner, &item).await
        } else if meta.is_foreground() {
            wait_for_dependants(inner, &item).await
        } else {
            // It goes when its finalizers are gone, and then its dependants are looked at.
            Ok(Visit::Done)
        };
    }
    if meta.owner_references.is_empty() {
        return Ok(Visit::Done);
    }
    let Some(owners) = classify(inner, &object, &meta).await? else { return Ok(Visit::Unresolved) };
    let writer = Writer::internal(inner, &served, &object.key);
    if owners.solid {
        if owners.absent.is_empty() && owners.waiting.is_empty() {
            return Ok(Visit::Done);
        }
        let useless = [owners.absent, owners.waiting].concat();
        return change(&writer, &object, |document| drop_owners(document, &useless)).await;
    }
    let dependants = if owners.waiting.is_empty() || item.dependants.is_empty() {
        let has = |finalizer: &str| meta.finalizers.iter().any(|one| one == finalizer);
        match () {
            () if has(ORPHAN) => Dependants::Orphan,
            () if has(FOREGROUND) => Dependants::Foreground,
            () => Dependants::Background,
        }
    } else {
        // A circle: the owner waits for this one, which would wait for a dependant that waits already.
        if item.dependants.iter().any(|dependant| dependant.foreground)
            && let Visit::Again = change(&writer, &object, unblock).await?
        {
            return Ok(Visit::Again);
        }
        Dependants::Foreground
    };
    let Some(current) = inner.store.get(&object.key).await? else { return Ok(Visit::Done) };
    // Only if its owners are still those that were judged.
    if Meta::of(&current).owner_references != meta.owner_references {
        return Ok(Visit::Again);
    }
    let wanted = Deletion { uid: Some(item.uid), dependants: Some(dependants), ..Deletion::default() };
    match Box::pin(writer.delete_state(&current, &wanted)).await {
        Ok(Some(_)) => Ok(Visit::Done),
        Ok(None) => Ok(Visit::Again),
        Err(failure) if failure.is_not_found() => Ok(Visit::Done),
        Err(failure) => Err(failure),
    }
}

/// The owners of an object, by what is known of them.
#[derive(Default)]
struct Owners {
    /// One exists and does not wait for its dependants.
    solid: bool,
    absent: Vec<String>,
    waiting: Vec<String>,
}

/// `None`: the kind of one is not served, or one cannot be an owner at all.
async fn classify(inner: &Arc<Inner>, object: &Object, meta: &Meta) -> Result<Option<Owners>> {
    let mut owners = Owners::default();
    let registry = inner.catalog.current();
    for reference in &meta.owner_references {
        let (group, version) = reference.api_version.rsplit_once('/').unwrap_or(("", &reference.api_version));
        let Some(served) = registry.by_kind(group, version, &reference.kind) else { return Ok(None) };
        let kind = &served.kind;
        let namespace = object.key.namespace();
        if kind.namespaced && namespace.is_empty() {
            return Ok(None);
        }
        let namespace = if kind.namespaced { namespace } else { "" };
        let found = match Key::new(&kind.group, &kind.plural, namespace, &reference.name) {
            Ok(key) => inner.store.get(&key).await?,
            Err(_) => None,
        };
        match found.map(|owner| Meta::of(&owner)).filter(|owner| owner.uid == reference.uid) {
            None => owners.absent.push(reference.uid.clone()),
            Some(owner) if owner.is_foreground() => owners.waiting.push(reference.uid.clone()),
            Some(_) => owners.solid = true,
        }
    }
    Ok(Some(owners))
}

/// An owner that is deleted in the foreground goes when no dependant holds it any more.
async fn wait_for_dependants(inner: &Arc<Inner>, item: &Item) -> Result<Visit> {
    let blocking = item.dependants.iter().filter(|dependant| dependant.blocks);
    let (waiting, idle): (Vec<_>, Vec<_>) = blocking.partition(|dependant| dependant.foreground);
    if waiting.is_empty() && idle.is_empty() {
        return drop_finalizer(inner, item, FOREGROUND).await;
    }
    Ok(Visit::LookAt(idle.into_iter().map(|dependant| dependant.uid.clone()).collect()))
}

/// Takes the references to an owner off its dependants, then lets it go.
async fn orphan(inner: &Arc<Inner>, item: &Item) -> Result<Visit> {
    let owner = [item.uid.clone()];
    for Dependant { key, uid, .. } in &item.dependants {
        update(inner, key, uid, |document, _| drop_owners(document, &owner)).await?;
    }
    drop_finalizer(inner, item, ORPHAN).await
}

async fn drop_finalizer(inner: &Arc<Inner>, item: &Item, finalizer: &str) -> Result<Visit> {
    let take_off = |document: &mut Document, _: &str| metadata::remove_finalizer(document, finalizer);
    update(inner, &item.node.key, &item.uid, take_off).await?;
    Ok(Visit::Done)
}

fn drop_owners(document: &mut Document, uids: &[String]) {
    let fields = metadata::of(document);
    if let Some(Value::Array(owners)) = fields.get_mut("ownerReferences") {
        let gone: HashSet<&str> = uids.iter().map(String::as_str).collect();
        owners.retain(|owner| !owner["uid"].as_str().is_some_and(|uid| gone.contains(uid)));
        if owners.is_empty() {
            fields.remove("ownerReferences");
        }
    }
}

fn unblock(document: &mut Document) {
    if let Some(Value::Array(owners)) = metadata::of(document).get_mut("ownerReferences") {
        for owner in owners.iter_mut().filter(|owner| owner["blockOwnerDeletion"] == true) {
            owner["blockOwnerDeletion"] = json!(false);
        }
    }
}

/// Stores a change of the metadata of this state of an object.
async fn change(writer: &Writer, object: &Object, change: impl FnOnce(&mut Document)) -> Result<Visit> {
    let stored = Box::pin(writer.change(object, change)).await?;
    Ok(if stored { Visit::Done } else { Visit::Again })
}
