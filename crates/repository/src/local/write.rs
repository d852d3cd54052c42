//! Files that are put into a folder, taken out of it, and moved inside it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use uuid::Uuid;

use super::{LocalError, dir};
use crate::{StagedChange, WriteError};

/// What a file is called until it is whole; no listing shows it.
pub(super) const TEMPORARY: &str = ".windlass-tmp-";

/// Makes the changes, in their order. Each file is there wholly or not at all; a change that fails leaves those before
/// it made.
pub(super) fn apply(root: &OwnedFd, name: &str, changes: &[StagedChange]) -> Result<(), WriteError> {
    let folder = Folder { root, name };
    for change in changes {
        match change {
            StagedChange::Put { path, content } => folder.put(path, content)?,
            StagedChange::Delete { path } => folder.delete(path)?,
            StagedChange::Rename { from, to } => folder.rename(from, to)?,
        }
    }
    Ok(())
}

struct Folder<'a> {
    root: &'a OwnedFd,
    name: &'a str,
}

impl Folder<'_> {
    fn put(&self, path: &str, content: &[u8]) -> Result<(), WriteError> {
        let (parent, name) = dir::split(path);
        let folder = self.make(parent).map_err(|error| self.failed(path, error))?;
        let temporary = format!("{TEMPORARY}{}", Uuid::new_v4().simple());
        let written = write_whole(&folder, name, &temporary, content);
        if written.is_err() {
            let _gone_if_it_can = rustix::fs::unlinkat(&folder, &*temporary, AtFlags::empty());
        }
        written.map_err(|source| self.refused(path, source))
    }

    fn delete(&self, path: &str) -> Result<(), WriteError> {
        let (parent, name) = dir::split(path);
        let folder = self.walk(parent, path)?;
        match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Err(self.absent(path)),
            Err(error) => return Err(self.failed(path, error)),
        }
        self.prune(parent);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), WriteError> {
        let (parent, name) = dir::split(from);
        let source = self.walk(parent, from)?;
        if !exists(&source, name) {
            return Err(self.absent(from));
        }
        let (new_parent, new_name) = dir::split(to);
        let target = self.make(new_parent).map_err(|error| self.failed(to, error))?;
        if exists(&target, new_name) {
            return Err(WriteError::Exists { path: to.to_owned() });
        }
        rustix::fs::renameat(&source, name, &target, new_name).map_err(|error| self.failed(to, error))?;
        self.prune(parent);
        Ok(())
    }

    /// Opens the directory at `parent`, and makes it and those above it where they are missing.
    fn make(&self, parent: &str) -> rustix::io::Result<OwnedFd> {
        let mut folder = dir::walk(self.root, "")?;
        for name in parent.split('/').filter(|name| !name.is_empty()) {
            folder = match dir::directory(&folder, name) {
                Err(Errno::NOENT) => {
                    match rustix::fs::mkdirat(&folder, name, Mode::from_raw_mode(0o755)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(error) => return Err(error),
                    }
                    dir::directory(&folder, name)?
                }
                found => found?,
            };
        }
        Ok(folder)
    }

    fn walk(&self, parent: &str, path: &str) -> Result<OwnedFd, WriteError> {
        dir::walk(self.root, parent).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => self.absent(path),
            error => self.failed(path, error),
        })
    }

    /// Removes directories that became empty, as Git knows none.
    fn prune(&self, mut path: &str) {
        while !path.is_empty() {
            let (parent, name) = dir::split(path);
            let Ok(folder) = dir::walk(self.root, parent) else { return };
            if rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
            path = parent;
        }
    }

    fn absent(&self, path: &str) -> WriteError {
        WriteError::NotFound { path: path.to_owned(), name: self.name.to_owned() }
    }

    fn failed(&self, path: &str, error: Errno) -> WriteError {
        self.refused(path, error.into())
    }

    fn refused(&self, path: &str, source: std::io::Error) -> WriteError {
        let source = Box::new(LocalError::io("write", path, source).into());
        WriteError::Write { name: self.name.to_owned(), source }
    }
}

/// Writes a file beside its place, then moves it there: over a file or a link, never through one.
fn write_whole(folder: &OwnedFd, name: &str, temporary: &str, content: &[u8]) -> std::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, temporary, flags, Mode::from_raw_mode(0o644))?);
    file.write_all(content)?;
    let before = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let executable = before.is_some_and(|before| {
        FileType::from_raw_mode(before.st_mode) == FileType::RegularFile && before.st_mode & 0o100 != 0
    });
    if executable {
        file.set_permissions(std::fs::Permissions::from_mode(0o755))?;
    }
    file.sync_all()?;
    rustix::fs::renameat(folder, temporary, folder, name)?;
    Ok(())
}

fn exists(folder: &OwnedFd, name: &str) -> bool {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}
