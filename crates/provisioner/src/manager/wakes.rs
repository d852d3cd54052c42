//! Which owners are visited again when an object changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kube::Api;
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass_runtime::{
    Event, KeyedQueue, ObjectKey, ObjectVersion, Scope as Namespaces, Store, Watch, WatchConfig, Watched,
};
use windlass_telemetry::Health;

use crate::scope::Watches;
use crate::{Cluster, Observation, WakeOn};

/// One watch for each kind of object that a tree of the process is about, begun when it is first of use; on other clusters
/// one for each namespace, which ends when no tree is about it any more, and begins anew when the credentials are replaced.
pub(super) struct Wakes {
    namespaces: Namespaces,
    queue: KeyedQueue<ObjectKey>,
    shutdown: CancellationToken,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    kinds: HashMap<Kind, Followed>,
    by_owner: HashMap<ObjectKey, BTreeSet<WakeOn>>,
}

/// Cluster, its namespace there, group, version and plural. The local cluster's has no namespace.
type Kind = (String, String, String, String, String);

struct Followed {
    cluster: Cluster,
    store: Store<ObjectVersion>,
    _end: DropGuard,
    owners: HashMap<ObjectKey, Owners>,
}

/// Who follows an object, how many changes of it were seen since, and what was read of it last.
#[derive(Default)]
struct Owners {
    keys: HashSet<ObjectKey>,
    changes: u64,
    read: Option<Arc<Value>>,
}

fn kind_of(object: &WakeOn) -> Kind {
    let WakeOn { cluster, group, version, plural, namespace, .. } = object;
    let namespace = if cluster.is_empty() { "" } else { namespace };
    (cluster.clone(), namespace.to_owned(), group.clone(), version.clone(), plural.clone())
}

fn key_of(object: &WakeOn) -> ObjectKey {
    ObjectKey::new(object.namespace.as_str(), object.name.as_str())
}

impl Wakes {
    pub(super) fn new(
        namespaces: Namespaces,
        queue: KeyedQueue<ObjectKey>,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self { namespaces, queue, shutdown, inner: Mutex::default() })
    }

    /// Whether the object's changes can be seen from here.
    fn is_visible(&self, object: &WakeOn) -> bool {
        let namespace = self.namespaces.namespace();
        !object.cluster.is_empty() || namespace.is_none_or(|namespace| namespace == object.namespace)
    }

    fn follow(self: &Arc<Self>, owner: &ObjectKey, cluster: &Cluster, object: &WakeOn) {
        if !self.is_visible(object) {
            return;
        }
        let mut inner = self.lock();
        let kind = kind_of(object);
        let watch = || self.watch(kind.clone(), cluster, object);
        let followed = inner.kinds.entry(kind.clone()).or_insert_with(watch);
        if !object.cluster.is_empty() && !followed.cluster.is_same(cluster) {
            *followed = Followed { owners: std::mem::take(&mut followed.owners), ..watch() };
        }
        followed.owners.entry(key_of(object)).or_default().keys.insert(owner.clone());
        inner.by_owner.entry(owner.clone()).or_default().insert(object.clone());
    }

    /// Ends what the owner follows but these.
    pub(super) fn keep(&self, owner: &ObjectKey, kept: &BTreeSet<WakeOn>) {
        let mut inner = self.lock();
        let Some(before) = inner.by_owner.remove(owner) else { return };
        let (kept, dropped): (BTreeSet<_>, BTreeSet<_>) =
            before.into_iter().partition(|object| kept.contains(object));
        for object in dropped {
            let Some(followed) = inner.kinds.get_mut(&kind_of(&object)) else { continue };
            if let Some(owners) = followed.owners.get_mut(&key_of(&object)) {
                owners.keys.remove(owner);
                if owners.keys.is_empty() {
                    followed.owners.remove(&key_of(&object));
                }
            }
            if followed.owners.is_empty() && !object.cluster.is_empty() {
                inner.kinds.remove(&kind_of(&object));
            }
        }
        if !kept.is_empty() {
            inner.by_owner.insert(owner.clone(), kept);
        }
    }

    fn watch(self: &Arc<Self>, kind: Kind, cluster: &Cluster, object: &WakeOn) -> Followed {
        let resource = ApiResource {
            group: object.group.clone(),
            version: object.version.clone(),
            api_version: match object.group.as_str() {
                "" => object.version.clone(),
                group => format!("{group}/{}", object.version),
            },
            kind: object.kind.clone(),
            plural: object.plural.clone(),
        };
        let client = cluster.client().clone();
        let api: Api<DynamicObject> = match object.namespace.as_str() {
            "" => Api::all_with(client, &resource),
            namespace if !cluster.is_local() => Api::namespaced_with(client, namespace, &resource),
            _ => self.namespaces.api_of(client, &resource),
        };
        // Whatever else there is of an object, and be it a Secret's, is asked for when a node looks at it.
        let config = WatchConfig { metadata_only: true, ..WatchConfig::new(object.plural.clone()) };
        let watch = Watch::<ObjectVersion>::reading(api, config);
        let store = watch.store();
        let wakes: Weak<Self> = Arc::downgrade(self);
        // A kind that is not served is no reason to call the process unwell: its trees say that they wait for it.
        let end = self.shutdown.child_token();
        let watching = watch.run(Health::new(), end.clone(), move |event| {
            let object = match &event {
                Event::Applied { new, .. } => new,
                Event::Deleted(object) => object,
                Event::Synced => return,
            };
            if let Some(wakes) = wakes.upgrade() {
                wakes.changed(&kind, &object.key());
            }
        });
        tokio::spawn(watching);
        Followed { cluster: cluster.clone(), store, _end: end.drop_guard(), owners: HashMap::new() }
    }

    fn changed(&self, kind: &Kind, object: &ObjectKey) {
        let mut inner = self.lock();
        let owners = inner.kinds.get_mut(kind).and_then(|followed| followed.owners.get_mut(object));
        let Some(Owners { keys, changes, .. }) = owners else { return };
        *changes += 1;
        for owner in keys.iter() {
            self.queue.add(owner.clone());
        }
    }

    fn changes(&self, object: &WakeOn) -> Option<u64> {
        let inner = self.lock();
        let followed = inner.kinds.get(&kind_of(object)).filter(|followed| followed.store.is_synced());
        Some(followed?.owners.get(&key_of(object))?.changes)
    }

    fn remember(&self, object: &WakeOn, read: &Arc<Value>) {
        let mut inner = self.lock();
        let followed = inner.kinds.get_mut(&kind_of(object));
        if let Some(owners) = followed.and_then(|followed| followed.owners.get_mut(&key_of(object))) {
            owners.read = Some(Arc::clone(read));
        }
    }

    fn remembered(&self, object: &WakeOn) -> Option<Arc<Value>> {
        let inner = self.lock();
        let followed = inner.kinds.get(&kind_of(object)).filter(|followed| followed.store.is_synced())?;
        let read = followed.owners.get(&key_of(object))?.read.as_ref()?;
        let seen = followed.store.get(&key_of(object))?;
        (read["metadata"]["resourceVersion"].as_str()? == seen.version()?).then(|| Arc::clone(read))
    }

    fn observe(&self, object: &WakeOn) -> Observation {
        if !self.is_visible(object) {
            return Observation::Unknown;
        }
        let inner = self.lock();
        let followed = inner.kinds.get(&kind_of(object)).filter(|followed| followed.store.is_synced());
        match followed.map(|followed| followed.store.get(&key_of(object))) {
            None => Observation::Unknown,
            Some(None) => Observation::Absent,
            Some(Some(found)) => Observation::Version(found.version().unwrap_or_default().to_owned()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The watches, as one owner sees them.
pub(super) struct OwnersWatches {
    pub(super) wakes: Arc<Wakes>,
    pub(super) owner: ObjectKey,
}

impl Watches for OwnersWatches {
    fn observe(&self, object: &WakeOn) -> Observation {
        self.wakes.observe(object)
    }

    fn follow(&self, cluster: &Cluster, object: &WakeOn) {
        self.wakes.follow(&self.owner, cluster, object);
    }

    fn changes(&self, object: &WakeOn) -> Option<u64> {
        self.wakes.changes(object)
    }

    fn remember(&self, object: &WakeOn, read: &Arc<Value>) {
        self.wakes.remember(object, read);
    }

    fn remembered(&self, object: &WakeOn) -> Option<Arc<Value>> {
        self.wakes.remembered(object)
    }
}
