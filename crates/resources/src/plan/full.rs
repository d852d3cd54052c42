//! Everything in the tree against everything that is managed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use windlass_git::{Entry, Tree};

use super::{
    Deletion, FileWrite, FolderAction, FolderWrite, Known, Plan, kept_directory, rejected, root, skipped,
};
use crate::folders::{self, Folders, Metadata};
use crate::paths::{Class, ancestors, classify, depth};
use crate::{Kind, Managed, ManagedItem, SyncContext, digest};

/// Compares a tree with what is managed.
///
/// A file whose managed object has its hash and the right folder, and was not changed by hand, stays untouched and
/// unread. A directory lives as
/// long as anything in it that a folder may stand for, be it only a README.
pub fn full(tree: &Tree, managed: &Managed, metadata: &Metadata, context: &SyncContext) -> Plan {
    let mut entries: Vec<&Entry> = tree.entries.iter().collect();
    entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    let mut plan = Plan { root: root(context), ..Plan::default() };
    plan.notices.extend(rejected(&tree.rejected));

    let mut directories = BTreeSet::new();
    let mut files = Vec::new();
    for entry in entries {
        keep_directories(kept_directory(&entry.path, entry.kind), &mut directories);
        match classify(&entry.path, entry.kind) {
            Class::Resource => files.push(entry),
            Class::Skipped { reason, .. } => plan.notices.extend(skipped(&entry.path, reason)),
            Class::FolderMetadata | Class::Other => {}
        }
    }
    let mut folders = folders::resolve(&directories, metadata, managed, context);
    plan.notices.append(&mut folders.notices);
    plan_folders(&mut plan, &folders, managed, context);
    plan_files(&mut plan, &files, &folders, managed);
    collapse_renames(&mut plan, managed);
    // Changed files first: an object belongs to the file that it came from before it belongs to a newcomer.
    plan.files.sort_by_key(|write| !write.is_update());
    plan
}

/// The directories that become folders.
pub(super) fn keep_directories(directory: &str, directories: &mut BTreeSet<String>) {
    for directory in ancestors(directory) {
        if !directories.insert(directory.to_owned()) {
            break;
        }
    }
}

fn plan_folders(plan: &mut Plan, folders: &Folders, managed: &Managed, context: &SyncContext) {
    let by_name: HashMap<&str, &ManagedItem> =
        managed.folders.iter().map(|folder| (folder.name.as_str(), folder)).collect();
    let mut used = HashSet::new();
    let mut live = HashSet::new();
    for folder in folders.shallow_first() {
        used.insert(folder.id.as_str());
        live.insert(folder.path.as_str());
        let (action, previous_path) = match by_name.get(folder.id.as_str()) {
            None => (FolderAction::Create, None),
            Some(present) => {
                let same = present.path == folder.path
                    && present.checksum == folder.checksum
                    && !present.drifted
                    && present.folder.as_deref() == folder.parent.as_deref();
                if same {
                    continue;
                }
                let moved = (present.path != folder.path).then(|| present.path.clone());
                (FolderAction::Update((*present).into()), moved)
            }
        };
        plan.folders.push(FolderWrite { folder: folder.clone(), action, previous_path });
    }
    for present in &managed.folders {
        if used.contains(present.name.as_str()) || context.root_folder() == Some(present.name.as_str()) {
            continue;
        }
        // A former root folder, and one whose directory is called differently now, are emptied by this sync.
        let replaced = present.path.is_empty() || live.contains(present.path.as_str());
        let deletions = if replaced { &mut plan.replaced_folders } else { &mut plan.delete_folders };
        deletions.push(Deletion::listed(present));
    }
    for deletions in [&mut plan.delete_folders, &mut plan.replaced_folders] {
        deletions.sort_by(|a, b| depth(&b.path).cmp(&depth(&a.path)).then_with(|| a.path.cmp(&b.path)));
    }
}

fn plan_files(plan: &mut Plan, files: &[&Entry], folders: &Folders, managed: &Managed) {
    let mut by_path: BTreeMap<&str, Vec<&ManagedItem>> = BTreeMap::new();
    for item in &managed.files {
        by_path.entry(item.path.as_str()).or_default().push(item);
    }
    for entry in files {
        let items = by_path.remove(entry.path.as_str()).unwrap_or_default();
        let folder = folders.holding(&entry.path);
        let checksum = entry.id.to_string();
        let is_same = |item: &&&ManagedItem| item.checksum.as_deref() == Some(checksum.as_str());
        let same: Vec<&ManagedItem> = items.iter().filter(is_same).copied().collect();
        let documents = same.first().map_or(0, |item| item.documents);
        let mut known = items;
        if documents == 1 {
            // Left over from a change of name that was cut short.
            let surplus = known.iter().filter(|item| !std::ptr::eq(**item, same[0]));
            plan.delete_files.extend(surplus.map(|item| Deletion::listed(item)));
            known = vec![same[0]];
        }
        // Which objects are those of several documents only the file can tell, unless they are all there.
        let is_settled = |item: &&ManagedItem| item.folder.as_deref() == folder && !item.drifted;
        if documents > 0
            && (same.len() >= documents || has_all_documents(&same, &known))
            && known.len() == documents
            && known.iter().all(is_settled)
        {
            plan.kept.insert(entry.path.clone());
            continue;
        }
        let known = known.into_iter().map(Into::into).collect();
        plan.files.push(FileWrite {
            path: entry.path.clone(),
            previous_path: None,
            id: entry.id,
            size: entry.size,
            folder: folder.map(str::to_owned),
            known: Known::Listed(known),
        });
    }
    plan.delete_files.extend(by_path.into_values().flatten().map(Deletion::listed));
    plan.delete_files.sort_by(|a, b| a.path.cmp(&b.path));
}

/// Whether the objects of a file are of its documents as they are: what one that was written from it says of all of them is
/// what they say of themselves.
fn has_all_documents(written_from_it: &[&ManagedItem], all: &[&ManagedItem]) -> bool {
    let own = all.iter().map(|item| {
        let hash = item.document.as_deref().and_then(digest::own);
        (&item.kind, item.name.as_str(), hash.unwrap_or_default())
    });
    let own = digest::of_all(own);
    written_from_it.iter().any(|item| item.document.as_deref().and_then(digest::all) == Some(&own))
}

/// The objects of each file that is gone, and the files that are new.
type Pair<'a> = (BTreeMap<&'a str, Vec<usize>>, Vec<usize>);

/// One file gone, one file new, the same content, and no other of either: it moved, and its objects stay.
fn collapse_renames(plan: &mut Plan, managed: &Managed) {
    let checksums: HashMap<(&Kind, &str, &str), &str> = managed
        .files
        .iter()
        .filter_map(|item| {
            Some(((&item.kind, item.name.as_str(), item.path.as_str()), item.checksum.as_deref()?))
        })
        .collect();
    let live: HashSet<&str> = plan.files.iter().map(|write| write.path.as_str()).collect();
    // By content.
    let mut pairs: HashMap<String, Pair<'_>> = HashMap::new();
    for (index, deletion) in plan.delete_files.iter().enumerate() {
        let super::Target::Listed(existing) = &deletion.target else { continue };
        // A path that is still there has lost a surplus object, not its file.
        if live.contains(deletion.path.as_str()) || plan.kept.contains(&deletion.path) {
            continue;
        }
        if let Some(checksum) =
            checksums.get(&(&existing.kind, existing.name.as_str(), deletion.path.as_str()))
        {
            let (gone, _) = pairs.entry((*checksum).to_owned()).or_default();
            gone.entry(&deletion.path).or_default().push(index);
        }
    }
    if pairs.is_empty() {
        return;
    }
    for (index, write) in plan.files.iter().enumerate().filter(|(_, write)| !write.is_update()) {
        if let Some((_, new)) = pairs.get_mut(&write.id.to_string()) {
            new.push(index);
        }
    }
    let mut moved: Vec<(Vec<usize>, usize)> = pairs
        .into_values()
        .filter_map(|(gone, new)| match (gone.len(), new.as_slice()) {
            (1, [new]) => Some((gone.into_values().next()?, *new)),
            _ => None,
        })
        .collect();
    moved.sort_by_key(|(_, new)| *new);
    for (gone, new) in &moved {
        let deletions = gone.iter().map(|index| &plan.delete_files[*index]);
        let known = deletions.clone().filter_map(|deletion| match &deletion.target {
            super::Target::Listed(existing) => Some(existing.clone()),
            _ => None,
        });
        let write = FileWrite {
            previous_path: deletions.clone().next().map(|deletion| deletion.path.clone()),
            known: Known::Listed(known.collect()),
            ..plan.files[*new].clone()
        };
        plan.renames.push(write);
    }
    let gone: HashSet<usize> = moved.iter().flat_map(|(gone, _)| gone).copied().collect();
    let new: HashSet<usize> = moved.iter().map(|(_, new)| *new).collect();
    let mut index = 0;
    plan.delete_files.retain(|_| {
        index += 1;
        !gone.contains(&(index - 1))
    });
    index = 0;
    plan.files.retain(|_| {
        index += 1;
        !new.contains(&(index - 1))
    });
}
