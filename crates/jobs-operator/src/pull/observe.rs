//! Where the branch is, and how much has to be compared.

use windlass_api::conditions::{self, reasons, types};
use windlass_api::{JobState, Repository};
use windlass_git::Revision;
use windlass_repository::Opened;

use super::PullRequest;
use super::unsynced::Unsynced;
use crate::worker::JobError;

/// What is known before planning.
pub(super) struct Observed {
    /// The branch's tip.
    pub(super) revision: Revision,
    /// How to get there.
    pub(super) mode: Mode,
    /// Whether the last pull's record can be built upon.
    pub(super) is_settled: bool,
    /// Whether the tip is what was applied last.
    pub(super) is_same: bool,
}

/// How much is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// The tip is what was applied last.
    Unchanged,
    /// So it is, and what may succeed now is tried again.
    Retry,
    /// The difference between what was applied last and the tip.
    Incremental,
    /// The tip's whole tree with everything that is managed.
    Full,
}

/// Asks the source for the branch's tip: one request to a Git server. `repository` is the request's with what this pull
/// has written to its status.
pub(super) async fn observe(
    opened: &Opened,
    request: &PullRequest<'_>,
    repository: &Repository,
    previous: &Unsynced,
) -> Result<Observed, JobError> {
    let revision = opened
        .reader
        .resolve(repository.spec.branch(), request.stop.token())
        .await
        .map_err(|source| JobError::Repository { what: "find the branch", source })?;
    let last = &repository.status.sync.last_ref;
    let is_settled = settled(request.repository);
    let mode =
        mode(request.incremental && opened.versioned.is_some() && is_settled, last, &revision, previous);
    Ok(Observed { is_same: last == revision.as_str(), revision, mode, is_settled })
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

/// A full pull whenever it is asked for, or nothing was applied before, or what is missing is not known.
fn mode(incremental: bool, last: &str, revision: &Revision, previous: &Unsynced) -> Mode {
    let is_same = last == revision.as_str();
    match () {
        () if !incremental || last.is_empty() || previous.needs_full() => Mode::Full,
        () if is_same && previous.retry().is_empty() => Mode::Unchanged,
        () if is_same => Mode::Retry,
        () if previous.needs_full_on_change() => Mode::Full,
        () => Mode::Incremental,
    }
}

#[cfg(test)]
mod tests {
    use windlass_api::{FileOutcome, UnsyncedStatus};

    use super::*;

    fn pulled(reason: &str, generation: i64, state: JobState) -> Repository {
        let mut repository = Repository::default();
        repository.metadata.generation = Some(2);
        repository.status.sync.state = state;
        let now = jiff::Timestamp::UNIX_EPOCH;
        let condition = conditions::new(
            types::PULL_STATUS,
            reason == reasons::SUCCESS,
            reason,
            "",
            Some(generation),
            now,
        );
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

    fn unsynced(path: &str, reason: &str, retry: bool) -> Unsynced {
        let (path, reason) = (path.to_owned(), reason.to_owned());
        Unsynced::new(vec![FileOutcome { path, reason, retry, ..FileOutcome::default() }], false)
    }

    #[test]
    fn only_an_incremental_pull_trusts_the_last_revision() {
        let (tip, nothing) = (Revision::new("b"), Unsynced::default());
        assert_eq!(mode(true, "b", &tip, &nothing), Mode::Unchanged);
        assert_eq!(mode(true, "a", &tip, &nothing), Mode::Incremental);
        assert_eq!(mode(true, "", &tip, &nothing), Mode::Full);
        assert_eq!(mode(false, "b", &tip, &nothing), Mode::Full);
    }

    #[test]
    fn what_was_left_out_decides_how_much_is_compared() {
        let tip = Revision::new("b");
        let bad = unsynced("x.json", "ResourceInvalid", false);
        assert_eq!(mode(true, "b", &tip, &bad), Mode::Unchanged);
        assert_eq!(mode(true, "a", &tip, &bad), Mode::Incremental);
        let unserved = unsynced("x.json", "ResourceInvalid", true);
        assert_eq!(mode(true, "b", &tip, &unserved), Mode::Retry);
        let no_root = unsynced("", "FolderManagedByOther", true);
        assert_eq!(mode(true, "b", &tip, &no_root), Mode::Full);
        for reason in ["SkippedFolderChildrenNotDeleted", "SkippedDependentPathChangeFailed"] {
            let waiting = unsynced("a", reason, true);
            assert_eq!(mode(true, "b", &tip, &waiting), Mode::Full, "its deletion is tried again");
        }
        let mut repository = Repository::default();
        repository.status.unsynced = Unsynced::new(unserved.items().to_vec(), true).status("record");
        assert_eq!(mode(true, "b", &tip, &Unsynced::of_status(&repository)), Mode::Full);
        repository.status.unsynced = Some(UnsyncedStatus { count: 1, ..UnsyncedStatus::default() });
        assert_eq!(mode(true, "b", &tip, &Unsynced::of_status(&repository)), Mode::Full, "not all is known");
    }
}
