//! The objects of a watch, for everybody to read.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use kube::Resource;
use tokio::sync::watch;

/// Where an object is: its namespace (empty for kinds without one) and its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; empty for kinds without one.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of that namespace and name.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// What a watch has to know of an object; every [`Resource`] tells it.
///
/// A type that keeps little of an object, since there are many, need not have all the room that a resource's metadata
/// takes: it implements this, and is followed by [`Watch::reading`](crate::Watch::reading).
pub trait Watched {
    /// Where it is.
    fn key(&self) -> Arc<ObjectKey>;

    /// Which object of that key it is.
    fn uid(&self) -> Option<&str>;

    /// Its `resourceVersion`.
    fn version(&self) -> Option<&str>;
}

impl<K: Resource> Watched for K {
    fn key(&self) -> Arc<ObjectKey> {
        Arc::new(ObjectKey::of(self))
    }

    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref()
    }

    fn version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref()
    }
}

/// Whether the first `resourceVersion` is of an earlier time than the second: no where that cannot be told. Those of one
/// kind of object are numbers that grow (Kubernetes 1.35; etcd's revisions always were).
pub fn is_older(version: &str, than: &str) -> bool {
    let number = |version: &str| version.parse::<u64>().ok();
    number(version).zip(number(than)).is_some_and(|(version, than)| version < than)
}

pub(super) type Objects<K> = BTreeMap<Arc<ObjectKey>, Arc<K>>;

/// A reader of the objects that a [`Watch`](crate::Watch) knows. Cheap to clone.
///
/// What it holds may be behind the server; writes made from it carry a resourceVersion, and conflict if it was.
pub struct Store<K> {
    pub(super) objects: Arc<RwLock<Objects<K>>>,
    pub(super) synced: watch::Receiver<bool>,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self { objects: Arc::clone(&self.objects), synced: self.synced.clone() }
    }
}

impl<K> fmt::Debug for Store<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).field("synced", &self.is_synced()).finish()
    }
}

impl<K> Store<K> {
    /// The object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read(|objects| objects.get(key).cloned())
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read(|objects| objects.values().cloned().collect())
    }

    /// The keys of all objects, in order.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.read(|objects| objects.keys().map(|key| ObjectKey::clone(key)).collect())
    }

    /// The objects of one namespace, ordered by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        self.read(|objects| {
            let from = objects.range::<ObjectKey, _>(&ObjectKey::new(namespace, "")..);
            from.take_while(|(key, _)| key.namespace == namespace)
                .map(|(_, object)| Arc::clone(object))
                .collect()
        })
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read(BTreeMap::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a first list has been finished.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits for the first list. Never returns when the watch ended before it.
    pub async fn synced(&self) {
        if self.synced.clone().wait_for(|synced| *synced).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Objects<K>) -> T) -> T {
        read(&self.objects.read().unwrap_or_else(PoisonError::into_inner))
    }
}
