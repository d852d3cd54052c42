//! Where artifacts are kept.
//!
//! ```text
//! <root>/.drafts/<random>                         what is being written
//! <root>/.content/<algorithm>-<digest>.tar.gz     each content once
//! <root>/<kind>/<namespace>/<name>/<digest>.tar.gz  the same file by another name: what is served
//! ```
//!
//! A draft becomes a content by a rename, and a content an artifact by a link and a rename, so a file under a name that is
//! served is whole whatever happens. Names with a dot in front are not served. Several processes may share a root.

mod retention;
mod unowned;
mod verify;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

pub use self::retention::Retention;
pub use self::verify::Verdict;

use self::verify::Memory;
use crate::{Algorithm, Digest, Hasher};

const DRAFTS: &str = ".drafts";
const CONTENT: &str = ".content";
/// How a file's name ends.
const SUFFIX: &str = ".tar.gz";
/// After this time a draft is nobody's any more.
const STALE_DRAFT: Duration = Duration::from_hours(1);

/// Why something could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("failed to {doing} {path}")]
pub struct StoreError {
    /// What was tried.
    pub doing: &'static str,
    /// With which file.
    pub path: String,
    /// What the system says.
    #[source]
    pub source: io::Error,
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.display().to_string();
    move |source| StoreError { doing, path, source }
}

/// Whose artifacts: a directory of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    kind: String,
    namespace: String,
    name: String,
}

impl Place {
    /// The place of an object; none when a part of it cannot be a directory's name.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Option<Self> {
        let parts = [kind, namespace, name];
        let [kind, namespace, name] = parts.map(str::to_owned);
        parts.iter().all(|part| is_segment(part)).then_some(Self { kind, namespace, name })
    }

    /// The object's kind, in lower case.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The object's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn directory(&self) -> PathBuf {
        [&self.kind, &self.namespace, &self.name].iter().collect()
    }
}

/// Whether this may be one segment of a path that is served.
fn is_segment(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= 255 && !text.starts_with('.') && text.bytes().all(plain)
}

/// The path of a file that is served, relative to the root: `<kind>/<namespace>/<name>/<file>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArtifactPath {
    place: Place,
    file: String,
}

impl ArtifactPath {
    /// The path that a request or a status names; none for whatever is no such path.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let place = Place::new(parts.next()?, parts.next()?, parts.next()?)?;
        let file = parts.next().filter(|file| is_segment(file))?.to_owned();
        parts.next().is_none().then_some(Self { place, file })
    }

    /// Whose it is.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The digest's hexadecimal digits, which the name holds; none where it holds something else.
    pub fn hex(&self) -> Option<&str> {
        let hex = self.file.strip_suffix(SUFFIX)?;
        (hex.len() >= 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hex)
    }

    fn relative(&self) -> PathBuf {
        self.place.directory().join(&self.file)
    }
}

impl std::fmt::Display for ArtifactPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { place: Place { kind, namespace, name }, file } = self;
        write!(f, "{kind}/{namespace}/{name}/{file}")
    }
}

/// A content that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Its digest.
    pub digest: Digest,
    /// Its bytes.
    pub size: u64,
}

/// A file that is being written; gone when it is dropped.
#[derive(Debug)]
pub struct Draft {
    file: File,
    path: PathBuf,
    hasher: Hasher,
    size: u64,
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.size += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It is not there any more when it was kept.
        let _ = fs::remove_file(&self.path);
    }
}

/// The files under a root. All calls are blocking, and short but for [`Store::verify`] of what was not verified before.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    algorithm: Algorithm,
    memory: Memory,
}

impl Store {
    /// The files under `root`, which is made if it is not there. Drafts that a process left behind are removed.
    pub fn open(root: impl Into<PathBuf>, algorithm: Algorithm) -> Result<Arc<Self>, StoreError> {
        let store = Self { root: root.into(), algorithm, memory: Memory::default() };
        for directory in [DRAFTS, CONTENT] {
            make_directory(&store.root.join(directory))?;
        }
        store.sweep(Duration::MAX)?;
        Ok(Arc::new(store))
    }

    /// How digests are made.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Begins to write a file.
    pub fn draft(&self) -> Result<Draft, StoreError> {
        let path = self.root.join(DRAFTS).join(uuid::Uuid::new_v4().simple().to_string());
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(failed("make", &path))?;
        Ok(Draft { file, path, hasher: Hasher::new(self.algorithm), size: 0 })
    }

    /// Keeps what was written, under its digest. It is on the disk when this returns.
    pub fn keep(&self, draft: Draft) -> Result<Kept, StoreError> {
        draft.file.sync_all().map_err(failed("write", &draft.path))?;
        let kept = Kept { digest: draft.hasher.clone().finish(), size: draft.size };
        let target = self.content_path(&kept.digest);
        // One that is there may be damaged; this one was just written.
        fs::rename(&draft.path, &target).map_err(failed("keep", &target))?;
        self.memory.remember(&target, &kept.digest);
        Ok(kept)
    }

    /// Whether a content is still kept, whole.
    pub fn has(&self, kept: &Kept) -> bool {
        self.memory.check(&self.content_path(&kept.digest), &kept.digest) == Verdict::Good
    }

    /// Serves a content that is kept as an artifact of `place`, from now on.
    pub fn publish(&self, kept: &Kept, place: &Place) -> Result<ArtifactPath, StoreError> {
        let path = ArtifactPath { place: place.clone(), file: format!("{}{SUFFIX}", kept.digest.hex()) };
        let (content, target) = (self.content_path(&kept.digest), self.path(&path));
        if self.memory.check(&target, &kept.digest) == Verdict::Good {
            return Ok(path);
        }
        let directory = self.root.join(place.directory());
        make_directory(&directory)?;
        let draft = directory.join(format!(".{}", uuid::Uuid::new_v4().simple()));
        let linked = fs::hard_link(&content, &draft).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Err(error),
            // A file system without links.
            _ => fs::copy(&content, &draft).map(drop),
        });
        let published = linked.and_then(|()| fs::rename(&draft, &target));
        // Two names of one file are not renamed to one another.
        let _ = fs::remove_file(&draft);
        published.map_err(failed("publish", &target))?;
        self.memory.remember(&target, &kept.digest);
        Ok(path)
    }

    /// Whether an artifact is there and has this digest. One that was found good and has not changed since, by inode, size
    /// and times, is not read again.
    pub fn verify(&self, path: &ArtifactPath, digest: &Digest) -> Verdict {
        self.memory.check(&self.path(path), digest)
    }

    /// Removes an artifact that is not what it should be, so that nobody is served it.
    pub fn discard(&self, path: &ArtifactPath, digest: &Digest) -> Result<(), StoreError> {
        for path in [self.path(path), self.content_path(digest)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("remove", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes all artifacts of `place`.
    pub fn remove(&self, place: &Place) -> Result<(), StoreError> {
        let directory = self.root.join(place.directory());
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &directory)(error)),
            _ => Ok(()),
        }
    }

    /// Removes contents that nobody serves and that were not touched for `unused`, and drafts of processes that are gone.
    pub fn sweep(&self, unused: Duration) -> Result<(), StoreError> {
        let is_older = |age: Duration, meta: &fs::Metadata| {
            let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(meta.ctime().unsigned_abs());
            SystemTime::now().duration_since(changed).is_ok_and(|passed| passed > age)
        };
        self.remove_where(DRAFTS, |meta| is_older(STALE_DRAFT, meta))?;
        self.remove_where(CONTENT, |meta| meta.nlink() == 1 && is_older(unused, meta))?;
        self.memory.forget_what_is_gone();
        Ok(())
    }

    fn remove_where(&self, directory: &str, gone: impl Fn(&fs::Metadata) -> bool) -> Result<(), StoreError> {
        let directory = self.root.join(directory);
        for entry in fs::read_dir(&directory).map_err(failed("list", &directory))?.flatten() {
            if entry.metadata().is_ok_and(|meta| gone(&meta)) {
                // Another process may have removed it.
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Where the file is.
    pub fn path(&self, path: &ArtifactPath) -> PathBuf {
        self.root.join(path.relative())
    }

    fn content_path(&self, digest: &Digest) -> PathBuf {
        self.root.join(CONTENT).join(format!("{}-{}{SUFFIX}", digest.algorithm().name(), digest.hex()))
    }
}

fn make_directory(path: &Path) -> Result<(), StoreError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed("make", path))
}

#[cfg(test)]
mod tests;
