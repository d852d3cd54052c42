//! What a repository holds that the API does not, from one pull to the next. Pure.
//!
//! A difference of two revisions shows what changed, and a file that could not be applied is not among that the next
//! time. So it is remembered in the repository's status until it is applied or gone, and the pull stays a warning.

use std::collections::{BTreeSet, HashSet};

use windlass_api::conditions::reasons;
use windlass_api::{FileOutcome, Repository, UnsyncedStatus};
use windlass_git::Tree;
use windlass_lease_queue::progress::{Failure, ResourceAction, ResourceResult};
use windlass_resources::paths::{Class, classify};
use windlass_resources::plan::Retry;
use windlass_resources::{FOLDER, Plan, Reason};

/// Most files that a repository's status lists, and the most bytes that they may take: every watcher of repositories is
/// sent them with every change of a status.
const LISTED: usize = 256;
const LISTED_BYTES: usize = 64 * 1024;

/// Files and folders that are not synced.
#[derive(Clone, Debug, Default)]
pub(super) struct Unsynced {
    /// By path.
    items: Vec<FileOutcome>,
    /// More of them, of which nothing is known but that they are.
    unlisted: usize,
    /// Whether deletions are among them.
    has_deletions: bool,
}

impl Unsynced {
    pub(super) fn new(mut items: Vec<FileOutcome>, has_deletions: bool) -> Self {
        // Of the documents of one file, more than one may have no name.
        let key = |file: &FileOutcome| (file.path.clone(), file.name.clone(), file.message.clone());
        items.sort_by_cached_key(key);
        items.dedup_by(|a, b| key(a) == key(b));
        Self { items, unlisted: 0, has_deletions }
    }

    /// As the last pull left it in the status.
    pub(super) fn of_status(repository: &Repository) -> Self {
        let Some(status) = &repository.status.unsynced else { return Self::default() };
        let count = usize::try_from(status.count).unwrap_or(0);
        Self {
            items: status.items.clone(),
            unlisted: count.saturating_sub(status.items.len()),
            has_deletions: status.has_deletions,
        }
    }

    /// What the status is to say. `record` is the name of the historic job that has all of it.
    pub(super) fn status(&self, record: &str) -> Option<UnsyncedStatus> {
        let count = self.items.len() + self.unlisted;
        let mut bytes = 0;
        let fits = |file: &&FileOutcome| {
            bytes += file.weight();
            bytes <= LISTED_BYTES
        };
        let items: Vec<FileOutcome> = self.items.iter().take(LISTED).take_while(fits).cloned().collect();
        let record = if items.len() < count { record } else { "" };
        (count > 0).then(|| UnsyncedStatus {
            count: i64::try_from(count).unwrap_or(i64::MAX),
            items,
            record: record.to_owned(),
            has_deletions: self.has_deletions,
        })
    }

    pub(super) fn items(&self) -> &[FileOutcome] {
        &self.items
    }

    /// Whether all of them are known.
    pub(super) fn is_complete(&self) -> bool {
        self.unlisted == 0
    }

    pub(super) fn names(&self, path: &str) -> bool {
        self.items.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok()
    }

    /// Whether only a full comparison can tell what is to be done: not all is known, nothing could be synced at all, or
    /// something was not deleted, be it that the API refused or that it waited for other files. What is to be deleted is
    /// not in the tree any more.
    pub(super) fn needs_full(&self) -> bool {
        let waiting = [
            Reason::SkippedFolderChildrenNotDeleted.as_str(),
            Reason::SkippedDependentPathChangeFailed.as_str(),
        ];
        !self.is_complete()
            || self.has_deletions
            || self.items.iter().any(|file| file.path.is_empty() || waiting.contains(&&*file.reason))
    }

    /// Whether a full comparison has to follow once something changes: these are objects that there was no room for.
    pub(super) fn needs_full_on_change(&self) -> bool {
        self.needs_full() || self.items.iter().any(|file| file.reason == reasons::QUOTA_EXCEEDED)
    }

    /// What may succeed now although the repository has not changed.
    pub(super) fn retry(&self) -> Retry {
        let paths = |folders: bool| -> BTreeSet<String> {
            let again = self.items.iter().filter(|file| file.retry && is_folder(file) == folders);
            again.map(|file| file.path.clone()).collect()
        };
        Retry { files: paths(false), folders: paths(true) }
    }

    /// What is still in the repository and not in `plan`. What the plan names anew, it names itself.
    pub(super) fn left(&self, tree: &Tree, plan: &Plan) -> Vec<FileOutcome> {
        let mut planned: HashSet<&str> =
            plan.files.iter().chain(&plan.renames).map(|write| write.path.as_str()).collect();
        planned.extend(plan.folders.iter().map(|write| write.folder.path.as_str()));
        let there: HashSet<&str> = tree
            .entries
            .iter()
            .filter(|entry| classify(&entry.path, entry.kind) == Class::Resource)
            .map(|entry| entry.path.as_str())
            .collect();
        let has_directory = |path: &str| {
            let inside = format!("{path}/");
            tree.entries.iter().any(|entry| entry.path.starts_with(&inside))
        };
        let is_left = |file: &&FileOutcome| {
            let path = file.path.as_str();
            !planned.contains(path)
                && if is_folder(file) { has_directory(path) } else { there.contains(path) }
        };
        self.items.iter().filter(is_left).cloned().collect()
    }

    /// Adds what was not synced before, and has not been tried by a pull that was cut short.
    pub(super) fn keep_untried(&mut self, previous: &Self, tried: &HashSet<String>) {
        let untried = previous.items.iter().filter(|file| !tried.contains(&file.path)).cloned();
        let items = std::mem::take(&mut self.items).into_iter().chain(untried).collect();
        let has_deletions = self.has_deletions || previous.has_deletions;
        *self = Self { unlisted: previous.unlisted, ..Self::new(items, has_deletions) };
    }
}

/// A file that is still not synced, as a result of a pull that did not try it.
pub(super) fn result(file: &FileOutcome) -> ResourceResult {
    let mut result = ResourceResult::new(&*file.path, &*file.group, &*file.kind, ResourceAction::Ignored);
    result.name.clone_from(&file.name);
    result.hash.clone_from(&file.hash);
    let failure = Failure::warning(&*file.reason, &*file.message);
    result.failed(Failure { retry: file.retry, ..failure })
}

fn is_folder(file: &FileOutcome) -> bool {
    file.group == FOLDER.group && file.kind == FOLDER.kind
}
