//! Files that are read again when they change: certificates and tokens that somebody rotates.

use std::{
    fmt,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// The content of a file, or of several that belong together, as of the last change.
pub(crate) struct Reloaded<T> {
    paths: Vec<PathBuf>,
    read: Box<dyn Fn() -> Result<T, String> + Send + Sync>,
    state: Mutex<(Stamps, Arc<T>)>,
}

/// One for each file; none for those that are not there.
type Stamps = Vec<Option<Stamp>>;

/// Tells two states of a file apart without reading it. A mounted Secret is changed by turning a link to another file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl<T> Reloaded<T> {
    /// Reads the files with `read`, and again whenever they change.
    ///
    /// # Errors
    /// What `read` says.
    pub(crate) fn open(
        paths: Vec<PathBuf>,
        read: impl Fn() -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        // What changes while it is read is read again.
        let stamps = Stamp::of_all(&paths);
        let content = read()?;
        Ok(Self { paths, read: Box::new(read), state: Mutex::new((stamps, Arc::new(content))) })
    }

    /// What the files hold. Those that cannot be read any more, hold something else, or do not belong together keep their
    /// last good content: some take such files away once a process has started, and several change one after the other.
    pub(crate) fn current(&self) -> Arc<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = Stamp::of_all(&self.paths);
        if stamps != state.0 && stamps.iter().all(Option::is_some) {
            // Once for each state of the files, also when it is of no use.
            state.0 = stamps;
            match (self.read)() {
                Ok(content) => {
                    tracing::info!(path = self.shown(), "the file changed and was read again");
                    state.1 = Arc::new(content);
                }
                Err(error) => {
                    tracing::warn!(path = self.shown(), error, "the file changed and cannot be used");
                }
            }
        }
        Arc::clone(&state.1)
    }

    fn shown(&self) -> String {
        self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    }
}

impl<T> fmt::Debug for Reloaded<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloaded").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl Stamp {
    fn of_all(paths: &[PathBuf]) -> Stamps {
        paths.iter().map(|path| Self::of(path)).collect()
    }

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
