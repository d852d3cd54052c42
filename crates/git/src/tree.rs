//! Trees as they are in the object store: our own parser (total, and judging every entry), and the walk that
//! lists files under limits.

use std::collections::HashMap;

use git2::{ObjectType, Odb, Oid, Repository};
use tokio_util::sync::CancellationToken;
use windlass_http_client::printable;

use crate::names;
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
struct Raw<'a> {
    mode: u32,
    name: &'a [u8],
    id: ObjectId,
}

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

    /// Bytes of a file or link; 0 for a submodule, which is not here.
    pub(crate) fn size(&self, id: ObjectId, kind: EntryKind) -> Result<u64, GitError> {
        if kind == EntryKind::Submodule {
            return Ok(0);
        }
        Ok(header(self.odb, id, ObjectType::Blob)? as u64)
    }

    /// Calls `found` for every file under the tree `id`, depth first.
    pub(crate) fn files(
        &mut self,
        id: ObjectId,
        path: &str,
        depth: usize,
        found: &mut impl FnMut(&Self, String, ObjectId, EntryKind) -> Result<(), GitError>,
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
fn parse(mut data: &[u8]) -> Result<Vec<Raw<'_>>, &'static str> {
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

pub(crate) fn oid(id: ObjectId) -> Result<Oid, GitError> {
    Oid::from_bytes(id.as_bytes()).map_err(|error| GitError::cache("name an object", error))
}

pub(crate) fn object_id(oid: Oid) -> ObjectId {
    let mut bytes = [0; 20];
    let source = oid.as_bytes();
    bytes.copy_from_slice(&source[..20]);
    ObjectId::from_bytes(bytes)
}

/// The size of an object, which must be of the right kind.
pub(crate) fn header(odb: &Odb<'_>, id: ObjectId, expected: ObjectType) -> Result<usize, GitError> {
    let (size, kind) = odb.read_header(oid(id)?).map_err(|error| lost(id, &error))?;
    if kind == expected {
        return Ok(size);
    }
    Err(GitError::cache("read an object", format!("{id} is a {kind}, not a {expected}")))
}

/// Reads an object of the right kind that is no larger than `cap` allows.
pub(crate) fn read<'odb>(
    odb: &'odb Odb<'_>,
    id: ObjectId,
    expected: ObjectType,
    (limit, max): (&'static str, u64),
) -> Result<git2::OdbObject<'odb>, GitError> {
    let size = header(odb, id, expected)? as u64;
    if size > max {
        return Err(GitError::LimitExceeded { limit, max, what: format!("{expected} {id} of {size} bytes") });
    }
    odb.read(oid(id)?).map_err(|error| lost(id, &error))
}

fn lost(id: ObjectId, error: &git2::Error) -> GitError {
    if error.code() == git2::ErrorCode::NotFound {
        return GitError::ObjectMissing { id };
    }
    GitError::cache("read an object", format!("{id}: {}", error.message()))
}

/// The tree of the directory `prefix` at `revision`; nothing when there is no such path.
pub(crate) fn locate(
    repository: &Repository,
    walk: &mut Walk<'_>,
    revision: ObjectId,
    prefix: &str,
) -> Result<Option<ObjectId>, GitError> {
    let commit = repository.find_commit(oid(revision)?).map_err(|error| lost(revision, &error))?;
    let mut id = object_id(commit.tree_id());
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
    let Some(root) = locate(repository, &mut walk, revision, prefix)? else {
        return Ok(Tree::default());
    };
    let mut entries = Vec::new();
    walk.files(root, "", 0, &mut |walk, path, id, kind| {
        let size = walk.size(id, kind)?;
        entries.push(Entry { path, id, kind, size });
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
/// server that leaves something out is found here, before the commit is believed to be had.
pub(crate) fn complete(
    repository: &Repository,
    new: ObjectId,
    old: Option<ObjectId>,
    limits: &Limits,
    stop: &CancellationToken,
) -> Result<(), GitError> {
    let odb = repository.odb().map_err(|error| GitError::cache("open the object store", error))?;
    let root = |id: ObjectId| -> Result<ObjectId, GitError> {
        let commit = repository.find_commit(oid(id)?).map_err(|error| lost(id, &error))?;
        Ok(object_id(commit.tree_id()))
    };
    let mut pairs = vec![(root(new)?, old.and_then(|old| root(old).ok()))];
    let mut seen = std::collections::HashSet::new();
    while let Some((new, old)) = pairs.pop() {
        if stop.is_cancelled() {
            return Err(GitError::Cancelled);
        }
        if Some(new) == old || !seen.insert(new) {
            continue;
        }
        let cap = ("tree_bytes", limits.tree_bytes);
        let before = old.and_then(|old| read(&odb, old, ObjectType::Tree, cap).ok());
        let before: HashMap<&[u8], ObjectId> = before
            .as_ref()
            .and_then(|data| parse(data.data()).ok())
            .unwrap_or_default()
            .into_iter()
            .map(|entry| (entry.name, entry.id))
            .collect();
        let data = read(&odb, new, ObjectType::Tree, cap)?;
        for entry in parse(data.data()).unwrap_or_default() {
            let was = before.get(entry.name).copied();
            if was == Some(entry.id) {
                continue;
            }
            match kind(entry.mode) {
                Some(NodeKind::Directory) => pairs.push((entry.id, was)),
                Some(NodeKind::Leaf(EntryKind::Submodule)) | None => {}
                Some(NodeKind::Leaf(_)) if odb.exists(oid(entry.id)?) => {}
                Some(NodeKind::Leaf(_)) => return Err(GitError::ObjectMissing { id: entry.id }),
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
