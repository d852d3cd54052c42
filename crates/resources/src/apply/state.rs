//! What a run remembers: counts, failures that concern other changes, claimed names.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::summary::{Stopped, Summary};
use super::target::Dropped;
use crate::paths::is_below;
use crate::{Action, Failure, ItemResult, Kind, OnResult, Reason};

pub(super) struct State {
    max_errors: usize,
    on_result: OnResult,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    summary: Summary,
    /// Directories that have no folder; "" for the root folder.
    missing_folders: BTreeSet<String>,
    /// Paths whose object should have gone and has not.
    not_removed: BTreeSet<String>,
    /// Paths whose object should have been written and has not.
    not_written: BTreeSet<String>,
    /// Objects that a file of this run stands for, and which one it is.
    claims: HashMap<(Kind, String), String>,
    /// Objects that a file no longer stands for.
    former: Vec<Dropped>,
}

impl State {
    pub(super) fn new(max_errors: usize, on_result: OnResult) -> Self {
        Self { max_errors, on_result, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn summary(&self) -> Summary {
        self.inner().summary.clone()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.inner().summary.stopped.is_some()
    }

    /// The first reason stands.
    pub(super) fn stop(&self, why: Stopped) {
        self.inner().summary.stopped.get_or_insert(why);
    }

    pub(super) fn record(&self, item: ItemResult) {
        {
            let mut inner = self.inner();
            let summary = &mut inner.summary;
            match &item.error {
                Some(failure) if failure.warning => summary.warnings += 1,
                Some(_) => {
                    summary.errors += 1;
                    if self.max_errors > 0 && summary.errors >= self.max_errors {
                        let errors = summary.errors;
                        summary.stopped.get_or_insert(Stopped::TooManyErrors(errors));
                    }
                }
                None => match item.action {
                    Action::Created => summary.created += 1,
                    Action::Updated => summary.updated += 1,
                    Action::Deleted => summary.deleted += 1,
                    Action::Renamed => summary.renamed += 1,
                    Action::Ignored => {}
                },
            }
        }
        (self.on_result)(item);
    }

    /// Records a change that another's failure prevents.
    pub(super) fn record_skipped(&self, mut item: ItemResult, reason: Reason) {
        let message = match reason {
            Reason::SkippedParentFolderNotCreated => {
                "skipped: the folder that should hold it was not created"
            }
            Reason::SkippedFolderChildrenNotDeleted => "skipped: something in the folder was not deleted",
            _ => "skipped: something that should have moved out of the folder did not",
        };
        item.action = Action::Ignored;
        self.record(item.failed(Failure::new(reason, message).retried()));
    }

    pub(super) fn folder_failed(&self, path: &str) {
        self.inner().missing_folders.insert(path.to_owned());
    }

    pub(super) fn removal_failed(&self, path: &str) {
        self.inner().not_removed.insert(path.to_owned());
    }

    /// The file at `path`, which may have been elsewhere before, was not written.
    pub(super) fn write_failed(&self, path: &str, previous_path: Option<&str>) {
        let mut inner = self.inner();
        inner.not_removed.extend(previous_path.map(str::to_owned));
        inner.not_written.insert(path.to_owned());
    }

    pub(super) fn is_below_failed_folder(&self, path: &str) -> bool {
        self.inner().missing_folders.iter().any(|folder| is_below(path, folder))
    }

    /// Whether a folder cannot go since something in it is still there.
    pub(super) fn has_failed_below(&self, path: &str, reason: Reason) -> bool {
        let inner = self.inner();
        let below = |paths: &BTreeSet<String>| paths.iter().any(|failed| is_below(failed, path));
        // What was not written is only still in the old folder if that folder is being replaced.
        below(&inner.not_removed)
            || (reason == Reason::SkippedDependentPathChangeFailed && below(&inner.not_written))
    }

    /// Gives an object to a file or a document, or says which one has it.
    pub(super) fn claim(&self, kind: &Kind, name: &str, by: String) -> Result<(), String> {
        let mut inner = self.inner();
        match inner.claims.entry((kind.clone(), name.to_owned())) {
            Entry::Occupied(holder) => Err(holder.get().clone()),
            Entry::Vacant(free) => {
                free.insert(by);
                Ok(())
            }
        }
    }

    /// Remembers objects that a file no longer stands for, until others had the time to take them.
    pub(super) fn dropped(&self, former: impl Iterator<Item = Dropped>) {
        self.inner().former.extend(former);
    }

    pub(super) fn take_dropped(&self, which: impl Fn(&Dropped) -> bool) -> Vec<Dropped> {
        self.inner().former.extract_if(.., |dropped| which(dropped)).collect()
    }
}
