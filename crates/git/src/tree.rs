//! Trees as they are in the object store: our own parser (total, and judging every entry), and the walk that
//! lists files under limits.

use std::collections::HashMap;

use git2::{ObjectType, Odb, Repository};
use tokio_util::sync::CancellationToken;
use windlass_http_client::printable;

use crate::names;
use crate::object_id::oid;
use crate::{Entry, EntryKind, GitError, Limits, ObjectId, Rejected, Revision, Tree};

/// One entry of a tree that passed judgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) id: ObjectId,
    pub(crate) kind: NodeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeKind {
    Directory,
    Leaf(EntryKind),
}

/// One entry of a tree as it is stored.
pub(crate) struct Raw<'a> {
    pub(crate) mode: u32,
    pub(crate) name: &'a [u8],
    pub(crate) id: ObjectId,
}

/// A commit, as far as reading files needs it.
pub(crate) struct Commit {
    pub(crate) id: ObjectId,
    pub(crate) tree: ObjectId,
    pub(crate) parents: Vec<ObjectId>,
}

/// Tags of tags that are followed.
const MAX_TAGS: usize = 8;
/// Bytes of a commit or a tag, its message included.
const MAX_COMMIT: u64 = 16 << 20;

/// What a walk carries along: where it reads, what it may spend, and whether anyone still wants the answer.
pub(crate) struct Walk<'a> {
    odb: &'a Odb<'a>,
    limits: &'a Limits,
    stop: &'a CancellationToken,
    seen: usize,
    pub(crate) rejected: Vec<Rejected>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(odb: &'a Odb<'a>, limits: &'a Limits, stop: &'a CancellationToken) -> Self {
        Self { odb, limits, stop, seen: 0, rejected: Vec::new() }
    }

    /// The entries of the tree `id` that may be handled. `path` is where it is (empty, or ending in a slash),
    /// `depth` how deep; what is refused goes to `rejected`.
    pub(crate) fn entries(&mut self, id: ObjectId, path: &str, depth: usize) -> Result<Vec<Node>, GitError> {
        if self.stop.is_cancelled() {
            return Err(GitError::Cancelled);
        }
        if depth > self.limits.depth {
            let what = format!("the nesting of {:?}", printable(path, 80));
            return Err(GitError::LimitExceeded { limit: "depth", max: self.limits.depth as u64, what });
        }
        let (_, found) = header(self.odb, id)?;
        if found != ObjectType::Tree {
            self.reject(path.trim_end_matches('/').to_owned(), &format!("it is a {found}, not a directory"));
            return Ok(Vec::new());
        }
        let data = read(self.odb, id, ObjectType::Tree, ("tree_bytes", self.limits.tree_bytes))?;
        let mut names: HashMap<&[u8], usize> = HashMap::new();
        let mut nodes = Vec::new();
        let raw = match parse(data.data()) {
            Ok(raw) => raw,
            Err(what) => {
                self.reject(path.trim_end_matches('/').to_owned(), what);
                return Ok(nodes);
            }
        };
        self.seen += raw.len();
        if self.seen > self.limits.entries {
            return Err(GitError::LimitExceeded {
                limit: "entries",
                max: self.limits.entries as u64,
                what: "the number of files and directories".to_owned(),
            });
        }
        for entry in &raw {
            *names.entry(entry.name).or_default() += 1;
        }
        for entry in &raw {
            let whole = || format!("{path}{}", names::shown(entry.name));
            let node = match (names::refuse(entry.name), kind(entry.mode), std::str::from_utf8(entry.name)) {
                (None, Some(kind), Ok(name)) => Node { name: name.to_owned(), id: entry.id, kind },
                (Some(reason), ..) => {
                    self.reject(whole(), reason);
                    continue;
                }
                _ => {
                    self.reject(whole(), "its mode is not one of Git's");
                    continue;
                }
            };
            if names.get(entry.name).is_some_and(|count| *count > 1) {
                self.reject(whole(), "another entry has the same name");
            } else if path.len() + entry.name.len() > self.limits.path_bytes {
                self.reject(whole(), "its path is too long");
            } else {
                nodes.push(node);
            }
        }
        Ok(nodes)
    }

    fn reject(&mut self, path: String, reason: &str) {
        let path = if path.len() > 1024 { printable(&path, 256) } else { path };
        self.rejected.push(Rejected { path, reason: reason.to_owned() });
    }

    /// Bytes of a file or link; 0 for a submodule, which is not here. Nothing, and the path is rejected, if the object
    /// is no file.
    pub(crate) fn size(
        &mut self,
        id: ObjectId,
        kind: EntryKind,
        path: &str,
    ) -> Result<Option<u64>, GitError> {
        if kind == EntryKind::Submodule {
            return Ok(Some(0));
        }
        match header(self.odb, id)? {
            (size, ObjectType::Blob) => Ok(Some(size)),
            (_, found) => {
                self.reject(path.to_owned(), &format!("it is a {found}, not a file"));
                Ok(None)
            }
        }
    }

    /// Calls `found` for every file under the tree `id`, depth first.
    pub(crate) fn files(
        &mut self,
        id: ObjectId,
        path: &str,
        depth: usize,
        found: &mut impl FnMut(&mut Self, String, ObjectId, EntryKind) -> Result<(), GitError>,
    ) -> Result<(), GitError> {
        for node in self.entries(id, path, depth)? {
            match node.kind {
                NodeKind::Directory => {
                    self.files(node.id, &format!("{path}{}/", node.name), depth + 1, found)?;
                }
                NodeKind::Leaf(kind) => found(self, format!("{path}{}", node.name), node.id, kind)?,
            }
        }
        Ok(())
    }
}

fn kind(mode: u32) -> Option<NodeKind> {
    Some(match mode {
        0o040_000 => NodeKind::Directory,
        0o100_644 | 0o100_664 => NodeKind::Leaf(EntryKind::File),
        0o100_755 => NodeKind::Leaf(EntryKind::Executable),
        0o120_000 => NodeKind::Leaf(EntryKind::Symlink),
        0o160_000 => NodeKind::Leaf(EntryKind::Submodule),
        _ => return None,
    })
}

/// `<octal mode> SP <name> NUL <20 bytes>`, repeated.
pub(crate) fn parse(mut data: &[u8]) -> Result<Vec<Raw<'_>>, &'static str> {
    let mut entries = Vec::new();
    while !data.is_empty() {
        let space = data.iter().take(8).position(|byte| *byte == b' ').ok_or("it is not a tree: no mode")?;
        let mode = std::str::from_utf8(&data[..space])
            .ok()
            .and_then(|mode| u32::from_str_radix(mode, 8).ok())
            .ok_or("it is not a tree: a mode that is no number")?;
        let rest = &data[space + 1..];
        let nul = rest.iter().position(|byte| *byte == 0).ok_or("it is not a tree: a name without an end")?;
        let (name, rest) = (&rest[..nul], &rest[nul + 1..]);
        let (id, rest) = rest.split_first_chunk::<20>().ok_or("it is not a tree: an entry without an id")?;
        entries.push(Raw { mode, name, id: ObjectId::from_bytes(*id) });
        data = rest;
    }
    Ok(entries)
}

/// The size and the kind of an object.
pub(crate) fn header(odb: &Odb<'_>, id: ObjectId) -> Result<(u64, ObjectType), GitError> {
    let (size, kind) = odb.read_header(oid(id)?).map_err(|error| lost(id, &error))?;
    Ok((size as u64, kind))
}

/// Reads an object that is no larger than `cap` allows. One of another kind is what the repository says, not damage of
/// the cache: it was hashed when it was read.
pub(crate) fn read<'odb>(
    odb: &'odb Odb<'_>,
    id: ObjectId,
    expected: ObjectType,
    (limit, max): (&'static str, u64),
) -> Result<git2::OdbObject<'odb>, GitError> {
    let (size, kind) = header(odb, id)?;
    if kind != expected {
        return Err(GitError::Damaged { detail: format!("{id} is a {kind} where a {expected} should be") });
    }
    if size > max {
        return Err(GitError::LimitExceeded { limit, max, what: format!("{expected} {id} of {size} bytes") });
    }
    odb.read(oid(id)?).map_err(|error| lost(id, &error))
}

/// The commit `id`, or the one that the tag `id` stands for.
pub(crate) fn commit(odb: &Odb<'_>, mut id: ObjectId) -> Result<Commit, GitError> {
    let cap = ("commit_bytes", MAX_COMMIT);
    for _ in 0..=MAX_TAGS {
        if header(odb, id)?.1 != ObjectType::Tag {
            let data = read(odb, id, ObjectType::Commit, cap)?;
            return parse_commit(id, data.data())
                .ok_or_else(|| GitError::Damaged { detail: format!("commit {id} names no tree") });
        }
        let data = read(odb, id, ObjectType::Tag, cap)?;
        id = line(data.data(), "object ")
            .map(|(target, _)| target)
            .ok_or_else(|| GitError::Damaged { detail: format!("tag {id} names no object") })?;
    }
    Err(GitError::Damaged { detail: format!("more than {MAX_TAGS} tags of tags before {id}") })
}

fn parse_commit(id: ObjectId, data: &[u8]) -> Option<Commit> {
    let (tree, mut rest) = line(data, "tree ")?;
    let mut parents = Vec::new();
    while let Some((parent, next)) = line(rest, "parent ") {
        parents.push(parent);
        rest = next;
    }
    Some(Commit { id, tree, parents })
}

/// The id behind `word` at the beginning of `data`, and what follows the line.
fn line<'a>(data: &'a [u8], word: &str) -> Option<(ObjectId, &'a [u8])> {
    let rest = data.strip_prefix(word.as_bytes())?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    Some((std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?, &rest[end + 1..]))
}

fn lost(id: ObjectId, error: &git2::Error) -> GitError {
    if error.code() == git2::ErrorCode::NotFound {
        return GitError::ObjectMissing { id };
    }
    GitError::cache("read an object", format!("{id}: {}", error.message()))
}

/// The tree of the directory `prefix` at `revision`; nothing when there is no such path.
pub(crate) fn locate(
    walk: &mut Walk<'_>,
    revision: ObjectId,
    prefix: &str,
) -> Result<Option<ObjectId>, GitError> {
    let mut id = commit(walk.odb, revision)?.tree;
    let mut path = String::new();
    for (depth, segment) in prefix.split('/').filter(|segment| !segment.is_empty()).enumerate() {
        let nodes = walk.entries(id, &path, depth)?;
        // What is wrong beside the path is not asked for, and not counted.
        walk.rejected.clear();
        walk.seen = 0;
        path.push_str(segment);
        path.push('/');
        match nodes.into_iter().find(|node| node.name == segment) {
            Some(Node { kind: NodeKind::Directory, id: found, .. }) => id = found,
            Some(_) => {
                let revision = revision.to_string();
                return Err(GitError::NotADirectory { path: prefix.to_owned(), revision });
            }
            None => return Ok(None),
        }
    }
    Ok(Some(id))
}

/// What is at a path, whatever it is; nothing when nothing is.
pub(crate) fn id_at(
    odb: &Odb<'_>,
    revision: ObjectId,
    path: &str,
    limits: &Limits,
    stop: &CancellationToken,
) -> Result<Option<ObjectId>, GitError> {
    let mut walk = Walk::new(odb, limits, stop);
    let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
    let directory = match locate(&mut walk, revision, above) {
        Err(GitError::NotADirectory { .. }) => None,
        found => found?,
    };
    let Some(directory) = directory else { return Ok(None) };
    let nodes = walk.entries(directory, "", 0)?;
    Ok(nodes.into_iter().find(|node| node.name == name).map(|node| node.id))
}

/// Every file under `prefix`.
pub(crate) fn list(
    repository: &Repository,
    revision: ObjectId,
    prefix: &str,
    limits: &Limits,
    stop: &CancellationToken,
) -> Result<Tree, GitError> {
    let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
    let mut walk = Walk::new(&odb, limits, stop);
    let Some(root) = locate(&mut walk, revision, prefix)? else {
        return Ok(Tree::default());
    };
    let mut entries = Vec::new();
    walk.files(root, "", 0, &mut |walk, path, id, kind| {
        if let Some(size) = walk.size(id, kind, &path)? {
            entries.push(Entry { path, id, kind, size });
        }
        Ok(())
    })?;
    Ok(Tree { root: Some(root), entries, rejected: walk.rejected })
}

/// The commit that a revision names.
pub(crate) fn commit_id(revision: &Revision, url: &str) -> Result<ObjectId, GitError> {
    let missing = |_| GitError::RevisionMissing {
        url: url.to_owned(),
        revision: names::shown(revision.as_str().as_bytes()),
    };
    revision.as_str().parse().map_err(missing)
}

/// Whether everything that `new` needs is in the store, trees that `old` shares with it taken for granted. A
/// server that leaves something out is found here, before the commit is believed to be had. What is there and is not
/// what it should be, or larger than the limits, is left to whoever reads it: fetching it again changes nothing.
pub(crate) fn complete(
    repository: &Repository,
    new: ObjectId,
    old: Option<ObjectId>,
    limits: &Limits,
    stop: &CancellationToken,
) -> Result<(), GitError> {
    let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
    let new = match commit(&odb, new) {
        Err(GitError::Damaged { .. }) => return Ok(()),
        commit => commit?.tree,
    };
    let old = old.and_then(|old| commit(&odb, old).ok()).map(|old| old.tree);
    changed(&odb, new, old, limits, stop, |odb, id, _| {
        if odb.exists(oid(id)?) { Ok(()) } else { Err(GitError::ObjectMissing { id }) }
    })
}

/// Calls `found` for every object under the tree `new`, itself included, that is not at the same place under `old`;
/// trees that are none, or larger than the limits, are not looked into.
pub(crate) fn changed(
    odb: &Odb<'_>,
    new: ObjectId,
    old: Option<ObjectId>,
    limits: &Limits,
    stop: &CancellationToken,
    mut found: impl FnMut(&Odb<'_>, ObjectId, NodeKind) -> Result<(), GitError>,
) -> Result<(), GitError> {
    let cap = ("tree_bytes", limits.tree_bytes);
    let mut pairs = vec![(new, old)];
    let mut seen = std::collections::HashSet::new();
    while let Some((new, old)) = pairs.pop() {
        if stop.is_cancelled() {
            return Err(GitError::Cancelled);
        }
        if Some(new) == old || !seen.insert(new) {
            continue;
        }
        found(odb, new, NodeKind::Directory)?;
        let before = old.and_then(|old| read(odb, old, ObjectType::Tree, cap).ok());
        let before: HashMap<&[u8], ObjectId> = before
            .as_ref()
            .and_then(|data| parse(data.data()).ok())
            .unwrap_or_default()
            .into_iter()
            .map(|entry| (entry.name, entry.id))
            .collect();
        let data = match read(odb, new, ObjectType::Tree, cap) {
            Err(GitError::Damaged { .. } | GitError::LimitExceeded { .. }) => continue,
            data => data?,
        };
        for entry in parse(data.data()).unwrap_or_default() {
            let was = before.get(entry.name).copied();
            if was == Some(entry.id) {
                continue;
            }
            match kind(entry.mode) {
                Some(NodeKind::Directory) => pairs.push((entry.id, was)),
                Some(NodeKind::Leaf(EntryKind::Submodule)) | None => {}
                Some(leaf) => found(odb, entry.id, leaf)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_tree_is_an_error_and_no_panic() {
        let mut good = b"100644 a\0".to_vec();
        good.extend([7; 20]);
        assert_eq!(parse(&good).map(|entries| entries.len()), Ok(1));
        for end in 1..good.len() {
            assert!(parse(&good[..end]).is_err(), "{end}");
        }
        assert!(parse(b"999 a\0aaaaaaaaaaaaaaaaaaaa").is_err());
        assert!(parse(b"99999999999999999 a\0").is_err());
    }
}
