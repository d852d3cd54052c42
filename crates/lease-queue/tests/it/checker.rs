//! What must be true of every history of the store, whatever went wrong on the way.

use std::collections::{BTreeMap, BTreeSet};

use windlass_lease_queue::{Key, Record};

use crate::store::{Happened, OWNER};

/// Everything that is wrong. `queued` is what is left in the queue at the end.
pub(crate) fn violations(log: &[Happened], queued: &[Record], max_attempts: u32) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut created = BTreeSet::new();
    let mut deleted_by_user = BTreeSet::new();
    let mut filed: BTreeMap<&str, usize> = BTreeMap::new();
    let mut filed_at: BTreeMap<&str, usize> = BTreeMap::new();
    let mut claimed_at: BTreeMap<&str, usize> = BTreeMap::new();
    let mut exclusions: BTreeMap<&str, &Key> = BTreeMap::new();
    // From when to when a worker, named by its owner token, was at work, by exclusion key.
    let mut work: BTreeMap<&Key, BTreeMap<&str, (usize, usize)>> = BTreeMap::new();
    for (at, happened) in log.iter().enumerate() {
        match happened {
            Happened::Created { uid, exclusion } => {
                created.insert(uid.as_str());
                exclusions.extend(exclusion.as_ref().map(|exclusion| (uid.as_str(), exclusion)));
            }
            Happened::Patched { uid, base_owner, before, attempt, change } => {
                if base_owner != before {
                    wrong.push(format!(
                        "{at}: {uid} is {before:?}'s, but a write from when it was {base_owner:?}'s was taken: {change:?}"
                    ));
                }
                if let Some(Some(owner)) = change.labels.get(OWNER) {
                    claimed_at.entry(owner).or_insert(at);
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
                filed_at.entry(uid).or_insert(at);
                *filed.entry(uid).or_default() += 1;
                if filed[uid.as_str()] > 1 {
                    wrong.push(format!("{at}: {uid} was filed again"));
                }
            }
            Happened::Effect { uid, owner, current } => {
                match current {
                    Some(current) if current != owner => {
                        wrong.push(format!("{at}: {owner} works on {uid}, which is {current}'s"));
                    }
                    None if filed.contains_key(uid.as_str()) => {
                        wrong.push(format!("{at}: {owner} works on {uid}, which has ended"));
                    }
                    _ => {}
                }
                let ended = filed_at.get(uid.as_str()).zip(claimed_at.get(owner.as_str()));
                if ended.is_some_and(|(filed, claimed)| filed < claimed) {
                    wrong.push(format!("{at}: {owner} works on {uid}, which had ended when it was claimed"));
                }
                // Who works on a job that a user has deleted finds out a little later.
                if let Some(exclusion) = exclusions.get(uid.as_str())
                    && !deleted_by_user.contains(uid.as_str())
                {
                    work.entry(exclusion).or_default().entry(owner).or_insert((at, at)).1 = at;
                }
            }
        }
    }
    for (exclusion, workers) in work {
        let mut spans: Vec<_> = workers.into_iter().map(|(owner, (from, to))| (from, to, owner)).collect();
        spans.sort_unstable();
        for pair in spans.windows(2) {
            let [(_, end, one), (begin, _, other)] = pair else { continue };
            if begin < end {
                wrong.push(format!("{begin}: {other} works on {exclusion} while {one} does, up to {end}"));
            }
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
