//! What a pass starts from: the repository as the watch has it, its neighbours, and how long ago things happened.

use std::sync::Arc;

use jiff::Timestamp;
use windlass_api::Repository;
use windlass_api::repositories::{RepositoryRules, is_pending_delete, mutate};
use windlass_runtime::ObjectKey;

use crate::controller::Controller;
use crate::hook::{self, Wanted};
use crate::memory::Ages;
use crate::neighbours::Standing;

/// What is known before anything is asked or written.
pub(crate) struct Observed {
    /// The repository as it is stored. A write that is based on an old copy is refused, and the next pass knows better.
    pub(crate) stored: Arc<Repository>,
    /// The repository with what admission fills in: how it is read.
    pub(crate) filled: Repository,
    /// The finalizers that it should have and has not, for servers without our admission.
    pub(crate) missing_finalizers: Vec<String>,
    /// Where it stands among the repositories of its namespace.
    pub(crate) standing: Standing,
    /// What there should be at its provider.
    pub(crate) hook: Wanted,
    /// How long ago things happened to it.
    pub(crate) ages: Ages,
    /// The change of its folder that no sync has taken in.
    pub(crate) folder_change: Option<u64>,
    /// Now, for what is written.
    pub(crate) now: Timestamp,
}

/// Looks at what the process knows; nobody is asked. None when the repository is gone.
pub(crate) fn observe(controller: &Controller, key: &ObjectKey) -> Option<Observed> {
    let stored = controller.store.get(key)?;
    let (filled, missing_finalizers) = fill_in(&stored, &controller.rules);
    let standing = controller.memory.standings.of(key, || {
        let neighbours = controller.store.list_in(&key.namespace);
        Standing::of(&stored, neighbours.iter().map(|other| &**other))
    });
    let now = controller.clock.now();
    Some(Observed {
        standing,
        hook: hook::wanted(&filled, &controller.public_url),
        ages: controller.memory.ages(key, &stored, controller.timing, now, controller.store.len()),
        folder_change: controller.memory.folder_change(key),
        stored,
        filled,
        missing_finalizers,
        now,
    })
}

/// The repository with what admission fills in, and the finalizers that are new by that. `cleanup` is for a repository
/// that was never looked at: its absence from an older one was somebody's will.
fn fill_in(stored: &Repository, rules: &RepositoryRules) -> (Repository, Vec<String>) {
    let mut filled = stored.clone();
    if !is_pending_delete(stored) {
        let old = (stored.status.observed_generation != 0).then_some(stored);
        mutate(&mut filled, old, rules);
    }
    let before = stored.metadata.finalizers.as_deref().unwrap_or_default();
    let after = filled.metadata.finalizers.iter().flatten();
    let missing = after.filter(|finalizer| !before.contains(finalizer)).cloned().collect();
    (filled, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_are_filled_in_where_there_are_none() {
        let rules = RepositoryRules::default();
        let mut new = Repository::default();
        let all = ["remove-pending-jobs", "cleanup", "remove-orphan-resources"].map(str::to_owned).to_vec();
        let missing = |repository: &Repository| fill_in(repository, &rules).1;
        assert_eq!(missing(&new), all);
        new = fill_in(&new, &rules).0;
        assert!(missing(&new).is_empty(), "they are there");
        assert_eq!(new.spec.sync.interval_seconds, rules.min_interval_seconds);

        let mut known = Repository::default();
        known.status.observed_generation = 1;
        assert_eq!(missing(&known), [all[0].clone(), all[2].clone()]);
        let mut going = Repository::default();
        going.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH));
        assert!(missing(&going).is_empty());
        let mut pending = Repository::default();
        let label = (windlass_api::labels::PENDING_DELETE.to_owned(), "true".to_owned());
        pending.metadata.labels = Some([label].into());
        assert!(missing(&pending).is_empty());
    }
}
