//! Which owners are visited again when an object changes.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{
    Event, KeyedQueue, ObjectKey, Scope as Namespaces, Store, Watch, WatchConfig, Watched,
};
use windlass_telemetry::Health;

use crate::WakeOn;
use crate::scope::Watches;

/// One watch for each kind of object that a tree of the process is about, begun when it is first of use. Objects on other
/// clusters are not watched: they are looked at again when a yield's time is over.
pub(super) struct Wakes {
    client: Client,
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

/// Group, version and plural.
type Kind = (String, String, String);

struct Followed {
    store: Store<Seen>,
    owners: HashMap<ObjectKey, HashSet<ObjectKey>>,
}

/// What is kept of an object.
#[derive(Deserialize)]
struct Seen {
    metadata: SeenMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenMetadata {
    #[serde(default)]
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

impl Watched for Seen {
    fn key(&self) -> Arc<ObjectKey> {
        Arc::new(ObjectKey::new(self.metadata.namespace.as_str(), self.metadata.name.as_str()))
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.metadata.uid)
    }

    fn version(&self) -> Option<&str> {
        Some(&self.metadata.resource_version)
    }
}

fn kind_of(object: &WakeOn) -> Kind {
    (object.group.clone(), object.version.clone(), object.plural.clone())
}

fn key_of(object: &WakeOn) -> ObjectKey {
    ObjectKey::new(object.namespace.as_str(), object.name.as_str())
}

impl Wakes {
    pub(super) fn new(
        client: Client,
        namespaces: Namespaces,
        queue: KeyedQueue<ObjectKey>,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        Arc::new(Self { client, namespaces, queue, shutdown, inner: Mutex::default() })
    }

    /// Whether the object's changes can be seen from here.
    fn is_visible(&self, object: &WakeOn) -> bool {
        let namespace = self.namespaces.namespace();
        object.cluster.is_empty() && namespace.is_none_or(|namespace| namespace == object.namespace)
    }

    fn follow(self: &Arc<Self>, owner: &ObjectKey, object: &WakeOn) {
        if !self.is_visible(object) {
            return;
        }
        let mut inner = self.lock();
        let kind = kind_of(object);
        let followed = inner.kinds.entry(kind.clone()).or_insert_with(|| self.watch(kind, object));
        followed.owners.entry(key_of(object)).or_default().insert(owner.clone());
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
                owners.remove(owner);
                if owners.is_empty() {
                    followed.owners.remove(&key_of(&object));
                }
            }
        }
        if !kept.is_empty() {
            inner.by_owner.insert(owner.clone(), kept);
        }
    }

    fn watch(self: &Arc<Self>, kind: Kind, object: &WakeOn) -> Followed {
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
        let api: Api<DynamicObject> = if object.namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            self.namespaces.api_of(self.client.clone(), &resource)
        };
        let watch = Watch::<Seen>::reading(api, WatchConfig::new(object.plural.clone()));
        let store = watch.store();
        let wakes: Weak<Self> = Arc::downgrade(self);
        // A kind that is not served is no reason to call the process unwell: its trees say that they wait for it.
        let watching = watch.run(Health::new(), self.shutdown.clone(), move |event| {
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
        Followed { store, owners: HashMap::new() }
    }

    fn changed(&self, kind: &Kind, object: &ObjectKey) {
        let inner = self.lock();
        let owners = inner.kinds.get(kind).and_then(|followed| followed.owners.get(object));
        for owner in owners.into_iter().flatten() {
            self.queue.add(owner.clone());
        }
    }

    fn version(&self, object: &WakeOn) -> Option<String> {
        if !self.is_visible(object) {
            return None;
        }
        let inner = self.lock();
        let found = inner.kinds.get(&kind_of(object))?.store.get(&key_of(object))?;
        Some(found.metadata.resource_version.clone())
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
    fn version(&self, object: &WakeOn) -> Option<String> {
        self.wakes.version(object)
    }

    fn follow(&self, object: &WakeOn) {
        self.wakes.follow(&self.owner, object);
    }
}
