//! Which files were found to be what their digests say.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Digest, Hasher};

/// What a file was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What its digest says.
    Good,
    /// Something else: damaged, cut off, or no plain file.
    Damaged,
    /// Not there.
    Missing,
}

/// What a file looks like from outside: changing its bytes changes this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Look {
    fn of(meta: &fs::Metadata) -> Self {
        Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        }
    }
}

/// The verified files, by path.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: Mutex<HashMap<PathBuf, (Look, Digest)>>,
}

impl Memory {
    /// Takes a file that was just written for good.
    pub(super) fn remember(&self, path: &Path, digest: &Digest) {
        if let Ok(meta) = fs::symlink_metadata(path) {
            self.lock().insert(path.to_owned(), (Look::of(&meta), digest.clone()));
        }
    }

    pub(super) fn check(&self, path: &Path, digest: &Digest) -> Verdict {
        let Ok(meta) = fs::symlink_metadata(path) else { return Verdict::Missing };
        if !meta.is_file() {
            return Verdict::Damaged;
        }
        let look = Look::of(&meta);
        if self.lock().get(path).is_some_and(|known| known == &(look, digest.clone())) {
            return Verdict::Good;
        }
        match read_digest(path, digest) {
            Ok(found) if found == *digest => {
                self.lock().insert(path.to_owned(), (look, found));
                Verdict::Good
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Verdict::Missing,
            _ => Verdict::Damaged,
        }
    }

    pub(super) fn forget_what_is_gone(&self) {
        self.lock().retain(|path, _| path.exists());
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, (Look, Digest)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_digest(path: &Path, expected: &Digest) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hasher = Hasher::new(expected.algorithm());
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.update(&buffer[..read]),
        }
    }
}
