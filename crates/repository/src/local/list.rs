//! What is in a folder.

use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::{Dir, FileType};
use rustix::io::Errno;
use sha1::{Digest as _, Sha1};
use tokio_util::sync::CancellationToken;
use windlass_git::{Entry, EntryKind, Limits, ObjectId, Rejected, Revision, Tree};

use super::write::TEMPORARY;
use super::{LocalError, dir};

/// A folder as it was read.
pub(super) struct Listing {
    /// A hash of all that is in it.
    pub(super) revision: Revision,
    /// Its files. Ids are the SHA-1 of raw bytes (Grafana: `local.go`), not Git's names of blobs.
    pub(super) tree: Tree,
}

impl Listing {
    /// The part of it that is under a prefix.
    pub(super) fn under(&self, prefix: &str) -> Tree {
        let prefix = prefix.trim_matches('/');
        if prefix.is_empty() {
            return self.tree.clone();
        }
        let below = |path: &str| Some(path.strip_prefix(prefix)?.strip_prefix('/')?.to_owned());
        let mut tree = Tree::default();
        for entry in &self.tree.entries {
            tree.entries.extend(below(&entry.path).map(|path| Entry { path, ..entry.clone() }));
        }
        for rejected in &self.tree.rejected {
            tree.rejected.extend(below(&rejected.path).map(|path| Rejected { path, ..rejected.clone() }));
        }
        tree.root = (!tree.entries.is_empty()).then(|| hash(&tree.entries));
        tree
    }
}

/// The id of a file of this content.
pub(super) fn id_of(content: &[u8]) -> ObjectId {
    ObjectId::from_bytes(Sha1::digest(content).into())
}

/// A hash of files: of their paths, modes and contents.
fn hash(entries: &[Entry]) -> ObjectId {
    let mut hash = Sha1::new();
    for entry in entries {
        hash.update(entry.path.as_bytes());
        hash.update([0, u8::from(entry.kind == EntryKind::Executable)]);
        hash.update(entry.id.as_bytes());
    }
    ObjectId::from_bytes(hash.finalize().into())
}

/// Reads every file of a folder once, to name it by its contents.
pub(super) fn list(
    root: &OwnedFd,
    path: &Path,
    limits: &Limits,
    stop: &CancellationToken,
) -> Result<Listing, LocalError> {
    let mut walk = Walk { base: path.display().to_string(), limits, stop, visited: 0, tree: Tree::default() };
    walk.directory(root, "", 0)?;
    let root = hash(&walk.tree.entries);
    walk.tree.root = Some(root);
    Ok(Listing { revision: root.into(), tree: walk.tree })
}

struct Walk<'a> {
    base: String,
    limits: &'a Limits,
    stop: &'a CancellationToken,
    visited: usize,
    tree: Tree,
}

impl Walk<'_> {
    fn failed(&self, path: &str, error: Errno) -> LocalError {
        let path = format!("{}/{path}", self.base);
        match error {
            // It was there, or something else, when its directory was read.
            Errno::NOENT | Errno::LOOP | Errno::NOTDIR => LocalError::Changed { path },
            error => LocalError::io("read", &path, error),
        }
    }

    fn directory(&mut self, folder: &OwnedFd, path: &str, depth: usize) -> Result<(), LocalError> {
        if depth > self.limits.depth {
            return Err(exceeded("depth", self.limits.depth, "the nesting of directories"));
        }
        for name in self.names(folder, path)? {
            if self.stop.is_cancelled() {
                return Err(LocalError::Cancelled);
            }
            self.child(folder, path, &name, depth)?;
        }
        Ok(())
    }

    /// The names in a directory, sorted.
    fn names(&mut self, folder: &OwnedFd, path: &str) -> Result<Vec<CString>, LocalError> {
        let mut names = Vec::new();
        let entries = Dir::read_from(folder).map_err(|error| self.failed(path, error))?;
        for entry in entries {
            let name = entry.map_err(|error| self.failed(path, error))?.file_name().to_owned();
            if matches!(name.as_bytes(), b"." | b"..") {
                continue;
            }
            self.visited += 1;
            if self.visited > self.limits.entries {
                return Err(exceeded("entries", self.limits.entries, "the number of files and directories"));
            }
            names.push(name);
        }
        names.sort_unstable();
        Ok(names)
    }

    fn child(&mut self, folder: &OwnedFd, path: &str, raw: &CString, depth: usize) -> Result<(), LocalError> {
        let bytes = raw.as_bytes();
        if bytes.starts_with(TEMPORARY.as_bytes()) {
            return Ok(()); // a file that is being written, or was when its writer died
        }
        let whole = format!("{path}{}", windlass_git::printable_path(bytes));
        let found = dir::look(folder, raw).map_err(|error| self.failed(&whole, error))?;
        let kind = FileType::from_raw_mode(found.st_mode);
        if bytes == b".git" && kind == FileType::Directory {
            return Ok(()); // a working copy's own
        }
        let too_long = (whole.len() > self.limits.path_bytes).then_some("its path is too long");
        if let Some(reason) = windlass_git::refuse_name(bytes).or(too_long) {
            self.reject(whole, reason);
            return Ok(());
        }
        let Ok(name) = raw.to_str() else { return Ok(()) }; // refused above
        match kind {
            FileType::Directory => {
                let opened = dir::directory(folder, name).map_err(|error| self.failed(&whole, error))?;
                self.directory(&opened, &format!("{whole}/"), depth + 1)
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(folder, name, Vec::new())
                    .map_err(|error| self.failed(&whole, error))?;
                let id = id_of(target.as_bytes());
                let size = target.as_bytes().len() as u64;
                self.tree.entries.push(Entry { path: whole, id, kind: EntryKind::Symlink, size });
                Ok(())
            }
            FileType::RegularFile => self.file(folder, name, whole),
            _ => {
                self.reject(whole, "it is neither a file nor a directory");
                Ok(())
            }
        }
    }

    fn reject(&mut self, path: String, reason: &str) {
        self.tree.rejected.push(Rejected { path, reason: reason.to_owned() });
    }

    fn file(&mut self, folder: &OwnedFd, name: &str, path: String) -> Result<(), LocalError> {
        let mut open = dir::file(folder, name).map_err(|error| self.failed(&path, error))?;
        let metadata = open.metadata().map_err(|error| LocalError::io("read", &path, error))?;
        let mut hash = Sha1::new();
        let mut buffer = vec![0; 64 << 10];
        let mut size = 0_u64;
        loop {
            let read = open.read(&mut buffer).map_err(|error| LocalError::io("read", &path, error))?;
            if read == 0 {
                break;
            }
            if self.stop.is_cancelled() {
                return Err(LocalError::Cancelled);
            }
            size += read as u64;
            hash.update(&buffer[..read]);
        }
        let id = ObjectId::from_bytes(hash.finalize().into());
        let executable = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o100 != 0;
        let kind = if executable { EntryKind::Executable } else { EntryKind::File };
        self.tree.entries.push(Entry { path, id, kind, size });
        Ok(())
    }
}

fn exceeded(limit: &'static str, max: usize, what: &str) -> LocalError {
    LocalError::LimitExceeded { limit, max: max as u64, what: what.to_owned() }
}

/// The content of the file at `path`, which was listed with this id.
pub(super) fn read(root: &OwnedFd, path: &str, id: ObjectId, max: u64) -> Result<Bytes, LocalError> {
    let failed = |error: Errno| match error {
        Errno::NOENT | Errno::LOOP | Errno::NOTDIR => LocalError::Changed { path: path.to_owned() },
        error => LocalError::io("read", path, error),
    };
    let (folder, name) = dir::split(path);
    let folder = dir::walk(root, folder).map_err(failed)?;
    let file = dir::file(&folder, name).map_err(failed)?;
    let mut content = Vec::new();
    file.take(max + 1).read_to_end(&mut content).map_err(|error| LocalError::io("read", path, error))?;
    if content.len() as u64 > max {
        let what = format!("file {path}");
        return Err(LocalError::LimitExceeded { limit: "blob_bytes", max, what });
    }
    if id_of(&content) != id {
        return Err(LocalError::Changed { path: path.to_owned() });
    }
    Ok(content.into())
}
