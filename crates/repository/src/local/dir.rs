//! Directories that are opened one name at a time, so that no link is ever followed below the permitted prefix.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::LocalError;

const NOT_PERMITTED: &str =
    "it is not under a permitted prefix; name one in local_permitted_prefixes of [operator]";
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// The folder of a repository, judged each time that it is opened.
pub(super) struct Root {
    name: String,
    path: PathBuf,
    permitted: Vec<PathBuf>,
}

impl Root {
    /// A folder under one of `permitted`. It may be made later.
    pub(super) fn new(path: &Path, permitted: &[PathBuf]) -> Result<Self, LocalError> {
        let name = path.display().to_string();
        let refuse = |detail| Err(LocalError::Refused { path: name.clone(), detail });
        if !path.is_absolute() {
            return refuse("its path is not absolute; write it so, or set home_path of [operator]");
        }
        if path.components().any(|part| part == Component::ParentDir) {
            return refuse("its path contains ..");
        }
        // As they really are, and as they are written, for folders that are made later.
        let real = permitted.iter().filter_map(|prefix| prefix.canonicalize().ok());
        let permitted: Vec<PathBuf> = permitted.iter().cloned().chain(real).collect();
        let root = Self { name, path: path.to_owned(), permitted };
        match root.locate() {
            Ok(_) | Err(LocalError::NotFound { .. }) => Ok(root),
            Err(error) => Err(error),
        }
    }

    /// The folder as the specification has it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The permitted prefix that the folder really is under, and the way from there.
    fn locate(&self) -> Result<(&Path, PathBuf), LocalError> {
        let (real, missing) = match self.path.canonicalize() {
            Ok(real) => (real, false),
            // It may be made later; until then it must at least look permitted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => (self.path.clone(), true),
            Err(error) => return Err(LocalError::io("open", &self.name, error)),
        };
        let found = self.permitted.iter().find_map(|prefix| {
            // What is there is compared with prefixes as they really are: `real` has no links in it.
            Some((prefix.as_path(), real.strip_prefix(prefix).ok()?.to_owned()))
        });
        match found {
            Some(_) if missing => Err(LocalError::NotFound { path: self.name.clone() }),
            Some(found) => Ok(found),
            None => Err(LocalError::Refused { path: self.name.clone(), detail: NOT_PERMITTED }),
        }
    }

    /// Opens the folder as it is now.
    pub(super) fn open(&self) -> Result<OwnedFd, LocalError> {
        let (prefix, rest) = self.locate()?;
        let failed = |error: Errno| match error {
            Errno::NOENT => LocalError::NotFound { path: self.name.clone() },
            Errno::LOOP | Errno::NOTDIR if !rest.as_os_str().is_empty() && self.path.is_dir() => {
                LocalError::Changed { path: self.name.clone() }
            }
            error => LocalError::io("open", &self.name, error),
        };
        let mut folder = rustix::fs::open(prefix, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())
            .map_err(failed)?;
        for part in &rest {
            folder = rustix::fs::openat(&folder, part, DIRECTORY, Mode::empty()).map_err(failed)?;
        }
        Ok(folder)
    }
}

/// Opens a directory inside `folder`.
pub(super) fn directory(folder: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(folder, name, DIRECTORY, Mode::empty())
}

/// Opens the directory at a relative path; empty for `folder` itself.
pub(super) fn walk(folder: &OwnedFd, path: &str) -> rustix::io::Result<OwnedFd> {
    let mut found = folder.try_clone().map_err(|_error| Errno::MFILE)?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        found = directory(&found, name)?;
    }
    Ok(found)
}

/// Opens a file for reading. A pipe in its place does not make the caller wait.
pub(super) fn file(folder: &OwnedFd, name: &str) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?))
}

/// What is at a name, links not followed.
pub(super) fn look(folder: &OwnedFd, name: &std::ffi::CStr) -> rustix::io::Result<Stat> {
    rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// The directory and the name of a relative path.
pub(super) fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}
