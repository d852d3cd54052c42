//! A folder of this machine as a source.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use sha1::{Digest as _, Sha1};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::{
    Diff, Entry, EntryKind, GitError, Limits, ObjectId, Ref, Rejected, Revision, Source, Tree, names,
};

/// Reads files where they are. Ids are the SHA-1 of raw bytes (Grafana: `local.go`), not Git's names of blobs.
pub(crate) struct LocalSource {
    name: String,
    root: PathBuf,
    permitted: Vec<PathBuf>,
    limits: Limits,
    readings: Arc<Semaphore>,
    /// Where the content of an id was seen last.
    seen: Mutex<HashMap<ObjectId, PathBuf>>,
}

impl LocalSource {
    pub(crate) fn new(
        path: &Path,
        permitted: &[PathBuf],
        limits: Limits,
        readings: Arc<Semaphore>,
    ) -> Result<Self, GitError> {
        let name = path.display().to_string();
        let refuse = |detail: String| GitError::PolicyRefused { url: name.clone(), detail };
        if !path.is_absolute() {
            return Err(refuse("the path of a local repository must be absolute".to_owned()));
        }
        let permitted: Vec<PathBuf> =
            permitted.iter().filter_map(|prefix| prefix.canonicalize().ok()).collect();
        if path.components().any(|part| part == std::path::Component::ParentDir) {
            return Err(refuse("its path contains ..".to_owned()));
        }
        let root = match path.canonicalize() {
            Ok(root) => root,
            // It may be made later; until then it must at least look permitted.
            Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
            Err(source) => return Err(GitError::ReadLocal { path: name, source: source.into() }),
        };
        if !permitted.iter().any(|prefix| root.starts_with(prefix)) {
            return Err(refuse("it is not under a permitted prefix".to_owned()));
        }
        let seen = Mutex::default();
        Ok(Self { name, root, permitted, limits, readings, seen })
    }

    /// Lists on a blocking thread; the folder is judged again, since links may have changed.
    async fn list(&self, prefix: &str, cancel: &CancellationToken) -> Result<Tree, GitError> {
        let segments: Vec<&str> = prefix.split('/').filter(|segment| !segment.is_empty()).collect();
        if segments.iter().any(|segment| names::refuse(segment.as_bytes()).is_some()) {
            return Ok(Tree::default());
        }
        let folder = segments.iter().fold(self.root.clone(), |path, segment| path.join(segment));
        let (root, permitted, limits) = (self.root.clone(), self.permitted.clone(), self.limits.clone());
        let name = self.name.clone();
        let (tree, seen) = self
            .blocking(cancel, move |stop| {
                let real = match root.canonicalize() {
                    Ok(real) => real,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {
                        return Err(GitError::DirectoryNotFound { path: name });
                    }
                    Err(source) => return Err(GitError::ReadLocal { path: name, source: source.into() }),
                };
                if !permitted.iter().any(|prefix| real.starts_with(prefix)) {
                    let detail = "it is not under a permitted prefix".to_owned();
                    return Err(GitError::PolicyRefused { url: name, detail });
                }
                list(&real, &folder, &limits, &stop)
            })
            .await?;
        self.remember(seen);
        Ok(tree)
    }

    fn remember(&self, found: Vec<(ObjectId, PathBuf)>) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() > self.limits.entries {
            seen.clear(); // a folder that changed all the time
        }
        seen.extend(found);
    }

    fn locate(&self, ids: &[ObjectId]) -> Result<Vec<(ObjectId, PathBuf)>, GitError> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |id: &ObjectId| match seen.get(id) {
            Some(path) => Ok((*id, path.clone())),
            None => Err(GitError::ObjectMissing { id: *id }),
        };
        ids.iter().map(find).collect()
    }

    async fn blocking<T: Send + 'static>(
        &self,
        cancel: &CancellationToken,
        work: impl FnOnce(CancellationToken) -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let stop = cancel.child_token();
        let _stop_when_dropped = stop.clone().drop_guard();
        let permit = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(GitError::Cancelled),
            permit = Arc::clone(&self.readings).acquire_owned() => permit.map_err(|_| GitError::Cancelled)?,
        };
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work(stop)
        });
        task.await.map_err(|error| GitError::SetUp { action: "read a folder", detail: error.to_string() })?
    }
}

#[async_trait]
impl Source for LocalSource {
    fn versioned(&self) -> bool {
        false
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn refs(&self, _prefix: &str, _cancel: &CancellationToken) -> Result<Vec<Ref>, GitError> {
        Ok(Vec::new())
    }

    async fn resolve(&self, _branch: &str, cancel: &CancellationToken) -> Result<Revision, GitError> {
        let tree = self.list("", cancel).await?;
        let mut hash = Sha1::new();
        for entry in &tree.entries {
            hash.update(entry.path.as_bytes());
            hash.update([0, u8::from(entry.kind == EntryKind::Executable)]);
            hash.update(entry.id.as_bytes());
        }
        Ok(ObjectId::from_bytes(hash.finalize().into()).into())
    }

    async fn tree(
        &self,
        _revision: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Tree, GitError> {
        self.list(prefix, cancel).await
    }

    async fn diff(
        &self,
        old: &Revision,
        _new: &Revision,
        _prefix: &str,
        _cancel: &CancellationToken,
    ) -> Result<Diff, GitError> {
        Err(GitError::RevisionMissing { url: self.name.clone(), revision: old.to_string() })
    }

    async fn blobs(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, GitError> {
        let files = self.locate(ids)?;
        let (root, max) = (self.root.clone(), self.limits.blob_bytes);
        self.blocking(cancel, move |stop| {
            let root = root.canonicalize().map_err(failed(&root))?;
            let read = |(id, path): (ObjectId, PathBuf)| {
                if stop.is_cancelled() {
                    return Err(GitError::Cancelled);
                }
                read(&root, &path, id, max)
            };
            files.into_iter().map(read).collect()
        })
        .await
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> GitError {
    let path = names::shown(path.as_os_str().as_encoded_bytes());
    move |source| GitError::ReadLocal { path, source: source.into() }
}

fn read(root: &Path, path: &Path, id: ObjectId, max: u64) -> Result<Bytes, GitError> {
    let shown = || names::shown(path.as_os_str().as_encoded_bytes());
    // A directory on the way may have become a link out of the folder since it was listed.
    let real = path.canonicalize().map_err(failed(path))?;
    if !real.starts_with(root) {
        return Err(GitError::ChangedMeanwhile { path: shown() });
    }
    let mut content = Vec::new();
    File::open(&real).and_then(|file| file.take(max + 1).read_to_end(&mut content)).map_err(failed(path))?;
    if content.len() as u64 > max {
        return Err(GitError::LimitExceeded { limit: "blob_bytes", max, what: format!("file {}", shown()) });
    }
    if Sha1::digest(&content)[..] != id.as_bytes()[..] {
        return Err(GitError::ChangedMeanwhile { path: shown() });
    }
    Ok(content.into())
}

struct Listing<'a> {
    root: &'a Path,
    limits: &'a Limits,
    stop: &'a CancellationToken,
    visited: usize,
    tree: Tree,
    seen: Vec<(ObjectId, PathBuf)>,
}

type Listed = (Tree, Vec<(ObjectId, PathBuf)>);

fn list(root: &Path, folder: &Path, limits: &Limits, stop: &CancellationToken) -> Result<Listed, GitError> {
    let mut listing = Listing { root, limits, stop, visited: 0, tree: Tree::default(), seen: Vec::new() };
    let real = match folder.canonicalize() {
        Ok(real) if !real.starts_with(root) => {
            let detail = "it leads out of the local repository".to_owned();
            return Err(GitError::PolicyRefused { url: folder.display().to_string(), detail });
        }
        Ok(real) if !real.is_dir() => {
            let path = folder.display().to_string();
            return Err(GitError::NotADirectory { path, revision: "local".to_owned() });
        }
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Tree::default(), Vec::new())),
        Err(source) => return Err(failed(folder)(source)),
    };
    let root = listing.directory(&real, "", 0)?;
    listing.tree.root = Some(root);
    Ok((listing.tree, listing.seen))
}

impl Listing<'_> {
    /// Lists a directory and returns a hash of what is in it.
    fn directory(&mut self, folder: &Path, path: &str, depth: usize) -> Result<ObjectId, GitError> {
        if self.stop.is_cancelled() {
            return Err(GitError::Cancelled);
        }
        let exceeded = |limit, max: usize, what: &str| {
            let what = what.to_owned();
            Err(GitError::LimitExceeded { limit, max: max as u64, what })
        };
        if depth > self.limits.depth {
            return exceeded("depth", self.limits.depth, "the nesting of directories");
        }
        let mut children = Vec::new();
        for child in fs::read_dir(folder).map_err(failed(folder))? {
            let child = child.map_err(failed(folder))?;
            self.visited += 1;
            if self.visited > self.limits.entries {
                return exceeded("entries", self.limits.entries, "the number of files and directories");
            }
            children.push((child.file_name(), child));
        }
        children.sort_by(|a, b| a.0.cmp(&b.0));
        let mut hash = Sha1::new();
        for (name, child) in children {
            let bytes = name.as_encoded_bytes();
            let kind = child.file_type().map_err(failed(&child.path()))?;
            if bytes == b".git" && kind.is_dir() {
                continue; // a working copy's own
            }
            let whole = format!("{path}{}", names::shown(bytes));
            let too_long = (whole.len() > self.limits.path_bytes).then_some("its path is too long");
            let (Some(name), None) = (name.to_str(), names::refuse(bytes).or(too_long)) else {
                let reason = names::refuse(bytes).or(too_long).unwrap_or("its name is not UTF-8");
                self.reject(whole, reason);
                continue;
            };
            let id = if kind.is_dir() {
                Some(self.directory(&child.path(), &format!("{path}{name}/"), depth + 1)?)
            } else if kind.is_symlink() {
                self.link(&child.path(), whole)?
            } else if kind.is_file() {
                Some(self.file(&child.path(), whole)?)
            } else {
                self.reject(whole, "it is neither a file nor a directory");
                None
            };
            if let Some(id) = id {
                hash.update(name.as_bytes());
                hash.update([0]);
                hash.update(id.as_bytes());
            }
        }
        Ok(ObjectId::from_bytes(hash.finalize().into()))
    }

    fn reject(&mut self, path: String, reason: &str) {
        self.tree.rejected.push(Rejected { path, reason: reason.to_owned() });
    }

    /// A link is reported, never followed; one that leads out of the folder is refused.
    fn link(&mut self, file: &Path, path: String) -> Result<Option<ObjectId>, GitError> {
        if !file.canonicalize().is_ok_and(|real| real.starts_with(self.root)) {
            self.reject(path, "it is a link out of the local repository");
            return Ok(None);
        }
        let target = fs::read_link(file).map_err(failed(file))?;
        let target = target.as_os_str().as_encoded_bytes();
        let id = ObjectId::from_bytes(Sha1::digest(target).into());
        self.tree.entries.push(Entry { path, id, kind: EntryKind::Symlink, size: target.len() as u64 });
        Ok(Some(id))
    }

    fn file(&mut self, file: &Path, path: String) -> Result<ObjectId, GitError> {
        let mut open = File::open(file).map_err(failed(file))?;
        let metadata = open.metadata().map_err(failed(file))?;
        let mut hash = Sha1::new();
        let mut buffer = vec![0; 64 << 10];
        let mut size = 0_u64;
        loop {
            let read = open.read(&mut buffer).map_err(failed(file))?;
            if read == 0 {
                break;
            }
            if self.stop.is_cancelled() {
                return Err(GitError::Cancelled);
            }
            size += read as u64;
            hash.update(&buffer[..read]);
        }
        let id = ObjectId::from_bytes(hash.finalize().into());
        let kind = if executable(&metadata) { EntryKind::Executable } else { EntryKind::File };
        self.seen.push((id, file.to_owned()));
        self.tree.entries.push(Entry { path, id, kind, size });
        Ok(id)
    }
}

#[cfg(unix)]
fn executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o100 != 0
}

#[cfg(not(unix))]
fn executable(_: &fs::Metadata) -> bool {
    false
}
