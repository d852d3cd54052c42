//! What changed between two revisions, without asking what is managed.

use std::collections::{BTreeSet, HashSet};

use windlass_git::{Change, ChangeKind, Diff, Tree};

use super::full::keep_directories;
use super::{
    Deletion, FileWrite, FolderAction, FolderWrite, Known, Notice, Plan, Retry, Target, kept_directory,
    rejected, root, skipped,
};
use crate::folders::{self, Folders, Metadata};
use crate::paths::{Class, ancestors, classify, depth, parent};
use crate::{FOLDER, Failure, Managed, Reason, SyncContext, names};

/// A plan, or why only a full comparison will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incremental {
    /// What to do.
    Plan(Box<Plan>),
    /// Folders may have changed their names, which concerns files that did not change.
    NeedsFull(&'static str),
}

/// Turns the difference between the revision that was applied and the present one into a plan, which also tries again
/// what `retry` names.
///
/// `tree` and `metadata` are those of the present revision (`metadata` read with an empty [`Managed`]).
pub fn incremental(
    diff: &Diff,
    tree: &Tree,
    metadata: &Metadata,
    retry: &Retry,
    context: &SyncContext,
) -> Incremental {
    if diff.changes.iter().any(touches_metadata) {
        return Incremental::NeedsFull("the metadata of a folder changed");
    }
    let mut plan = Plan { root: root(context), ..Plan::default() };
    plan.notices.extend(rejected(&tree.rejected));
    let mut directories = BTreeSet::new();
    for entry in &tree.entries {
        keep_directories(kept_directory(&entry.path, entry.kind), &mut directories);
        match classify(&entry.path, entry.kind) {
            Class::Resource => {
                plan.kept.insert(entry.path.clone());
            }
            Class::Skipped { reason, .. } => plan.notices.extend(skipped(&entry.path, reason)),
            Class::FolderMetadata | Class::Other => {}
        }
    }
    let folders = folders::resolve(&directories, metadata, &Managed::default(), context);
    if !folders.notices.is_empty() {
        return Incremental::NeedsFull("the metadata of a folder is not usable");
    }
    let mut gained = BTreeSet::new();
    let mut lost = BTreeSet::new();
    for change in &diff.changes {
        plan_change(&mut plan, change, &folders, &mut gained, &mut lost);
    }
    gained.extend(retry.folders.iter().cloned());
    for folder in folders.shallow_first().into_iter().filter(|folder| gained.contains(&folder.path)) {
        let write = FolderWrite { folder: folder.clone(), action: FolderAction::Ensure, previous_path: None };
        plan.folders.push(write);
    }
    plan.delete_folders = lost
        .difference(&directories)
        .map(|path| Deletion {
            path: path.clone(),
            target: Target::Named(FOLDER, names::folder_id(&context.repository, path)),
        })
        .collect();
    plan.delete_folders.sort_by(|a, b| depth(&b.path).cmp(&depth(&a.path)).then_with(|| a.path.cmp(&b.path)));
    plan.files.sort_by_key(|write| !write.is_update());
    // Last: what changed claims its object before what could not have it.
    plan_retries(&mut plan, retry, tree, &folders);
    Incremental::Plan(Box::new(plan))
}

/// Files that are the same as when they failed.
fn plan_retries(plan: &mut Plan, retry: &Retry, tree: &Tree, folders: &Folders) {
    let planned: HashSet<String> =
        plan.files.iter().chain(&plan.renames).map(|write| write.path.clone()).collect();
    let again = tree.entries.iter().filter(|entry| {
        retry.files.contains(&entry.path)
            && !planned.contains(&entry.path)
            && classify(&entry.path, entry.kind) == Class::Resource
    });
    for entry in again {
        plan.kept.remove(&entry.path);
        plan.files.push(FileWrite {
            path: entry.path.clone(),
            previous_path: None,
            id: entry.id,
            size: entry.size,
            folder: folders.holding(&entry.path).map(str::to_owned),
            known: Known::Nothing,
        });
    }
}

fn touches_metadata(change: &Change) -> bool {
    let paths = [Some(&change.path), change.previous_path.as_ref()];
    paths.into_iter().flatten().any(|path| classify(path, change.entry) == Class::FolderMetadata)
}

fn plan_change(
    plan: &mut Plan,
    change: &Change,
    folders: &Folders,
    gained: &mut BTreeSet<String>,
    lost: &mut BTreeSet<String>,
) {
    let is_new = matches!(change.kind, ChangeKind::Added | ChangeKind::Renamed);
    let previous_path = match change.kind {
        ChangeKind::Deleted => Some(change.path.as_str()),
        ChangeKind::Renamed => change.previous_path.as_deref(),
        ChangeKind::Added | ChangeKind::Modified => None,
    };
    if is_new {
        gained.extend(ancestors(kept_directory(&change.path, change.entry)).map(str::to_owned));
    }
    if let Some(previous) = previous_path {
        lost.extend(ancestors(kept_directory(previous, change.entry)).map(str::to_owned));
    }
    // A link or a submodule was never an object; what a link replaces may have been one.
    let was_resource = |path: &str| classify(path, windlass_git::EntryKind::File) == Class::Resource;
    let old = match change.kind {
        ChangeKind::Deleted if !change.entry.is_file() => None,
        ChangeKind::Modified => Some(change.path.as_str()),
        _ => previous_path,
    };
    let old = old.filter(|path| was_resource(path)).zip(change.previous_id);
    let class = classify(&change.path, change.entry);
    let content =
        (change.kind != ChangeKind::Deleted && class == Class::Resource).then_some(change.id).flatten();
    match (content, old) {
        (None, None) => {}
        (None, Some((path, id))) => {
            plan.delete_files.push(Deletion { path: path.to_owned(), target: Target::FromContent(id) });
        }
        (Some(id), old) => {
            plan.kept.remove(&change.path);
            let renamed = change.kind == ChangeKind::Renamed && old.is_some();
            let write = FileWrite {
                path: change.path.clone(),
                previous_path: old.filter(|_| renamed).map(|(path, _)| path.to_owned()),
                id,
                size: change.size,
                folder: folders.holding(&change.path).map(str::to_owned),
                known: Known::FromContent(old.map(|(_, id)| id)),
            };
            if !parent(&change.path).is_empty() && write.folder.is_none() {
                let message = "the file's directory is not part of the tree";
                plan.notices.push(Notice {
                    path: change.path.clone(),
                    failure: Failure::new(Reason::ResourceInvalid, message),
                });
            } else if renamed {
                plan.renames.push(write);
            } else {
                plan.files.push(write);
            }
        }
    }
}
