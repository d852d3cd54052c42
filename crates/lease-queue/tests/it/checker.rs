//! What must be true of every history of the store, whatever went wrong on the way.

use std::collections::{BTreeMap, BTreeSet};

use windlass_lease_queue::Record;

use crate::store::Happened;

/// Everything that is wrong. `queued` is what is left in the queue at the end.
pub(crate) fn violations(log: &[Happened], queued: &[Record], max_attempts: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut created = BTreeSet::new();
    let mut deleted_by_user = BTreeSet::new();
    let mut filed: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, happened) in log.iter().enumerate() {
        match happened {
            Happened::Created { uid } => {
                created.insert(uid.as_str());
            }
            Happened::Patched { uid, base_owner, before, attempt, change } => {
                if base_owner != before {
                    wrong.push(format!(
                        "{at}: {uid} is {before:?}'s, but a write from when it was {base_owner:?}'s was taken: {change:?}"
                    ));
                }
                if *attempt > max_attempts {
                    wrong.push(format!("{at}: attempt {attempt} of {uid}"));
                }
            }
            Happened::Deleted { uid, base_owner, before } => {
                if base_owner != before {
                    wrong.push(format!("{at}: {uid} is {before:?}'s, but {base_owner:?} could delete it"));
                }
                if !filed.contains_key(uid.as_str()) {
                    wrong.push(format!("{at}: {uid} was deleted before it was filed"));
                }
            }
            Happened::DeletedByUser { uid } => {
                deleted_by_user.insert(uid.as_str());
            }
            Happened::Filed { uid, .. } => {
                *filed.entry(uid).or_default() += 1;
                if filed[uid.as_str()] > 1 {
                    wrong.push(format!("{at}: {uid} was filed again"));
                }
            }
            Happened::Effect { uid, owner, current } => match current {
                Some(current) if current != owner => {
                    wrong.push(format!("{at}: {owner} works on {uid}, which is {current}'s"));
                }
                None if filed.contains_key(uid.as_str()) => {
                    wrong.push(format!("{at}: {owner} works on {uid}, which has ended"));
                }
                _ => {}
            },
        }
    }
    let queued: BTreeSet<_> = queued.iter().map(|record| record.uid.as_str()).collect();
    for uid in created {
        let ended = filed.contains_key(uid) || deleted_by_user.contains(uid);
        if !ended && !queued.contains(uid) {
            wrong.push(format!("{uid} is lost: neither queued nor filed"));
        }
    }
    wrong
}
