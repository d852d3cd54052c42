//! Where the branch is, and how much has to be compared.

use tokio_util::sync::CancellationToken;
use windlass_api::Repository;
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

/// Asks the source for the branch's tip: one request to a Git server.
pub(super) async fn observe(
    source: &dyn Source,
    repository: &Repository,
    incremental: bool,
    cancel: &CancellationToken,
) -> Result<Observed, JobError> {
    let revision = source
        .resolve(repository.spec.branch(), cancel)
        .await
        .map_err(|source| JobError::Git { what: "find the branch", source })?;
    let mode = mode(incremental && source.versioned(), &repository.status.sync.last_ref, &revision);
    Ok(Observed { revision, mode })
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

    #[test]
    fn only_an_incremental_pull_trusts_the_last_revision() {
        let tip = Revision::new("b");
        assert_eq!(mode(true, "b", &tip), Mode::Unchanged);
        assert_eq!(mode(true, "a", &tip), Mode::Incremental);
        assert_eq!(mode(true, "", &tip), Mode::Full);
        assert_eq!(mode(false, "b", &tip), Mode::Full);
    }
}
