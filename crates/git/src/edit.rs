//! Changes to a tree without a checkout: only directories on the way to a change are read, and what no change names
//! stays byte for byte, whatever it is.

use std::collections::BTreeMap;

use bytes::Bytes;
use git2::{ObjectType, Odb, Oid};
use windlass_http_client::printable;

use crate::object_id::object_id;
use crate::tree::{self, Raw};
use crate::{GitError, Limits, ObjectId, names};

const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_644;
const EXECUTABLE: u32 = 0o100_755;

/// A change to a tree. Paths are relative to the repository's root and are judged as those of trees that are read:
/// UTF-8 without control characters, `.`, `..` or a `.git` in any disguise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TreeChange {
    /// Write this content, over a file that is there or at a new path.
    Put {
        /// Where.
        path: String,
        /// What; no more than [`Limits::blob_bytes`].
        content: Bytes,
        /// Whether it can be executed.
        executable: bool,
    },
    /// Delete a file, or a directory with all that is in it.
    Delete {
        /// Which.
        path: String,
    },
    /// Move a file, or a directory with all that is in it, to where nothing is.
    Rename {
        /// Where it is.
        from: String,
        /// Where it goes.
        to: String,
    },
}

/// A tree that is being changed.
pub(crate) struct TreeEditor<'a> {
    odb: &'a Odb<'a>,
    limits: &'a Limits,
    root: Directory,
    /// Objects that were written.
    written: Vec<Oid>,
}

/// The entries of a directory by their names.
type Directory = BTreeMap<Vec<u8>, Slot>;

enum Slot {
    /// An entry as it was.
    Kept { mode: u32, id: ObjectId },
    /// A directory that was looked into.
    Open(Directory),
}

impl<'a> TreeEditor<'a> {
    /// An editor of the tree `root`, or of an empty one. Objects are written to `odb`.
    pub(crate) fn new(
        odb: &'a Odb<'a>,
        root: Option<ObjectId>,
        limits: &'a Limits,
    ) -> Result<Self, GitError> {
        let root = root.map_or(Ok(Directory::new()), |id| open(odb, id, "", limits))?;
        Ok(Self { odb, limits, root, written: Vec::new() })
    }

    pub(crate) fn apply(&mut self, change: &TreeChange) -> Result<(), GitError> {
        match change {
            TreeChange::Put { path, content, executable } => self.put(path, content, *executable),
            TreeChange::Delete { path } => self.take(path).map(drop),
            TreeChange::Rename { from, to } => self.rename(from, to),
        }
    }

    /// Writes what was changed, and returns the root's id (nothing for an empty tree) and all objects that were written.
    pub(crate) fn finish(mut self) -> Result<(Option<ObjectId>, Vec<Oid>), GitError> {
        let root = std::mem::take(&mut self.root);
        let id = self.write(root)?;
        Ok((id, self.written))
    }

    fn put(&mut self, path: &str, content: &Bytes, executable: bool) -> Result<(), GitError> {
        let max = self.limits.blob_bytes;
        if content.len() as u64 > max {
            let what = format!("file {:?} of {} bytes", printable(path, 100), content.len());
            return Err(GitError::LimitExceeded { limit: "blob_bytes", max, what });
        }
        let (parents, name) = self.segments(path)?;
        let (odb, limits) = (self.odb, self.limits);
        let directory = PathLookup { odb, limits, path }.make(&mut self.root, &parents)?;
        if let Some(Slot::Open(_) | Slot::Kept { mode: DIRECTORY, .. }) = directory.get(name) {
            return Err(invalid(path, "a directory is there"));
        }
        let id = odb.write(ObjectType::Blob, content).map_err(failed)?;
        let mode = if executable { EXECUTABLE } else { FILE };
        directory.insert(name.to_vec(), Slot::Kept { mode, id: object_id(id) });
        self.written.push(id);
        Ok(())
    }

    /// Takes out what is at `path`.
    fn take(&mut self, path: &str) -> Result<Slot, GitError> {
        let (parents, name) = self.segments(path)?;
        let way = PathLookup { odb: self.odb, limits: self.limits, path };
        let missing = || GitError::FileNotFound { path: printable(path, 300) };
        way.find(&mut self.root, &parents)?.and_then(|it| it.remove(name)).ok_or_else(missing)
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), GitError> {
        if from == to {
            return Err(invalid(to, "it is renamed to what it is"));
        }
        if to.strip_prefix(from).is_some_and(|rest| rest.starts_with('/')) {
            return Err(invalid(to, "a directory cannot be moved into itself"));
        }
        self.segments(to)?;
        let moved = self.take(from)?;
        let (parents, name) = self.segments(to)?;
        let way = PathLookup { odb: self.odb, limits: self.limits, path: to };
        let directory = way.make(&mut self.root, &parents)?;
        if directory.contains_key(name) {
            return Err(invalid(to, "something is there already"));
        }
        directory.insert(name.to_vec(), moved);
        Ok(())
    }

    /// The directories on the way to `path`, and the name at its end.
    fn segments<'p>(&self, path: &'p str) -> Result<(Vec<&'p [u8]>, &'p [u8]), GitError> {
        if path.len() > self.limits.path_bytes {
            return Err(invalid(path, "its path is too long"));
        }
        let mut segments: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        if let Some(reason) = segments.iter().find_map(|segment| names::refuse(segment)) {
            return Err(invalid(path, reason));
        }
        if segments.len() > self.limits.depth {
            return Err(invalid(path, "it is too deep"));
        }
        let name = segments.pop().unwrap_or_default();
        Ok((segments, name))
    }

    /// Writes a directory; one without entries is none.
    fn write(&mut self, directory: Directory) -> Result<Option<ObjectId>, GitError> {
        let mut entries = Vec::with_capacity(directory.len());
        for (name, slot) in directory {
            match slot {
                Slot::Kept { mode, id } => entries.push((name, mode, id)),
                Slot::Open(inner) => {
                    if let Some(id) = self.write(inner)? {
                        entries.push((name, DIRECTORY, id));
                    }
                }
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        // Git's order: as if directories' names ended in a slash.
        entries.sort_by_cached_key(|(name, mode, _)| {
            let mut key = name.clone();
            key.extend((*mode == DIRECTORY).then_some(b'/'));
            key
        });
        let mut data = Vec::new();
        for (name, mode, id) in &entries {
            data.extend_from_slice(format!("{mode:o} ").as_bytes());
            data.extend_from_slice(name);
            data.push(0);
            data.extend_from_slice(id.as_bytes());
        }
        let id = self.odb.write(ObjectType::Tree, &data).map_err(failed)?;
        self.written.push(id);
        Ok(Some(object_id(id)))
    }
}

/// The way to a path.
struct PathLookup<'a> {
    odb: &'a Odb<'a>,
    limits: &'a Limits,
    path: &'a str,
}

impl PathLookup<'_> {
    /// The directory behind `segments`; nothing if one of them is not there or no directory.
    fn find<'d>(
        &self,
        root: &'d mut Directory,
        segments: &[&[u8]],
    ) -> Result<Option<&'d mut Directory>, GitError> {
        let mut directory = root;
        for segment in segments {
            self.open(directory, segment)?;
            match directory.get_mut(*segment) {
                Some(Slot::Open(inner)) => directory = inner,
                _ => return Ok(None),
            }
        }
        Ok(Some(directory))
    }

    /// The same, with directories that are not there made.
    fn make<'d>(&self, root: &'d mut Directory, segments: &[&[u8]]) -> Result<&'d mut Directory, GitError> {
        let mut directory = root;
        for segment in segments {
            self.open(directory, segment)?;
            match directory.entry(segment.to_vec()).or_insert_with(|| Slot::Open(Directory::new())) {
                Slot::Open(inner) => directory = inner,
                Slot::Kept { .. } => {
                    let what = format!("{:?} is no directory", String::from_utf8_lossy(segment));
                    return Err(invalid(self.path, &what));
                }
            }
        }
        Ok(directory)
    }

    fn open(&self, directory: &mut Directory, name: &[u8]) -> Result<(), GitError> {
        if let Some(slot) = directory.get_mut(name)
            && let Slot::Kept { mode: DIRECTORY, id } = slot
        {
            *slot = Slot::Open(open(self.odb, *id, self.path, self.limits)?);
        }
        Ok(())
    }
}

/// The entries of the tree `id`. One that cannot be written again as it is is refused.
fn open(odb: &Odb<'_>, id: ObjectId, path: &str, limits: &Limits) -> Result<Directory, GitError> {
    let data = tree::read(odb, id, ObjectType::Tree, ("tree_bytes", limits.tree_bytes))?;
    let raw = tree::parse(data.data()).map_err(|what| invalid(path, &format!("tree {id}: {what}")))?;
    let mut directory = Directory::new();
    for Raw { mode, name, id: entry } in raw {
        if directory.insert(name.to_vec(), Slot::Kept { mode, id: entry }).is_some() {
            return Err(invalid(path, &format!("tree {id} has two entries of one name")));
        }
    }
    Ok(directory)
}

fn invalid(path: &str, detail: &str) -> GitError {
    let (path, detail) = (printable(path, 300), printable(detail, 300));
    GitError::InvalidChange { path, detail }
}

fn failed(error: git2::Error) -> GitError {
    GitError::cache("write an object", error.message())
}
