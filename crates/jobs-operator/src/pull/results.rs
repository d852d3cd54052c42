//! What becomes of single files while a plan is carried out.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_api::FileOutcome;
use windlass_lease_queue::progress::{Failure, Progress, ResourceAction, ResourceResult};
use windlass_resources::{Action, ItemResult};

use super::stats::Stats;
use super::unsynced::Unsynced;

/// Takes results in from many tasks, and reports them.
pub(super) struct Results {
    progress: Progress,
    /// Whether the statistics to start from are those of a list.
    full: bool,
    /// What was not synced before; given if every other change is a repair.
    known: Option<Unsynced>,
    outcomes: Mutex<Outcomes>,
}

#[derive(Default)]
pub(super) struct Outcomes {
    /// What is managed now, as far as can be told without asking.
    pub(super) stats: Stats,
    /// Whether that may be wrong.
    pub(super) miscounted: bool,
    /// What was not done.
    pub(super) failed: Vec<FileOutcome>,
    /// Whether a deletion is among that.
    pub(super) deletion_failed: bool,
    /// Paths of everything that was tried.
    pub(super) tried: HashSet<String>,
    /// Objects that had been changed or deleted by hand.
    pub(super) repaired: usize,
}

impl Results {
    pub(super) fn new(progress: Progress, full: bool, stats: Stats, known: Option<Unsynced>) -> Self {
        Self { progress, full, known, outcomes: Mutex::new(Outcomes { stats, ..Outcomes::default() }) }
    }

    pub(super) fn record(&self, item: ItemResult) {
        let repaired = self.is_repair(&item);
        let mut outcomes = self.outcomes();
        outcomes.stats.count(&item);
        // Whether a request acted that was not answered is not known. The root folder was there after the last pull.
        outcomes.miscounted |= item.unexpected
            || item.error.as_ref().is_some_and(|failure| !failure.warning)
            || (!self.full && item.path.is_empty() && item.action == Action::Created);
        outcomes.deletion_failed |= item.error.is_some() && item.action == Action::Deleted;
        outcomes.repaired += usize::from(repaired);
        outcomes.tried.insert(item.path.clone());
        let result = ResourceResult { repaired, ..result(item) };
        if result.failure.is_some() {
            outcomes.failed.extend(result.outcome());
        }
        drop(outcomes);
        if repaired {
            tracing::info!(
                path = result.path,
                name = result.name,
                action = result.action.as_str(),
                "repaired"
            );
        }
        self.progress.record(&result);
    }

    fn is_repair(&self, item: &ItemResult) -> bool {
        if item.error.is_some() || item.action == Action::Ignored {
            return false;
        }
        item.drifted
            || self.known.as_ref().is_some_and(|known| known.is_complete() && !known.names(&item.path))
    }

    pub(super) fn take(&self) -> Outcomes {
        std::mem::take(&mut *self.outcomes())
    }

    fn outcomes(&self) -> MutexGuard<'_, Outcomes> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file's result in the words of the job's progress.
pub(crate) fn result(item: ItemResult) -> ResourceResult {
    let action = match item.action {
        Action::Created => ResourceAction::Created,
        Action::Updated => ResourceAction::Updated,
        Action::Deleted => ResourceAction::Deleted,
        Action::Renamed => ResourceAction::Renamed,
        Action::Ignored => ResourceAction::Ignored,
    };
    let mut result =
        ResourceResult::new(&*item.path, item.group(), item.kind_name(), action).named(&*item.name);
    result.hash = item.hash.map(|hash| hash.to_string()).unwrap_or_default();
    result.previous_path = item.previous_path;
    let Some(failure) = item.error else { return result };
    let reason = failure.reason.as_str();
    let told = if failure.warning {
        Failure::warning(reason, failure.message)
    } else {
        Failure { reason: Some(reason.to_owned()), ..Failure::error(failure.message) }
    };
    result.failed(Failure { retry: failure.retry, ..told })
}
