//! Where the branch is, and how much has to be compared.

use tokio_util::sync::CancellationToken;
use windlass_api::conditions::{self, reasons, types};
use windlass_api::{JobState, Repository};
use windlass_git::{Revision, Source};

use crate::worker::JobError;

/// What is known before planning.
pub(super) struct Observed {
    /// The branch's tip.
    pub(super) revision: Revision,
    /// How to get there.
    pub(super) mode: Mode,
}

/// How much is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The tip is what was applied last.
    Unchanged,
    /// The difference between what was applied last and the tip.
    Incremental,
    /// The tip's whole tree with everything that is managed.
    Full,
}

/// Asks the source for the branch's tip: one request to a Git server. `before` is the repository as it was before this
/// job wrote to its status.
pub(super) async fn observe(
    source: &dyn Source,
    before: &Repository,
    repository: &Repository,
    incremental: bool,
    cancel: &CancellationToken,
) -> Result<Observed, JobError> {
    let revision = source
        .resolve(repository.spec.branch(), cancel)
        .await
        .map_err(|source| JobError::Git { what: "find the branch", source })?;
    let mode = mode(
        incremental && source.versioned() && settled(before),
        &repository.status.sync.last_ref,
        &revision,
    );
    Ok(Observed { revision, mode })
}

/// Whether the last pull's record can be built upon. It cannot when that pull never said how it ended (its worker
/// vanished, so that objects and counts are anyone's guess), when it left things undone that no later difference shows,
/// and when it was made for another specification: the same revision under another path is other files.
fn settled(before: &Repository) -> bool {
    let Some(last) = conditions::find(&before.status.conditions, types::PULL_STATUS) else { return false };
    before.status.sync.state != JobState::Working
        && last.observed_generation == before.metadata.generation
        && !matches!(last.reason.as_str(), reasons::FAILURE | reasons::QUOTA_EXCEEDED)
}

/// A full pull whenever it is asked for, or nothing was applied before.
fn mode(incremental: bool, last: &str, revision: &Revision) -> Mode {
    if !incremental || last.is_empty() {
        Mode::Full
    } else if last == revision.as_str() {
        Mode::Unchanged
    } else {
        Mode::Incremental
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulled(reason: &str, generation: i64, state: JobState) -> Repository {
        let mut repository = Repository::default();
        repository.metadata.generation = Some(2);
        repository.status.sync.state = state;
        let now = jiff::Timestamp::UNIX_EPOCH;
        let condition = conditions::new(types::PULL_STATUS, true, reason, "", Some(generation), now);
        repository.status.conditions.push(condition);
        repository
    }

    #[test]
    fn the_last_pull_is_built_upon_if_it_ended_well_and_for_the_same_specification() {
        assert!(settled(&pulled(reasons::SUCCESS, 2, JobState::Success)));
        assert!(settled(&pulled(reasons::COMPLETED_WITH_WARNINGS, 2, JobState::Warning)));
        assert!(!settled(&pulled(reasons::FAILURE, 2, JobState::Error)));
        assert!(!settled(&pulled(reasons::QUOTA_EXCEEDED, 2, JobState::Warning)));
        assert!(!settled(&pulled(reasons::SUCCESS, 1, JobState::Success)), "the specification changed");
        assert!(!settled(&pulled(reasons::SUCCESS, 2, JobState::Working)), "a worker vanished");
        assert!(!settled(&Repository::default()));
    }

    #[test]
    fn only_an_incremental_pull_trusts_the_last_revision() {
        let tip = Revision::new("b");
        assert_eq!(mode(true, "b", &tip), Mode::Unchanged);
        assert_eq!(mode(true, "a", &tip), Mode::Incremental);
        assert_eq!(mode(true, "", &tip), Mode::Full);
        assert_eq!(mode(false, "b", &tip), Mode::Full);
    }
}
