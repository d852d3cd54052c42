//! What a watch knows, and what a change means for it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use tokio::sync::watch;

use super::Event;
use super::connection::Undecodable;
use super::store::{ObjectKey, Objects, Store, Watched};

/// The objects of one watch, and how their changes are told.
pub(super) struct Collection<K> {
    name: String,
    objects: Arc<RwLock<Objects<K>>>,
    synced: watch::Sender<bool>,
    /// Objects that could not be read, by the version that was logged.
    skipped: HashMap<ObjectKey, String>,
}

impl<K: Watched> Collection<K> {
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
        objects: Vec<Arc<K>>,
        undecodable: Vec<Undecodable>,
        handler: &mut impl FnMut(Event<K>),
    ) {
        let listed: Objects<K> = objects.into_iter().map(|object| (object.key(), object)).collect();
        let unread: HashMap<_, _> =
            undecodable.into_iter().map(|object| (object.key.clone(), object)).collect();
        let mut vanished: Vec<Arc<ObjectKey>> = self.write().keys().cloned().collect();
        vanished.retain(|key| !listed.contains_key(key) && !unread.contains_key(&**key));
        for key in vanished {
            self.delete(&key, None, handler);
        }
        for (key, object) in listed {
            self.apply_shared(key, object, handler);
        }
        self.skipped.retain(|key, _| unread.contains_key(key));
        for object in unread.into_values() {
            self.skip(object);
        }
        self.synced.send_replace(true);
    }

    pub(super) fn apply(&mut self, object: K, handler: &mut impl FnMut(Event<K>)) {
        self.apply_shared(object.key(), Arc::new(object), handler);
    }

    fn apply_shared(&mut self, key: Arc<ObjectKey>, new: Arc<K>, handler: &mut impl FnMut(Event<K>)) {
        self.skipped.remove(&*key);
        let old = {
            let mut objects = self.write();
            match objects.get(&key) {
                Some(known) if same_version(&**known, &*new) => return,
                _ => {
                    // The new object's key, and not an equal one that only the map would hold.
                    let old = objects.remove(&key);
                    objects.insert(key, Arc::clone(&new));
                    old
                }
            }
        };
        match old {
            // Deleted and made again while nobody watched: another object of the same name.
            Some(old) if old.uid() != new.uid() => {
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

fn same_version<K: Watched>(known: &K, new: &K) -> bool {
    known.version().is_some() && known.version() == new.version() && known.uid() == new.uid()
}
