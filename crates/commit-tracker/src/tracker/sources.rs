//! The sources that Kustomizations name: each kind is watched from when the first of them names one.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use windlass_runtime::{Event, ObjectKey, Scope, Store, Supervisor, Watch, WatchConfig};
use windlass_telemetry::Health;

use super::lead::{Current, Task};
use crate::objects::{
    BucketKind, ExternalArtifactKind, GitRepositoryKind, OciRepositoryKind, Source, SourceObject,
};
use crate::select::{INSTALL_FLUX, PAGE};
use crate::{SourceFacts, SourceKey, SourceKind};

/// What is known of a source.
#[derive(Debug)]
pub(crate) enum Known {
    /// Nothing yet: its kind has not been listed, or is not served.
    NotYet,
    /// It is not there.
    Gone,
    /// What it says, and which version of which object says it.
    There(Box<SourceFacts>, Version),
}

/// Tells one specification of a source from another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    pub(super) uid: Box<str>,
    pub(super) generation: u64,
}

/// What is watched, and who wants to know.
#[derive(Clone)]
pub(crate) struct Sources {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    /// Where Kustomizations are: one that keeps to a namespace does not ask for sources of all.
    scope: Scope,
    supervisor: Supervisor,
    current: Current,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watched: HashMap<Place, (Arc<dyn Collection>, Health)>,
    users: HashMap<SourceKey, BTreeSet<Arc<ObjectKey>>>,
}

/// What one watch is of: a kind, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    kind: SourceKind,
    namespace: Option<String>,
}

/// The sources of one kind.
trait Collection: Send + Sync {
    fn look_up(&self, key: &ObjectKey) -> Known;
}

impl<K: SourceObject> Collection for Store<Source<K>> {
    fn look_up(&self, key: &ObjectKey) -> Known {
        if !self.is_synced() {
            return Known::NotYet;
        }
        self.get(key).map_or(Known::Gone, |source| {
            let metadata = &source.metadata;
            let version = Version { uid: metadata.uid.clone(), generation: metadata.generation };
            Known::There(Box::new(SourceFacts::from(&*source)), version)
        })
    }
}

impl Sources {
    /// Sources that Kustomizations of `scope` name; watches are tasks of `supervisor`.
    pub(crate) fn new(client: Client, scope: Scope, supervisor: Supervisor, current: Current) -> Self {
        let state = Mutex::default();
        Self { inner: Arc::new(Inner { client, scope, supervisor, current, state }) }
    }

    /// What is known of a source that somebody [follows](Self::follow).
    pub(crate) fn get(&self, key: &SourceKey) -> Known {
        let watched = self.inner.lock().watched.get(&self.inner.place(key)).cloned();
        watched.map_or(Known::NotYet, |(known, _)| known.look_up(&ObjectKey::new(&key.namespace, &key.name)))
    }

    /// A Kustomization names this source now, and that one before: it is looked at when its source changes.
    pub(crate) fn follow(&self, user: &Arc<ObjectKey>, before: Option<&SourceKey>, now: Option<&SourceKey>) {
        if let Some(before) = before.filter(|before| Some(*before) != now) {
            let mut state = self.inner.lock();
            if let Some(users) = state.users.get_mut(before) {
                users.remove(user);
                if users.is_empty() {
                    state.users.remove(before);
                }
            }
        }
        let Some(now) = now else { return };
        let place = self.inner.place(now);
        let mut state = self.inner.lock();
        match state.users.get_mut(now) {
            Some(users) => {
                // The new object's key, and not an equal one that only the set would hold.
                users.replace(Arc::clone(user));
            }
            None => {
                state.users.insert(now.clone(), BTreeSet::from([Arc::clone(user)]));
            }
        }
        if let Entry::Vacant(vacant) = state.watched.entry(place) {
            let place = vacant.key();
            let collection = match place.kind {
                SourceKind::GitRepository => self.watch::<GitRepositoryKind>(place),
                SourceKind::OciRepository => self.watch::<OciRepositoryKind>(place),
                SourceKind::Bucket => self.watch::<BucketKind>(place),
                SourceKind::ExternalArtifact => self.watch::<ExternalArtifactKind>(place),
            };
            vacant.insert(collection);
        }
    }

    /// The kinds that are named, and whether all that is watched of each can be listed.
    pub(crate) fn listed(&self) -> BTreeMap<SourceKind, bool> {
        let mut kinds = BTreeMap::new();
        for (place, (_, health)) in &self.inner.lock().watched {
            *kinds.entry(place.kind).or_insert(true) &= health.not_ready().is_empty();
        }
        kinds
    }

    fn watch<K: SourceObject>(&self, place: &Place) -> (Arc<dyn Collection>, Health) {
        let scope = Scope::new(place.namespace.clone());
        let api = scope.api_of(self.inner.client.clone(), &Source::<K>::resource());
        let config = WatchConfig { page_size: PAGE, remedy: INSTALL_FLUX, ..WatchConfig::new(K::PLURAL) };
        let watch = Watch::<Source<K>>::reading(api, config);
        let store = watch.store();
        let (inner, place) = (Arc::clone(&self.inner), place.clone());
        let stop = inner.supervisor.token().clone();
        // A kind that is not served keeps no Kustomization of another kind from being tracked: the process is ready all
        // the same, and the watch says once what is wrong. A metric says so for as long as it is.
        let health = Health::new();
        let run = watch.run(health.clone(), stop, move |event| inner.tell(&place, &event));
        self.inner.supervisor.spawn(format!("watch {}", K::PLURAL), run);
        (Arc::new(store), health)
    }
}

impl Inner {
    fn place(&self, key: &SourceKey) -> Place {
        let namespace = self.scope.namespace().map(|_| key.namespace.clone());
        Place { kind: key.kind, namespace }
    }

    /// Takes what a watch saw to those who name it.
    fn tell<K: SourceObject>(&self, place: &Place, event: &Event<Source<K>>) {
        match event {
            Event::Applied { old: Some(old), new } if same(old, new) => {}
            Event::Applied { new: source, .. } | Event::Deleted(source) => self.changed::<K>(source),
            Event::Synced => {
                let state = self.lock();
                let of_place = state.users.iter().filter(|(key, _)| self.place(key) == *place);
                for user in of_place.flat_map(|(_, users)| users) {
                    self.current.add(Task::Reconcile(Arc::clone(user)));
                }
            }
        }
    }

    fn changed<K: SourceObject>(&self, source: &Source<K>) {
        let ObjectKey { namespace, name } = (*source.metadata.key).clone();
        let key = SourceKey { kind: K::KIND, namespace, name };
        for user in self.lock().users.get(&key).into_iter().flatten() {
            self.current.add(Task::Reconcile(Arc::clone(user)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two versions of a source say the same of what is asked about.
fn same<K: SourceObject>(old: &Source<K>, new: &Source<K>) -> bool {
    old.artifact == new.artifact
        && old.metadata.uid == new.metadata.uid
        && old.metadata.generation == new.metadata.generation
}
