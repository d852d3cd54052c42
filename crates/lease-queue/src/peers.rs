//! Whose turn it is: replicas that claim learn of each other from their claims, and take turns.
//!
//! A claim's owner token begins with a tag of the replica, so that whoever watches the queue sees who claims. For each
//! job a hash puts all known replicas, oneself included, in an order that is the same for everybody. The first claims at
//! once, each next one a step later, by when it has seen whether the one before it did, and when all had their turn it goes
//! round again. A replica whose claims nobody has seen yet stands behind all others. One that lets its turn pass several
//! times in a row, because it is busy or gone, is forgotten until it claims again.
//!
//! Only a claim that was seen to be made counts, of a job that was known before: a job may be created with any labels. A
//! round is no longer than the widest window, however many peers there seem to be.
//!
//! All of it only saves conflicts: two that claim at once are told apart by the store.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use uuid::Uuid;

/// So many turns that were not taken, and a replica is forgotten.
const MISSES: u32 = 4;
/// No more peers than that are told apart.
const MOST: usize = 64;
/// Digits of a tag.
const TAG: usize = 16;

/// The replicas whose claims were seen, with how many turns each has let pass since its last claim.
#[derive(Debug)]
pub(crate) struct Peers {
    me: u64,
    known: HashMap<u64, u32>,
}

/// Where this replica stands for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Nobody's claims were seen yet.
    Open,
    /// So many others go first.
    After(u32),
    /// So many others are known, and this replica is not known to them.
    Behind(u32),
}

impl Peers {
    pub(crate) fn new(replica: &str) -> Self {
        Self { me: hash(replica), known: HashMap::new() }
    }

    /// A fresh owner token of this replica.
    pub(crate) fn token(replica: &str) -> String {
        format!("{:0TAG$x}-{}", hash(replica), Uuid::new_v4().simple())
    }

    /// Somebody was seen to have claimed a job that was free.
    pub(crate) fn claimed(&mut self, owner: &str, uid: &str) {
        let Some(winner) = tag(owner) else { return };
        let place = place(winner, uid);
        self.known.retain(|peer, misses| {
            if crate::peers::place(*peer, uid) < place {
                *misses += 1;
            }
            *misses < MISSES
        });
        if self.known.len() < MOST || self.known.contains_key(&winner) {
            self.known.insert(winner, 0);
        }
    }

    /// Somebody's claim was seen to lapse.
    pub(crate) fn lapsed(&mut self, owner: &str) {
        if let Some(peer) = tag(owner) {
            self.known.remove(&peer);
        }
    }

    /// How many replicas are known.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.known.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn turn(&self, uid: &str) -> Turn {
        if self.known.is_empty() {
            Turn::Open
        } else if self.known.contains_key(&self.me) {
            let mine = place(self.me, uid);
            let before = self.known.keys().filter(|peer| place(**peer, uid) < mine).count();
            Turn::After(u32::try_from(before).unwrap_or(u32::MAX))
        } else {
            Turn::Behind(self.count())
        }
    }
}

/// The replica that made a token; nobody's for tokens that others make in their own way.
fn tag(owner: &str) -> Option<u64> {
    let (tag, _) = owner.split_once('-').filter(|(tag, _)| tag.len() == TAG)?;
    u64::from_str_radix(tag, 16).ok()
}

/// Where a replica stands in the order for a job: the smallest goes first.
fn place(replica: u64, uid: &str) -> u64 {
    hash((replica, uid))
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(count: usize) -> Vec<String> {
        (0..count).map(|number| format!("replica-{number}")).collect()
    }

    /// Every replica as it is after all have seen a claim of each.
    fn that_know_each_other(names: &[String]) -> Vec<Peers> {
        let known: HashMap<u64, u32> = names.iter().map(|name| (hash(name.as_str()), 0)).collect();
        names.iter().map(|name| Peers { me: hash(name.as_str()), known: known.clone() }).collect()
    }

    #[test]
    fn replicas_that_know_each_other_stand_in_one_order_for_each_job() {
        let all = that_know_each_other(&replicas(10));
        let mut first = HashMap::new();
        for job in 0..1000 {
            let uid = format!("job-{job}");
            let mut turns: Vec<_> = all.iter().map(|peers| peers.turn(&uid)).collect();
            let winner = turns.iter().position(|turn| *turn == Turn::After(0));
            *first.entry(winner).or_insert(0) += 1;
            turns.sort_by_key(|turn| if let Turn::After(before) = turn { *before } else { u32::MAX });
            assert_eq!(turns, (0..10).map(Turn::After).collect::<Vec<_>>());
        }
        assert_eq!(first.len(), 10);
        assert!(first.values().all(|count| (60..140).contains(count)), "{first:?}");
    }

    #[test]
    fn who_is_not_known_to_others_stands_behind_them() {
        let mut newcomer = Peers::new("newcomer");
        assert_eq!(newcomer.turn("job"), Turn::Open);
        newcomer.claimed(&Peers::token("one"), "first");
        newcomer.claimed(&Peers::token("two"), "second");
        newcomer.claimed("a token of another kind", "third");
        assert_eq!(newcomer.turn("job"), Turn::Behind(2));
        newcomer.claimed(&Peers::token("newcomer"), "job");
        assert!(matches!(newcomer.turn("job"), Turn::After(_)));
    }

    #[test]
    fn who_lets_its_turns_pass_is_forgotten_until_it_claims_again() {
        let names = replicas(2);
        let mut all = that_know_each_other(&names);
        let one = &mut all[0];
        // The other is gone, and this one takes whatever would have been the other's.
        for job in 0..100 {
            one.claimed(&Peers::token(&names[0]), &format!("job-{job}"));
        }
        assert!((0..100).all(|job| one.turn(&format!("later-{job}")) == Turn::After(0)));
        one.claimed(&Peers::token(&names[1]), "job");
        assert!((0..100).any(|job| one.turn(&format!("later-{job}")) == Turn::After(1)));
        one.lapsed(&Peers::token(&names[1]));
        assert!((0..100).all(|job| one.turn(&format!("later-{job}")) == Turn::After(0)));
    }
}
