//! The sources that Kustomizations name: each kind is watched from when the first of them names one.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::Client;
use windlass_runtime::{Event, ObjectKey, Scope, Store, Supervisor, Watch, WatchConfig};
use windlass_telemetry::Health;

use super::queue::{Task, Tasks};
use crate::intern::intern;
use crate::objects::Source;
use crate::select::{INSTALL_FLUX, PAGE};
use crate::{SourceKey, SourceKind};

/// What is known of a source.
#[derive(Debug)]
pub(crate) enum Known {
    /// Nothing yet: its kind has not been listed, or is not served.
    NotYet,
    /// It is not there.
    Gone,
    /// What it says.
    There(Arc<Source>),
}

/// What is watched, and who wants to know.
pub(crate) struct Sources {
    client: Client,
    /// Where Kustomizations are: one that keeps to a namespace does not ask for sources of all.
    scope: Scope,
    supervisor: Supervisor,
    tasks: Tasks,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watched: HashMap<Place, (Store<Source>, Health)>,
    users: HashMap<SourceKey, BTreeSet<Arc<ObjectKey>>>,
}

/// What one watch is of: a kind, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Place {
    kind: SourceKind,
    namespace: Option<Arc<str>>,
}

impl Sources {
    /// Sources that Kustomizations of `scope` name; watches are tasks of `supervisor`.
    pub(crate) fn new(client: Client, scope: Scope, supervisor: Supervisor, tasks: Tasks) -> Arc<Self> {
        Arc::new(Self { client, scope, supervisor, tasks, state: Mutex::default() })
    }

    /// What is known of a source that somebody [follows](Self::follow).
    pub(crate) fn get(&self, key: &SourceKey) -> Known {
        let watched = self.lock().watched.get(&self.place(key)).cloned();
        let Some((store, _)) = watched.filter(|(store, _)| store.is_synced()) else { return Known::NotYet };
        store.get(&ObjectKey::new(&*key.namespace, &*key.name)).map_or(Known::Gone, Known::There)
    }

    /// A Kustomization names this source now, and that one before: it is looked at when its source changes.
    pub(crate) fn follow(
        self: &Arc<Self>,
        user: &Arc<ObjectKey>,
        before: Option<&SourceKey>,
        now: Option<&SourceKey>,
    ) {
        if let Some(before) = before.filter(|before| Some(*before) != now) {
            let mut state = self.lock();
            if let Some(users) = state.users.get_mut(before) {
                users.remove(user);
                if users.is_empty() {
                    state.users.remove(before);
                }
            }
        }
        let Some(now) = now else { return };
        let place = self.place(now);
        let mut state = self.lock();
        // The new object's key, and not an equal one that only the set would hold.
        state.users.entry(now.clone()).or_default().replace(Arc::clone(user));
        if let Entry::Vacant(vacant) = state.watched.entry(place) {
            let collection = self.watch(vacant.key());
            vacant.insert(collection);
        }
    }

    /// The kinds that are named, and whether all that is watched of each can be listed.
    pub(crate) fn listed(&self) -> BTreeMap<SourceKind, bool> {
        let mut kinds = BTreeMap::new();
        for (place, (_, health)) in &self.lock().watched {
            *kinds.entry(place.kind).or_insert(true) &= health.not_ready().is_empty();
        }
        kinds
    }

    fn watch(self: &Arc<Self>, place: &Place) -> (Store<Source>, Health) {
        let scope = Scope::new(place.namespace.as_deref().map(str::to_owned));
        let resource = place.kind.resource();
        let api = scope.api_of(self.client.clone(), &resource);
        let plural = &resource.plural;
        let config = WatchConfig { page_size: PAGE, remedy: INSTALL_FLUX, ..WatchConfig::new(plural) };
        let watch = Watch::<Source>::reading(api, config);
        let store = watch.store();
        let (sources, place) = (Arc::clone(self), place.clone());
        let stop = self.supervisor.token().clone();
        // A kind that is not served keeps no Kustomization of another kind from being tracked: the process is ready all
        // the same, and the watch says once what is wrong. A metric says so for as long as it is.
        let health = Health::new();
        let run = watch.run(health.clone(), stop, move |event| sources.tell(&place, &event));
        self.supervisor.spawn(format!("watch {plural}"), run);
        (store, health)
    }

    fn place(&self, key: &SourceKey) -> Place {
        let namespace = self.scope.namespace().map(|_| key.namespace.clone());
        Place { kind: key.kind, namespace }
    }

    /// Takes what a watch saw to those who name it.
    fn tell(&self, place: &Place, event: &Event<Source>) {
        match event {
            Event::Applied { old: Some(old), new } if same(old, new) => {}
            Event::Applied { new: source, .. } | Event::Deleted(source) => self.changed(place.kind, source),
            Event::Synced => {
                let state = self.lock();
                let of_place = state.users.iter().filter(|(key, _)| self.place(key) == *place);
                for user in of_place.flat_map(|(_, users)| users) {
                    self.tasks.add(Task::Reconcile(Arc::clone(user)));
                }
            }
        }
    }

    fn changed(&self, kind: SourceKind, source: &Source) {
        let ObjectKey { namespace, name } = &*source.metadata.key;
        let key = SourceKey { kind, namespace: intern(namespace), name: intern(name) };
        for user in self.lock().users.get(&key).into_iter().flatten() {
            self.tasks.add(Task::Reconcile(Arc::clone(user)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two versions of a source say the same of what is asked about.
fn same(old: &Source, new: &Source) -> bool {
    old.status == new.status
        && old.metadata.uid == new.metadata.uid
        && old.metadata.generation == new.metadata.generation
}
