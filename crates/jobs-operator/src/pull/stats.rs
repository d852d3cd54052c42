//! How many objects of each kind a repository manages.

use std::collections::BTreeMap;

use windlass_api::{Repository, ResourceCount};
use windlass_resources::{Action, ItemResult, Kind, Managed};

/// Counts by group and resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats(BTreeMap<(String, String), i64>);

impl Stats {
    /// As the repository's status says, after its last pull.
    pub(super) fn of_status(repository: &Repository) -> Self {
        let counts = repository.status.stats.iter();
        Self(counts.map(|count| ((count.group.clone(), count.resource.clone()), count.count)).collect())
    }

    /// As a list of everything that is managed says.
    pub(super) fn of_managed(managed: &Managed) -> Self {
        let mut stats = Self::default();
        for item in managed.folders.iter().chain(&managed.files) {
            *stats.0.entry(key(&item.kind)).or_default() += 1;
        }
        stats
    }

    /// Takes in what became of one file.
    pub(super) fn count(&mut self, item: &ItemResult) {
        let by = match item.action {
            _ if item.error.is_some() => return,
            Action::Created => 1,
            Action::Deleted => -1,
            Action::Updated | Action::Renamed | Action::Ignored => return,
        };
        let Some(kind) = &item.kind else { return };
        let count = self.0.entry(key(kind)).or_default();
        *count = (*count + by).max(0);
    }

    /// All of them together.
    pub(super) fn total(&self) -> usize {
        usize::try_from(self.0.values().sum::<i64>()).unwrap_or(0)
    }

    /// In the wire's form, without kinds of which there are none.
    pub(super) fn counts(&self) -> Vec<ResourceCount> {
        self.0
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|((group, resource), count)| ResourceCount {
                group: group.clone(),
                resource: resource.clone(),
                count: *count,
            })
            .collect()
    }
}

fn key(kind: &Kind) -> (String, String) {
    (kind.group.to_string(), kind.resource.to_string())
}
