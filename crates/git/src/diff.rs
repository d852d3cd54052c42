//! What changed between two trees: only directories that differ are read.

use std::collections::{BTreeMap, HashMap};

use git2::Repository;
use tokio_util::sync::CancellationToken;

use crate::tree::{self, Node, NodeKind, Walk};
use crate::{Change, ChangeKind, Diff, EntryKind, GitError, Limits, ObjectId};

/// The difference under `prefix` from `old` to `new`.
pub(crate) fn diff(
    repository: &Repository,
    old: ObjectId,
    new: ObjectId,
    prefix: &str,
    limits: &Limits,
    stop: &CancellationToken,
) -> Result<Diff, GitError> {
    let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
    let mut before = Walk::new(&odb, limits, stop);
    let mut after = Walk::new(&odb, limits, stop);
    let old = tree::locate(&mut before, old, prefix)?;
    let new = tree::locate(&mut after, new, prefix)?;
    let mut compare = Compare { before, after, changes: Vec::new() };
    compare.directories(old, new, "", 0)?;
    let Compare { after, mut changes, .. } = compare;
    pair_renames(&mut changes);
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Diff { changes, rejected: after.rejected })
}

struct Compare<'a> {
    before: Walk<'a>,
    after: Walk<'a>,
    changes: Vec<Change>,
}

impl Compare<'_> {
    fn directories(
        &mut self,
        old: Option<ObjectId>,
        new: Option<ObjectId>,
        path: &str,
        depth: usize,
    ) -> Result<(), GitError> {
        if old == new {
            return Ok(());
        }
        let read = |walk: &mut Walk<'_>, id: Option<ObjectId>| {
            id.map_or(Ok(Vec::new()), |id| walk.entries(id, path, depth))
        };
        let mut old: BTreeMap<String, Node> =
            read(&mut self.before, old)?.into_iter().map(|node| (node.name.clone(), node)).collect();
        for new in read(&mut self.after, new)? {
            let old = old.remove(&new.name);
            self.pair(old, Some(new), path, depth)?;
        }
        old.into_values().try_for_each(|old| self.pair(Some(old), None, path, depth))
    }

    /// Compares what one name was with what it is.
    fn pair(
        &mut self,
        old: Option<Node>,
        new: Option<Node>,
        path: &str,
        depth: usize,
    ) -> Result<(), GitError> {
        if old == new {
            return Ok(());
        }
        let Some(name) = old.as_ref().or(new.as_ref()).map(|node| &node.name) else {
            return Ok(());
        };
        let path = format!("{path}{name}");
        let directory = |node: &Option<Node>| {
            node.as_ref().filter(|node| node.kind == NodeKind::Directory).map(|node| node.id)
        };
        self.directories(directory(&old), directory(&new), &format!("{path}/"), depth + 1)?;
        let leaf = |node: Option<Node>| match node {
            Some(Node { kind: NodeKind::Leaf(kind), id, .. }) => Some((id, kind)),
            _ => None,
        };
        let (old, mut new, mut size) = (leaf(old), leaf(new), 0);
        if let Some((id, kind)) = new {
            // What is no file is rejected, and so gone if it was one.
            match self.after.size(id, kind, &path)? {
                Some(bytes) => size = bytes,
                None => new = None,
            }
        }
        let (kind, entry) = match (old, new) {
            (None, Some((_, entry))) => (ChangeKind::Added, entry),
            (Some((_, entry)), None) => (ChangeKind::Deleted, entry),
            (Some(_), Some((_, entry))) => (ChangeKind::Modified, entry),
            (None, None) => return Ok(()),
        };
        let (id, previous_id) = (new.map(|(id, _)| id), old.map(|(id, _)| id));
        self.changes.push(Change { path, previous_path: None, kind, id, previous_id, entry, size });
        Ok(())
    }
}

/// Turns a deleted and an added file of the same content into one renamed file; of several candidates the one
/// whose file name is the same is taken, otherwise the first.
fn pair_renames(changes: &mut Vec<Change>) {
    let mut gone: HashMap<ObjectId, Vec<usize>> = HashMap::new();
    for (position, change) in changes.iter().enumerate() {
        if let (ChangeKind::Deleted, true, Some(id)) =
            (change.kind, change.entry.is_file(), change.previous_id)
        {
            gone.entry(id).or_default().push(position);
        }
    }
    let mut paired = vec![false; changes.len()];
    for position in 0..changes.len() {
        let added = &changes[position];
        let (ChangeKind::Added, EntryKind::File | EntryKind::Executable, Some(id)) =
            (added.kind, added.entry, added.id)
        else {
            continue;
        };
        let Some(candidates) = gone.get_mut(&id).filter(|candidates| !candidates.is_empty()) else {
            continue;
        };
        let same_name =
            candidates.iter().position(|it| file_name(&changes[*it].path) == file_name(&added.path));
        let from = candidates.remove(same_name.unwrap_or(0));
        paired[from] = true;
        let previous_path = Some(changes[from].path.clone());
        let renamed = &mut changes[position];
        renamed.kind = ChangeKind::Renamed;
        renamed.previous_path = previous_path;
        renamed.previous_id = Some(id);
    }
    let mut paired = paired.into_iter();
    changes.retain(|_| !paired.next().unwrap_or(false));
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
