//! Finalizers: names in an object's metadata that keep it until whoever put them there takes them off.

use std::fmt::Debug;

use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{CallError, CallOptions, Part, merge_patch};

/// Adds these finalizers after those that the object has, and answers the object as it is then; nothing is sent when it
/// has them all. A conflict when the object has changed since.
///
/// A server refuses new finalizers on an object that is being deleted.
pub async fn add_finalizers<K>(
    api: &Api<K>,
    object: &K,
    names: &[String],
    options: impl Into<CallOptions>,
) -> Result<K, CallError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut wanted = object.meta().finalizers.clone().unwrap_or_default();
    let before = wanted.len();
    for name in names {
        if !wanted.contains(name) {
            wanted.push(name.clone());
        }
    }
    if wanted.len() == before {
        return Ok(object.clone());
    }
    set(api, object, &wanted, options).await
}

/// Takes a finalizer off, and answers the object as it is then; nothing is sent when it does not have it. A conflict
/// when the object has changed since. An object that is gone has no finalizers: it is answered without.
pub async fn remove_finalizer<K>(
    api: &Api<K>,
    object: &K,
    name: &str,
    options: impl Into<CallOptions>,
) -> Result<K, CallError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let mut kept = object.meta().finalizers.clone().unwrap_or_default();
    let before = kept.len();
    kept.retain(|held| held != name);
    if kept.len() == before {
        return Ok(object.clone());
    }
    match set(api, object, &kept, options).await {
        Err(error) if error.is_not_found() => {
            let mut gone = object.clone();
            gone.meta_mut().finalizers = None;
            Ok(gone)
        }
        written => written,
    }
}

async fn set<K>(
    api: &Api<K>,
    object: &K,
    finalizers: &[String],
    options: impl Into<CallOptions>,
) -> Result<K, CallError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    merge_patch(api, object, Part::Object, json!({"metadata": {"finalizers": finalizers}}), options).await
}
