//! How many objects a repository may manage, and what of a plan there is room for. Pure. Grafana: `quotas/`.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::QuotaStatus;
use windlass_api::conditions::{self, messages, reasons, types};
use windlass_lease_queue::progress::{Failure, ResourceAction, ResourceResult};
use windlass_resources::plan::{FileWrite, FolderAction, Known};
use windlass_resources::{FOLDER, Kind, Plan};

/// The limit of one repository.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quota {
    /// Most objects; 0 for no limit.
    pub(super) limit: usize,
}

/// A new object that there is no room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    path: String,
    /// Nothing for a file: it is not read.
    kind: Option<Kind>,
}

impl Quota {
    /// How many objects there is room for beside one for each new file of the plan and its folders, which may or may not
    /// be there already; nothing if these could go over the limit.
    pub(super) fn room(self, plan: &Plan, used: usize) -> Option<usize> {
        let folders = plan.folders.iter().filter(|write| !matches!(write.action, FolderAction::Update(_)));
        let files = plan.files.iter().filter(|write| is_new(write));
        if self.limit == 0 {
            Some(usize::MAX)
        } else {
            self.limit.checked_sub(used + folders.count() + files.count())
        }
    }

    /// Takes out of a full plan the new objects that there is no room for, given how many the repository manages before.
    ///
    /// What the plan deletes makes room, whenever that happens. Files are let in by their order, each with the folders
    /// that it needs; what merely moves or changes always keeps its place. A file is reckoned as one object; the last
    /// answer is how many more there is room for.
    pub(super) fn fit(self, mut plan: Plan, used: usize) -> (Plan, Vec<Refused>, usize) {
        if self.limit == 0 {
            return (plan, Vec::new(), usize::MAX);
        }
        let freed = plan.delete_files.len() + plan.delete_folders.len() + plan.replaced_folders.len();
        let room = self.limit.saturating_sub(used.saturating_sub(freed));
        let new_folders: HashSet<String> = plan
            .folders
            .iter()
            .filter(|write| write.action == FolderAction::Create)
            .map(|write| write.folder.path.clone())
            .collect();
        let mut room = Room { left: room, new_folders, admitted: HashSet::new() };
        for write in plan.renames.iter().chain(&plan.files).filter(|write| !is_new(write)) {
            room.admit_anyway(&write.path);
        }
        let mut refused = Vec::new();
        plan.files.retain(|write| {
            let stays = !is_new(write) || room.admit(&write.path, 1);
            if !stays {
                refused.push(Refused { path: write.path.clone(), kind: None });
            }
            stays
        });
        let held_back: Vec<String> = refused.iter().map(|refused| refused.path.clone()).collect();
        plan.folders.retain(|write| {
            let (path, inside) = (&write.folder.path, format!("{}/", write.folder.path));
            // A folder that waits for its files does not take the room that they need.
            let waits = || held_back.iter().any(|path| path.starts_with(&inside));
            let stays = !room.new_folders.contains(path)
                || room.admitted.contains(path)
                || (!waits() && room.admit(&inside, 0));
            if !stays {
                refused.push(Refused { path: path.clone(), kind: Some(FOLDER) });
            }
            stays
        });
        (plan, refused, room.left)
    }

    /// A refused object as a result of the job.
    pub(super) fn refusal(self, refused: &Refused) -> ResourceResult {
        let message = format!(
            "not created: the repository may manage {} resources; remove some, or raise max_resources_per_repository",
            self.limit
        );
        let (group, kind) = refused.kind.as_ref().map_or(("", ""), |kind| (&*kind.group, &*kind.kind));
        ResourceResult::new(&*refused.path, group, kind, ResourceAction::Ignored)
            .failed(Failure { retry: true, ..Failure::warning(reasons::QUOTA_EXCEEDED, message) })
    }

    /// Says in the status what the limit is; nothing where there is none and never was.
    pub(super) fn state(self, status: &mut Option<QuotaStatus>, now: Timestamp) {
        let limit = i64::try_from(self.limit).unwrap_or(i64::MAX);
        let stated = status.as_ref().map_or(0, |quota| quota.max_resources_per_repository);
        if stated != limit {
            let quota = status.get_or_insert_default();
            quota.max_resources_per_repository = limit;
            quota.updated_at = now.as_millisecond();
        }
    }

    /// The `ResourceQuota` condition of a repository that manages `used` objects, after something was refused or not.
    pub(super) fn condition(
        self,
        used: usize,
        refused: bool,
        generation: Option<i64>,
        now: Timestamp,
    ) -> Condition {
        let limit = self.limit;
        let (holds, reason, message) = match used {
            _ if limit == 0 => (true, reasons::QUOTA_UNLIMITED, messages::QUOTA_UNLIMITED.to_owned()),
            _ if refused || used > limit => {
                (false, reasons::QUOTA_EXCEEDED, format!("resource quota exceeded: {used}/{limit} resources"))
            }
            _ if used == limit => {
                (true, reasons::QUOTA_REACHED, format!("resource quota reached: {used}/{limit} resources"))
            }
            _ => (true, reasons::WITHIN_QUOTA, format!("within quota: {used}/{limit} resources")),
        };
        conditions::new(types::RESOURCE_QUOTA, holds, reason, message, generation, now)
    }
}

/// What is left, and which of the new folders are let in.
struct Room {
    left: usize,
    new_folders: HashSet<String>,
    admitted: HashSet<String>,
}

impl Room {
    /// Lets in `objects` at `path` with the new folders above it, if all of that fits.
    fn admit(&mut self, path: &str, objects: usize) -> bool {
        let folders = self.missing(path);
        let fits = objects + folders.len() <= self.left;
        if fits {
            self.left -= objects + folders.len();
            self.admitted.extend(folders);
        }
        fits
    }

    /// Lets in the new folders above `path`, whether or not they fit.
    fn admit_anyway(&mut self, path: &str) {
        let folders = self.missing(path);
        self.left = self.left.saturating_sub(folders.len());
        self.admitted.extend(folders);
    }

    /// New folders above `path` that are not let in yet.
    fn missing(&self, path: &str) -> Vec<String> {
        path.match_indices('/')
            .map(|(end, _)| &path[..end])
            .filter(|folder| self.new_folders.contains(*folder) && !self.admitted.contains(*folder))
            .map(str::to_owned)
            .collect()
    }
}

fn is_new(write: &FileWrite) -> bool {
    match &write.known {
        Known::Listed(existing) => existing.is_empty() && write.previous_path.is_none(),
        Known::FromContent(previous) => previous.is_none() && write.previous_path.is_none(),
        Known::Nothing => true,
    }
}

#[cfg(test)]
mod tests;
