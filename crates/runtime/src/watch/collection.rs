//! What a watch knows, and what a change means for it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use kube::Resource;
use tokio::sync::watch;

use super::Event;
use super::connection::Undecodable;
use super::store::{ObjectKey, Objects, Store};

/// The objects of one watch, and how their changes are told.
pub(super) struct Collection<K> {
    name: String,
    objects: Arc<RwLock<Objects<K>>>,
    synced: watch::Sender<bool>,
    /// Objects that could not be read, by the version that was logged.
    skipped: HashMap<ObjectKey, String>,
}

impl<K: Resource> Collection<K> {
    pub(super) fn new(name: String) -> Self {
        Self { name, objects: Arc::default(), synced: watch::Sender::new(false), skipped: HashMap::new() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn store(&self) -> Store<K> {
        Store { objects: Arc::clone(&self.objects), synced: self.synced.subscribe() }
    }

    /// Takes over a whole list, and tells the difference: deletions first, then what is new or changed.
    ///
    /// An object that cannot be read now and could before is kept as it was: it still exists.
    pub(super) fn replace(
        &mut self,
        objects: Vec<K>,
        undecodable: Vec<Undecodable>,
        handler: &mut impl FnMut(Event<K>),
    ) {
        let listed: Objects<K> =
            objects.into_iter().map(|object| (ObjectKey::of(&object), Arc::new(object))).collect();
        let unread: HashMap<_, _> =
            undecodable.into_iter().map(|object| (object.key.clone(), object)).collect();
        let mut vanished: Vec<ObjectKey> = self.write().keys().cloned().collect();
        vanished.retain(|key| !listed.contains_key(key) && !unread.contains_key(key));
        for key in vanished {
            self.delete(&key, None, handler);
        }
        for object in listed.into_values() {
            self.apply_shared(object, handler);
        }
        self.skipped.retain(|key, _| unread.contains_key(key));
        for object in unread.into_values() {
            self.skip(object);
        }
        self.synced.send_replace(true);
    }

    pub(super) fn apply(&mut self, object: K, handler: &mut impl FnMut(Event<K>)) {
        self.apply_shared(Arc::new(object), handler);
    }

    fn apply_shared(&mut self, new: Arc<K>, handler: &mut impl FnMut(Event<K>)) {
        let key = ObjectKey::of(&*new);
        self.skipped.remove(&key);
        let old = {
            let mut objects = self.write();
            match objects.get(&key) {
                Some(known) if same_version(&**known, &*new) => return,
                _ => objects.insert(key, Arc::clone(&new)),
            }
        };
        match old {
            // Deleted and made again while nobody watched: another object of the same name.
            Some(old) if old.meta().uid != new.meta().uid => {
                handler(Event::Deleted(old));
                handler(Event::Applied { old: None, new });
            }
            old => handler(Event::Applied { old, new }),
        }
    }

    /// Forgets an object, and tells its `last` version, or else the one that was known.
    pub(super) fn delete(&mut self, key: &ObjectKey, last: Option<K>, handler: &mut impl FnMut(Event<K>)) {
        self.skipped.remove(key);
        let removed = self.write().remove(key);
        if let Some(known) = removed {
            handler(Event::Deleted(last.map_or(known, Arc::new)));
        }
    }

    /// Logs an object that cannot be read, once for each of its versions.
    pub(super) fn skip(&mut self, object: Undecodable) {
        let Undecodable { key, version, error } = object;
        if self.skipped.get(&key) == Some(&version) {
            return;
        }
        tracing::warn!(watch = self.name, object = %key, version, error, "skipped an object that cannot be read");
        self.skipped.insert(key, version);
    }

    /// Tells every object again.
    pub(super) fn tell_again(&self, handler: &mut impl FnMut(Event<K>)) {
        for object in self.store().list() {
            handler(Event::Applied { old: Some(Arc::clone(&object)), new: object });
        }
    }

    fn write(&self) -> RwLockWriteGuard<'_, Objects<K>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn same_version<K: Resource>(known: &K, new: &K) -> bool {
    let (known, new) = (known.meta(), new.meta());
    known.resource_version.is_some() && known.resource_version == new.resource_version && known.uid == new.uid
}
