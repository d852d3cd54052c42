//! Files that are read again when they change: certificates and tokens that somebody rotates.

use std::{
    fmt,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// What a file holds, as of its last change.
pub(super) struct Followed<T> {
    path: PathBuf,
    read: fn(&Path) -> Result<T, String>,
    state: Mutex<(Option<Stamp>, Arc<T>)>,
}

/// Tells two states of a file apart without reading it. A mounted Secret is changed by turning a link to another file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl<T> Followed<T> {
    /// Follows the file at `path`, which held `now` when it was read just now.
    pub(super) fn new(path: &Path, now: T, read: fn(&Path) -> Result<T, String>) -> Self {
        Self { path: path.to_owned(), read, state: Mutex::new((Stamp::of(path), Arc::new(now))) }
    }

    /// What the file holds. One that cannot be read any more, or holds something else, keeps its last good content: some
    /// take such files away once a process has started.
    pub(super) fn current(&self) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = Stamp::of(&self.path);
        if stamp.is_some() && stamp != state.0 {
            // Once for each state of the file, also when it is of no use.
            state.0 = stamp;
            match (self.read)(&self.path) {
                Ok(content) => {
                    tracing::info!(path = %self.path.display(), "the file changed and was read again");
                    state.1 = Arc::new(content);
                }
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), error, "the file changed and cannot be used");
                }
            }
        }
        Arc::clone(&state.1)
    }
}

impl<T> fmt::Debug for Followed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let meta = std::fs::metadata(path).ok()?;
        Some(Self {
            device: meta.dev(),
            inode: meta.ino(),
            size: meta.size(),
            changed: (meta.mtime(), meta.mtime_nsec()),
        })
    }
}
