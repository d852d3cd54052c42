//! Folders of this machine as repositories.
//!
//! A folder has no past: its revision is a hash of its contents, and callers compare in full. Everything below the
//! permitted prefix is opened one name at a time without following links (`dir.rs`), so that whoever may write into the
//! folder gains nothing by exchanging a directory for a link while it is read or written.

mod dir;
mod error;
mod list;
mod watch;
mod write;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use windlass_git::{Limits, ObjectId, Revision, Tree};

use self::dir::Root;
pub use self::error::LocalError;
use self::list::Listing;
pub use self::watch::Changes;
use crate::{Base, Commit, Opened, ReadError, Reader, StagedChange, WriteError, Writer, Written};

/// Folders that are read or written at a time; more wait.
const CONCURRENT: usize = 4;

/// Opens folders, under the prefixes that settings permit.
#[derive(Clone)]
pub(crate) struct LocalFolders {
    permitted: Arc<[PathBuf]>,
    limits: Limits,
    /// Bounds blocking work.
    turns: Arc<Semaphore>,
}

impl LocalFolders {
    pub(crate) fn new(permitted: Vec<PathBuf>, limits: Limits) -> Self {
        Self { permitted: permitted.into(), limits, turns: Arc::new(Semaphore::new(CONCURRENT)) }
    }

    /// A folder on this machine. Links in `path` are followed; where they lead must lie under a permitted prefix.
    pub(crate) fn open(&self, path: &Path) -> Result<Opened, LocalError> {
        let root = Arc::new(Root::new(path, &self.permitted)?);
        let (limits, turns) = (self.limits.clone(), Arc::clone(&self.turns));
        let folder = Arc::new(LocalFolder { root, limits, turns, listed: Mutex::default() });
        let writer: Arc<dyn Writer> = folder.clone();
        Ok(Opened { writer: Some(writer), ..Opened::read_only(folder) })
    }
}

impl LocalFolders {
    /// Watches a folder that may be opened, and is there.
    pub(crate) fn watch(&self, path: &Path) -> Result<Changes, LocalError> {
        let root = Root::new(path, &self.permitted)?;
        drop(root.open()?);
        let real = root.path().canonicalize();
        watch::watch(&real.map_err(|error| LocalError::io("watch", root.name(), error))?)
    }
}

/// What was listed last: contents are asked for by id.
#[derive(Default)]
struct Listed {
    listing: Option<Arc<Listing>>,
    paths: HashMap<ObjectId, String>,
}

/// A folder that is open.
struct LocalFolder {
    root: Arc<Root>,
    limits: Limits,
    turns: Arc<Semaphore>,
    listed: Mutex<Listed>,
}

impl LocalFolder {
    /// Reads the whole folder and remembers what was found.
    async fn list(&self, cancel: &CancellationToken) -> Result<Arc<Listing>, LocalError> {
        let (root, limits) = (Arc::clone(&self.root), self.limits.clone());
        let work = move |stop: &CancellationToken| list::list(&root.open()?, root.path(), &limits, stop);
        let listing = Arc::new(blocking(&self.turns, cancel, work).await?);
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if listed.paths.len() > self.limits.entries {
            listed.paths.clear(); // a folder that changed all the time
        }
        let files = listing.tree.entries.iter().filter(|entry| entry.kind.is_file());
        listed.paths.extend(files.map(|entry| (entry.id, entry.path.clone())));
        listed.listing = Some(Arc::clone(&listing));
        Ok(listing)
    }

    /// The folder as it was at `revision`, if that is now.
    async fn at(&self, revision: &Revision, cancel: &CancellationToken) -> Result<Arc<Listing>, LocalError> {
        let last = self.listed.lock().unwrap_or_else(PoisonError::into_inner).listing.clone();
        if let Some(listing) = last.filter(|listing| listing.revision == *revision) {
            return Ok(listing);
        }
        let listing = self.list(cancel).await?;
        if listing.revision == *revision {
            return Ok(listing);
        }
        Err(LocalError::Changed { path: self.root.name().to_owned() })
    }
}

/// Does blocking work on its own thread. It is asked to stop when the caller goes away.
async fn blocking<T: Send + 'static>(
    turns: &Arc<Semaphore>,
    cancel: &CancellationToken,
    work: impl FnOnce(&CancellationToken) -> Result<T, LocalError> + Send + 'static,
) -> Result<T, LocalError> {
    let stop = cancel.child_token();
    let _stop_when_dropped = stop.clone().drop_guard();
    let turn = tokio::select! {
        biased;
        () = cancel.cancelled() => return Err(LocalError::Cancelled),
        turn = Arc::clone(turns).acquire_owned() => turn.map_err(|_closed| LocalError::Cancelled)?,
    };
    let task = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        work(&stop)
    });
    task.await.map_err(|error| LocalError::Worker { detail: error.to_string() })?
}

#[async_trait]
impl Reader for LocalFolder {
    fn name(&self) -> &str {
        self.root.name()
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn resolve(&self, _branch: &str, cancel: &CancellationToken) -> Result<Revision, ReadError> {
        Ok(self.list(cancel).await?.revision.clone())
    }

    async fn tree(
        &self,
        revision: &Revision,
        prefix: &str,
        cancel: &CancellationToken,
    ) -> Result<Tree, ReadError> {
        Ok(self.at(revision, cancel).await?.under(prefix))
    }

    async fn blobs(&self, ids: &[ObjectId], cancel: &CancellationToken) -> Result<Vec<Bytes>, ReadError> {
        let files: Vec<(ObjectId, String)> = {
            let listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
            let find = |id: &ObjectId| match listed.paths.get(id) {
                Some(path) => Ok((*id, path.clone())),
                None => Err(ReadError::missing(*id)),
            };
            ids.iter().map(find).collect::<Result<_, _>>()?
        };
        let (root, max) = (Arc::clone(&self.root), self.limits.blob_bytes);
        let work = move |stop: &CancellationToken| {
            let folder = root.open()?;
            let read = |(id, path): (ObjectId, String)| {
                if stop.is_cancelled() {
                    return Err(LocalError::Cancelled);
                }
                list::read(&folder, &path, id, max)
            };
            files.into_iter().map(read).collect()
        };
        Ok(blocking(&self.turns, cancel, work).await?)
    }
}

#[async_trait]
impl Writer for LocalFolder {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn id_of(&self, content: &[u8]) -> ObjectId {
        list::id_of(content)
    }

    /// A folder keeps no commits: what it says of itself is dropped, and a change that fails leaves those before it.
    async fn write(
        &self,
        base: &Base,
        changes: Vec<StagedChange>,
        _commit: &Commit,
        cancel: &CancellationToken,
    ) -> Result<Written, WriteError> {
        let read = |error: LocalError| WriteError::Read(error.into());
        if self.list(cancel).await.map_err(read)?.revision != base.revision {
            let (name, base) = (self.root.name().to_owned(), base.revision.to_string());
            return Err(WriteError::Conflict { name, base });
        }
        let root = Arc::clone(&self.root);
        let work = move |_stop: &CancellationToken| Ok(write::apply(&root.open()?, root.name(), &changes));
        blocking(&self.turns, cancel, work).await.map_err(read)??;
        let revision = self.list(cancel).await.map_err(read)?.revision.clone();
        Ok(Written { revision, committing: Duration::ZERO })
    }
}
