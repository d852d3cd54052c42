//! Who belongs to whom, by UID. Pure: events go in, UIDs to look at come out.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::meta::{Meta, Owner};
use windlass_store::Key;

/// An object that has owners, or waits for its dependants.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) key: Key,
    pub(super) owners: Vec<Owner>,
    /// It is deleted once its dependants are.
    pub(super) foreground: bool,
    /// Its dependants are let go.
    pub(super) orphaning: bool,
}

/// A dependant of an object.
#[derive(Debug, Clone)]
pub(super) struct Dependant {
    pub(super) key: Key,
    pub(super) uid: String,
    /// Its owner waits for it.
    pub(super) blocks: bool,
    /// It waits for its own dependants.
    pub(super) foreground: bool,
}

/// Everything that has owners, and who they are.
#[derive(Debug, Default)]
pub(super) struct Graph {
    nodes: HashMap<String, Node>,
    by_owner: HashMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(super) fn node(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    /// Who names this object as an owner.
    pub(super) fn dependants(&self, uid: &str) -> Vec<Dependant> {
        let uids = self.by_owner.get(uid).into_iter().flatten();
        uids.filter_map(|dependant| {
            let node = self.nodes.get(dependant)?;
            let mut owners = node.owners.iter().filter(|owner| owner.uid == uid);
            Some(Dependant {
                key: node.key.clone(),
                uid: dependant.clone(),
                blocks: owners.any(|owner| owner.block_owner_deletion == Some(true)),
                foreground: node.foreground,
            })
        })
        .collect()
    }

    /// The UIDs of a kind's objects.
    pub(super) fn of_kind(&self, group: &str, resource: &str) -> Vec<String> {
        let of = |node: &Node| node.key.group() == group && node.key.resource() == resource;
        self.nodes.iter().filter(|(_, node)| of(node)).map(|(uid, _)| uid.clone()).collect()
    }

    /// An object was made or changed. Returns the UIDs that are to be looked at.
    pub(super) fn put(&mut self, key: &Key, meta: &Meta) -> Vec<String> {
        let node = Node {
            key: key.clone(),
            owners: meta.owner_references.clone(),
            foreground: meta.is_foreground(),
            orphaning: meta.is_orphaning(),
        };
        let uid = &meta.uid;
        let before = self.nodes.get(uid).cloned();
        let before_owners = before.as_ref().map_or(&[][..], |node| &node.owners);
        let mut work = Vec::new();
        if before_owners != node.owners {
            work.push(uid.clone());
            let owners: HashSet<&Owner> = node.owners.iter().collect();
            let kept: HashSet<&str> = node.owners.iter().map(|owner| owner.uid.as_str()).collect();
            for owner in before_owners {
                // An owner that waited for this one may wait no longer.
                if !owners.contains(owner) {
                    if !kept.contains(owner.uid.as_str()) {
                        self.unlink(uid, owner);
                    }
                    work.push(owner.uid.clone());
                }
            }
            for owner in &node.owners {
                self.by_owner.entry(owner.uid.clone()).or_default().insert(uid.clone());
            }
        }
        let was = |is: fn(&Node) -> bool| before.as_ref().is_some_and(is);
        if node.foreground && !was(|node| node.foreground) {
            work.extend(self.by_owner.get(uid).into_iter().flatten().cloned());
            work.push(uid.clone());
        }
        if node.orphaning && !was(|node| node.orphaning) {
            work.push(uid.clone());
        }
        if node.owners.is_empty() && !node.foreground && !node.orphaning {
            self.nodes.remove(uid);
        } else {
            self.nodes.insert(uid.clone(), node);
        }
        work
    }

    /// An object is gone. Returns the UIDs that are to be looked at.
    pub(super) fn remove(&mut self, uid: &str) -> Vec<String> {
        let mut work: Vec<String> = self.by_owner.get(uid).into_iter().flatten().cloned().collect();
        if let Some(node) = self.nodes.remove(uid) {
            for owner in &node.owners {
                self.unlink(uid, owner);
                if self.nodes.get(&owner.uid).is_some_and(|node| node.foreground) {
                    work.push(owner.uid.clone());
                }
            }
        }
        work
    }

    fn unlink(&mut self, uid: &str, owner: &Owner) {
        if let Some(dependants) = self.by_owner.get_mut(&owner.uid) {
            dependants.remove(uid);
            if dependants.is_empty() {
                self.by_owner.remove(&owner.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::FOREGROUND;

    fn key(name: &str) -> Key {
        Key::new("", "configmaps", "default", name).unwrap()
    }

    fn owner(uid: &str, blocks: bool) -> Owner {
        Owner { uid: uid.to_owned(), block_owner_deletion: Some(blocks), ..Owner::default() }
    }

    fn meta(uid: &str, owners: Vec<Owner>) -> Meta {
        Meta { uid: uid.to_owned(), owner_references: owners, ..Meta::default() }
    }

    fn waiting(mut meta: Meta, finalizer: &str) -> Meta {
        meta.deletion_timestamp = Some("now".to_owned());
        meta.finalizers.push(finalizer.to_owned());
        meta
    }

    #[test]
    fn objects_without_owners_take_no_room() {
        let mut graph = Graph::default();
        assert_eq!(graph.put(&key("a"), &meta("a", vec![])), [""; 0]);
        assert_eq!(graph.nodes.len(), 0);
        assert_eq!(graph.remove("a"), [""; 0]);
    }

    #[test]
    fn dependants_of_what_is_gone_are_looked_at() {
        let mut graph = Graph::default();
        assert_eq!(graph.put(&key("b"), &meta("b", vec![owner("a", false)])), ["b"]);
        assert_eq!(graph.put(&key("b"), &meta("b", vec![owner("a", false)])), [""; 0], "nothing has changed");
        assert_eq!(graph.remove("a"), ["b"]);
        assert_eq!(graph.remove("b"), [""; 0]);
        assert_eq!(graph.remove("a"), [""; 0]);
    }

    #[test]
    fn an_owner_that_waits_is_looked_at_when_a_dependant_goes_or_lets_it_go() {
        let mut graph = Graph::default();
        graph.put(&key("b"), &meta("b", vec![owner("a", true)]));
        graph.put(&key("c"), &meta("c", vec![owner("a", true)]));
        assert_eq!(graph.put(&key("a"), &waiting(meta("a", vec![]), FOREGROUND)), ["b", "c", "a"]);
        let blocking: Vec<bool> = graph.dependants("a").iter().map(|one| one.blocks).collect();
        assert_eq!(blocking, [true, true]);
        assert_eq!(graph.remove("b"), ["a"]);
        assert_eq!(graph.put(&key("c"), &meta("c", vec![owner("a", false)])), ["c", "a"]);
        assert!(!graph.dependants("a")[0].blocks);
        assert_eq!(graph.put(&key("c"), &meta("c", vec![])), ["c", "a"]);
        assert_eq!(graph.dependants("a").len(), 0);
    }
}
