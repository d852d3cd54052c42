//! Object caches on disk: one bare repository for each (URL, credentials), with whatever was fetched and no refs.
//!
//! - Beside `<key>.git` stands `<key>.lock`, held (by `flock`, so that a crash releases it) while a process
//!   changes the cache. Readers hold nothing: a pack that is removed under them stays readable until they let go,
//!   and one that cannot find an object any more has the cache rebuilt.
//! - `tips` in it lists the commits that were fetched whole, the last used last. They are what the next transfer
//!   builds on.
//! - Every transfer leaves a pack. When there are more than [`MAX_PACKS`], what the last [`MAX_TIPS`] tips need
//!   is written as one pack, and the others are removed. This happens beside transfers and readings, since it
//!   takes seconds for a large repository: it removes only packs that it saw at its start, and whatever a later
//!   transfer builds on is in the new one.
//! - A cache is disposable: one that cannot be opened, is of another format, or lacks an object is removed and
//!   fetched again; one that nobody used for [`MAX_IDLE`] is removed when another one is made.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use git2::{ObjectType, Repository, RepositoryInitOptions, RepositoryOpenFlags};
use secrecy::ExposeSecret as _;
use sha2::{Digest as _, Sha256};
use tokio::sync::{RwLock, Semaphore};
use tokio_util::sync::CancellationToken;
use windlass_http_client::Tls;

use crate::pack::Scratch;
use crate::tree::{header, oid};
use crate::{Credentials, GitError, ObjectId};

/// Packs beyond which a cache is consolidated.
pub(crate) const MAX_PACKS: usize = 32;
/// Fetched commits that a cache keeps.
pub(crate) const MAX_TIPS: usize = 8;
/// How long an unused cache is kept.
const MAX_IDLE: Duration = Duration::from_hours(24);
/// The extension of folders that hold one transfer.
const SCRATCH: &str = "incoming";
/// How often use is noted on disk.
const TOUCH_EVERY: Duration = Duration::from_mins(30);
/// First line of `tips`; a cache that says something else is made anew.
const FORMAT: &str = "windlass git cache 1";

/// What tells one cache from another. Credentials are part of it, and who is trusted to be the server: who may not
/// read a repository must not find it in a cache that somebody else filled.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn new(url: &str, credentials: Option<&Credentials>, tls: &Tls) -> Self {
        let mut hash = Sha256::new();
        hash.update(url.as_bytes());
        match credentials {
            Some(Credentials::Basic { user, token }) => {
                hash.update(b"\0");
                hash.update(user.as_bytes());
                hash.update(b"\0");
                hash.update(token.expose_secret().as_bytes());
            }
            Some(Credentials::Bearer(token)) => {
                hash.update(b"\0\0bearer\0");
                hash.update(token.expose_secret().as_bytes());
            }
            None => {}
        }
        if let Some(fingerprint) = tls.fingerprint() {
            hash.update(b"\0\0tls\0");
            hash.update(fingerprint);
        }
        let mut name = String::new();
        for byte in hash.finalize().iter().take(16) {
            let _ = write!(name, "{byte:02x}");
        }
        Self(name)
    }
}

/// The caches under one folder.
pub(crate) struct Caches {
    folder: PathBuf,
    open: Mutex<HashMap<Key, Weak<Cache>>>,
}

/// One cache.
pub(crate) struct Cache {
    /// The bare repository.
    pub(crate) store: PathBuf,
    lock: PathBuf,
    state: Mutex<State>,
    /// Readers share it; whoever removes files takes it alone.
    files: Arc<RwLock<()>>,
    tidying: Mutex<()>,
    /// One transfer at a time; the second finds what the first one brought.
    pub(crate) transfer: tokio::sync::Mutex<()>,
}

/// Packs to replace by one, and the commits that it must hold.
pub(crate) struct Many {
    packs: Vec<PathBuf>,
    tips: Vec<ObjectId>,
}

#[derive(Default)]
struct State {
    /// Opened repositories that nobody uses; opening one again costs its pack indexes.
    idle: Vec<Repository>,
    tips: Vec<ObjectId>,
    /// Counts rebuilds, so that a failure seen by many is repaired once.
    generation: u64,
    touched: Option<SystemTime>,
}

impl Caches {
    pub(crate) fn new(folder: &Path) -> Result<Self, GitError> {
        std::fs::create_dir_all(folder)
            .map_err(|error| GitError::cache("make the folder", format!("{}: {error}", folder.display())))?;
        let caches = Self { folder: folder.to_owned(), open: Mutex::default() };
        caches.prune_scratches();
        Ok(caches)
    }

    /// A folder for one transfer that is read once. Its name is nobody else's: in a container every process has the
    /// same id, and the folder of caches outlives it or belongs to several.
    pub(crate) fn scratch(&self) -> Scratch {
        Scratch::new(self.folder.join(format!("{}.{SCRATCH}", uuid::Uuid::new_v4())))
    }

    /// Removes what processes left behind that ended in the middle of a transfer.
    fn prune_scratches(&self) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            if entry.path().extension().is_some_and(|it| it == SCRATCH)
                && age().is_some_and(|age| age > MAX_IDLE)
            {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }

    /// The cache of this key, shared by everyone who asks. Blocking: disk only.
    pub(crate) fn get(&self, key: &Key) -> Result<Arc<Cache>, GitError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = open.get(key).and_then(Weak::upgrade) {
            return Ok(cache);
        }
        let cache = Cache {
            store: self.folder.join(format!("{}.git", key.0)),
            lock: self.folder.join(format!("{}.lock", key.0)),
            state: Mutex::default(),
            files: Arc::default(),
            tidying: Mutex::default(),
            transfer: tokio::sync::Mutex::default(),
        };
        if !cache.store.exists() {
            self.prune();
        }
        cache.load()?;
        let cache = Arc::new(cache);
        open.retain(|_, cache| cache.strong_count() > 0);
        open.insert(key.clone(), Arc::downgrade(&cache));
        Ok(cache)
    }

    /// Removes caches that nobody used for long. Failures are left for the next time.
    fn prune(&self) {
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let lock = entry.path();
            let idle = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
            if lock.extension().is_some_and(|it| it == "lock") && idle().is_some_and(|idle| idle > MAX_IDLE) {
                let Ok(file) = File::open(&lock) else { continue };
                if file.try_lock().is_ok() && std::fs::remove_dir_all(lock.with_extension("git")).is_ok() {
                    let _ = std::fs::remove_file(&lock);
                    tracing::info!(cache = %lock.display(), "removed an unused git cache");
                }
            }
        }
    }
}

impl Cache {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_file(&self) -> Result<File, GitError> {
        File::options().create(true).append(true).open(&self.lock).map_err(|error| self.unlocked(error))
    }

    fn unlocked(&self, error: std::io::Error) -> GitError {
        GitError::cache("lock it", format!("{}: {error}", self.lock.display()))
    }

    /// Takes the lock file without blocking a thread: other processes' transfers can be long.
    pub(crate) async fn hold(&self) -> Result<File, GitError> {
        let file = self.lock_file()?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(TryLockError::Error(error)) => return Err(self.unlocked(error)),
            }
        }
        let _ = file.set_modified(SystemTime::now());
        Ok(file)
    }

    /// Opens what is on disk, or makes it anew. While another process changes it, what is there so far is taken:
    /// [`reload`](Cache::reload) sees the rest.
    fn load(&self) -> Result<(), GitError> {
        let file = self.lock_file()?;
        let alone = match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => false,
            Err(TryLockError::Error(error)) => return Err(self.unlocked(error)),
        };
        match self.take_over() {
            Ok(()) => Ok(()),
            Err(_) if alone => self.make(),
            Err(_) => Ok(()),
        }
    }

    /// Takes over what other processes fetched. Call it with the lock file held.
    pub(crate) fn reload(&self) -> Result<(), GitError> {
        self.take_over().or_else(|_| self.make())
    }

    fn take_over(&self) -> Result<(), GitError> {
        let tips = self.read_tips().ok_or_else(|| GitError::cache("read its tips", "they are damaged"))?;
        if tips == self.tips() && !tips.is_empty() {
            return Ok(());
        }
        let repository = open(&self.store)?;
        let tips = existing(&repository, tips);
        let mut state = self.state();
        state.tips = tips;
        state.idle = vec![repository];
        Ok(())
    }

    fn make(&self) -> Result<(), GitError> {
        let failed =
            |error: std::io::Error| GitError::cache("make it", format!("{}: {error}", self.store.display()));
        match std::fs::remove_dir_all(&self.store) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let mut options = RepositoryInitOptions::new();
        options.bare(true).external_template(false).no_dotgit_dir(true).initial_head("none");
        let repository = Repository::init_opts(&self.store, &options)
            .and_then(|repository| {
                // Memory of consolidating; libgit2's defaults are 256 MiB and no bound.
                let mut config = repository.config()?;
                config.set_i64("pack.deltaCacheSize", 16 << 20)?;
                config.set_i64("pack.windowMemory", 32 << 20)?;
                Ok(repository)
            })
            .map_err(|error| GitError::cache("make it", error.message()))?;
        let mut state = self.state();
        state.idle = vec![repository];
        state.tips.clear();
        state.generation += 1;
        drop(state);
        self.write_tips(&[])
    }

    fn read_tips(&self) -> Option<Vec<ObjectId>> {
        let text = std::fs::read_to_string(self.store.join("tips")).ok()?;
        let mut lines = text.lines();
        if lines.next() != Some(FORMAT) {
            return None;
        }
        lines.map(|line| line.parse().ok()).collect()
    }

    fn write_tips(&self, tips: &[ObjectId]) -> Result<(), GitError> {
        let mut text = FORMAT.to_owned();
        for tip in tips {
            text.push('\n');
            text.push_str(&tip.to_string());
        }
        let new = self.store.join("tips.new");
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, self.store.join("tips")))
            .map_err(|error| GitError::cache("note what was fetched", error))
    }

    /// The commits that are here, the last used last.
    pub(crate) fn tips(&self) -> Vec<ObjectId> {
        self.state().tips.clone()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.state().generation
    }

    /// Whether `tip` is here; it then counts as used.
    pub(crate) fn has(&self, tip: ObjectId) -> bool {
        let mut state = self.state();
        let Some(position) = state.tips.iter().position(|known| *known == tip) else {
            return false;
        };
        let tip = state.tips.remove(position);
        state.tips.push(tip);
        true
    }

    /// Notes that `fetched` are here, and returns what there is to consolidate if there are many packs. Call it
    /// with the lock file held: a pack whose tip is not noted yet must not be taken for an old one. Blocking.
    pub(crate) fn add_tips(&self, fetched: &[ObjectId]) -> Result<Option<Many>, GitError> {
        let mut state = self.state();
        state.tips.retain(|tip| !fetched.contains(tip));
        state.tips.extend(fetched);
        let excess = state.tips.len().saturating_sub(MAX_TIPS);
        state.tips.drain(..excess);
        let tips = state.tips.clone();
        drop(state);
        self.write_tips(&tips)?;
        let packs = self.packs()?;
        Ok((packs.len() > MAX_PACKS).then_some(Many { packs, tips }))
    }

    /// Consolidates, unless somebody does it already. Blocking.
    pub(crate) fn tidy(&self, many: &Many) -> Result<(), GitError> {
        let Ok(_turn) = self.tidying.try_lock() else {
            return Ok(());
        };
        self.consolidate(many)
    }

    fn packs(&self) -> Result<Vec<PathBuf>, GitError> {
        let failed = |error| GitError::cache("list the packs", error);
        let mut packs = Vec::new();
        for entry in std::fs::read_dir(self.store.join("objects/pack")).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|it| it == "pack") {
                packs.push(path);
            }
        }
        Ok(packs)
    }

    fn consolidate(&self, Many { packs: old, tips }: &Many) -> Result<(), GitError> {
        let failed = |error: git2::Error| GitError::cache("consolidate the packs", error.message());
        let repository = open(&self.store)?;
        let mut builder = repository.packbuilder().map_err(failed)?;
        builder.set_threads(1);
        for tip in tips {
            let tip = oid(*tip)?;
            builder.insert_object(tip, None).map_err(failed)?;
            let tree = repository.find_commit(tip).map_err(failed)?.tree_id();
            builder.insert_tree(tree).map_err(failed)?;
        }
        builder.write(&self.store.join("objects/pack"), 0).map_err(failed)?;
        let new = builder.name().ok().flatten().map(|name| format!("pack-{name}.pack")).unwrap_or_default();
        let _alone = self.files.blocking_write();
        self.state().idle.clear();
        for pack in old.iter().filter(|pack| pack.file_name().is_none_or(|name| *name != *new)) {
            for extension in ["idx", "pack", "rev"] {
                let _ = std::fs::remove_file(pack.with_extension(extension));
            }
        }
        tracing::debug!(store = %self.store.display(), packs = old.len(), "consolidated a git cache");
        Ok(())
    }

    /// Throws everything away, unless somebody did since `generation` was read. Call it with the lock file held.
    /// Blocking.
    pub(crate) fn rebuild(&self, generation: u64) -> Result<(), GitError> {
        let _alone = self.files.blocking_write();
        if self.generation() != generation {
            return Ok(());
        }
        tracing::warn!(store = %self.store.display(), "the git cache is damaged; it is fetched again");
        self.make()
    }

    /// Runs `work` over the object store on a blocking thread, under the bound of `readings`. Dropping or
    /// cancelling the call cancels the token that `work` is given.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        readings: &Arc<Semaphore>,
        cancel: &CancellationToken,
        work: impl FnOnce(&Repository, &CancellationToken) -> Result<T, GitError> + Send + 'static,
    ) -> Result<T, GitError> {
        let cache = Arc::clone(self);
        let (readings, files) = (Arc::clone(readings), Arc::clone(&self.files));
        let stop = cancel.child_token();
        let _stop_when_dropped = stop.clone().drop_guard();
        let turn = async {
            let permit = readings.acquire_owned().await.map_err(|_| GitError::Cancelled)?;
            Ok((permit, files.read_owned().await))
        };
        let turn = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(GitError::Cancelled),
            turn = turn => turn?,
        };
        let reading = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            cache.touch();
            let idle = cache.state().idle.pop();
            let repository = idle.map_or_else(|| open(&cache.store), Ok)?;
            let result = work(&repository, &stop);
            if result.is_ok() {
                cache.state().idle.push(repository);
            }
            result
        });
        reading.await.map_err(|error| GitError::cache("read", error))?
    }

    fn touch(&self) {
        let now = SystemTime::now();
        let mut state = self.state();
        let recent = |touched: &SystemTime| now.duration_since(*touched).is_ok_and(|age| age < TOUCH_EVERY);
        if state.touched.as_ref().is_some_and(recent) {
            return;
        }
        state.touched = Some(now);
        drop(state);
        let _ = File::open(&self.lock).and_then(|file| file.set_modified(now));
    }
}

/// Opens a bare repository where it is, without looking further up or at the environment.
pub(crate) fn open(store: &Path) -> Result<Repository, GitError> {
    let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::BARE | RepositoryOpenFlags::NO_DOTGIT;
    Repository::open_ext(store, flags, std::iter::empty::<&Path>())
        .map_err(|error| GitError::cache("open it", error.message()))
}

fn existing(repository: &Repository, mut tips: Vec<ObjectId>) -> Vec<ObjectId> {
    match repository.odb() {
        Ok(odb) => tips.retain(|tip| header(&odb, *tip, ObjectType::Commit).is_ok()),
        Err(_) => tips.clear(),
    }
    tips
}
