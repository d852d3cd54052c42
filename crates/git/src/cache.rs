//! Object caches on disk: one bare repository for each (URL, cache identity), with whatever was fetched and no refs.
//!
//! - Only the process's user can read them. Who may read a repository is not asked here: a cache that credentials of
//!   one identity share is opened to each of them when the server answered it (`remote.rs`).
//! - Beside `<key>.git` stands `<key>.lock`, held (by `flock`, so that a crash releases it) while a process
//!   changes the cache. Readers hold nothing: a pack that is removed under them stays readable until they let go,
//!   and one that cannot find an object any more has the cache rebuilt. One that finds a pack damaged takes its index
//!   and `tips` away.
//! - `tips` in it lists the commits that were fetched whole, the last used last. They are what the next transfer
//!   builds on. It also lists the commits that were made here and are not known to be pushed.
//! - Every transfer leaves a pack. When there are more than [`MAX_PACKS`](consolidate::MAX_PACKS), what the last
//!   [`MAX_TIPS`] tips need is written as one pack, and the others are removed. This happens beside transfers and
//!   readings, since it takes seconds for a large repository: it removes only packs that it saw at its start, and
//!   whatever a later transfer builds on is in the new one.
//! - A cache is disposable: one that cannot be opened, is of another format, or lacks an object is removed and
//!   fetched again, but not again and again for one tip; one that nobody used for [`MAX_IDLE`] is removed when another
//!   one is made.

mod consolidate;
mod idle;
mod key;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use git2::{Repository, RepositoryInitOptions};
use tokio::sync::{RwLock, Semaphore};
use tokio_util::sync::CancellationToken;

pub(crate) use self::consolidate::Consolidation;
use self::idle::Idle;
pub(crate) use self::key::Key;
use crate::commit::NewCommit;
use crate::pack::{Scratch, open};
use crate::tree;
use crate::{GitError, ObjectId, private};

/// Fetched commits that a cache keeps.
pub(crate) const MAX_TIPS: usize = 8;
/// How long an unused cache is kept.
const MAX_IDLE: Duration = Duration::from_hours(24);
/// The extension of folders that hold one transfer.
const SCRATCH: &str = "incoming";
/// How often use is noted on disk.
const TOUCH_EVERY: Duration = Duration::from_mins(30);
/// First line of `tips`; a cache that says something else is made anew.
const FORMAT: &str = "windlass git cache 2";
/// What stands before a commit in `tips` that was made here.
const UNPUSHED: &str = "unpushed ";
/// Commits that were made here and not pushed, of a cache.
const MAX_UNPUSHED: usize = 1_000;
/// How long a cache is not thrown away again for the same tip: what is wrong is then not the cache.
const REBUILD_EVERY: Duration = Duration::from_hours(1);
/// Tips whose rebuilding is remembered.
const MAX_REBUILDS: usize = 64;

/// The caches under one folder.
pub(crate) struct Caches {
    folder: PathBuf,
    open: Mutex<HashMap<Key, Weak<Cache>>>,
    idle: Arc<Idle>,
}

/// One cache.
pub(crate) struct Cache {
    /// The bare repository.
    pub(crate) store: PathBuf,
    lock_path: PathBuf,
    state: Mutex<State>,
    /// Readers share it; whoever removes files takes it alone.
    files: Arc<RwLock<()>>,
    consolidating: Mutex<()>,
    /// One transfer at a time; the second finds what the first one brought.
    transfer: tokio::sync::Mutex<()>,
    idle: Arc<Idle>,
}

#[derive(Default)]
struct State {
    /// Opened repositories that nobody uses; opening one again costs its pack indexes.
    idle: Vec<Repository>,
    tips: Vec<ObjectId>,
    /// Commits that were made here, whole, and that the server is not known to have.
    unpushed: Vec<ObjectId>,
    /// When the cache was thrown away for want of what these tips need, the last last.
    rebuilds: Vec<(ObjectId, Instant)>,
    /// Counts rebuilds, so that a failure seen by many is repaired once.
    generation: u64,
    touched: Option<SystemTime>,
}

impl Caches {
    pub(crate) fn new(folder: &Path) -> Result<Self, GitError> {
        private::create_dir_all(folder)
            .map_err(|error| GitError::cache("make the folder", format!("{}: {error}", folder.display())))?;
        let caches = Self { folder: folder.to_owned(), open: Mutex::default(), idle: Arc::default() };
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
            lock_path: self.folder.join(format!("{}.lock", key.0)),
            state: Mutex::default(),
            files: Arc::default(),
            consolidating: Mutex::default(),
            transfer: tokio::sync::Mutex::default(),
            idle: Arc::clone(&self.idle),
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
        private::open(File::options().create(true).append(true), &self.lock_path)
            .map_err(|error| self.unlocked(error))
    }

    fn unlocked(&self, error: std::io::Error) -> GitError {
        GitError::cache("lock it", format!("{}: {error}", self.lock_path.display()))
    }

    /// Waits for the turn to change the cache, among this process's users and other processes.
    pub(crate) async fn turn(&self) -> Result<(tokio::sync::MutexGuard<'_, ()>, File), GitError> {
        let turn = self.transfer.lock().await;
        Ok((turn, self.lock().await?))
    }

    /// Takes the lock file without blocking a thread: other processes' transfers can be long.
    async fn lock(&self) -> Result<File, GitError> {
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
        for path in [&self.lock_path, &self.store] {
            match private::tighten(path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(GitError::cache("make it private", format!("{}: {error}", path.display())));
                }
                _ => {}
            }
        }
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
        let listed = self.read_tips().ok_or_else(|| GitError::cache("read its tips", "they are damaged"))?;
        let known = {
            let state = self.state();
            (state.tips.clone(), state.unpushed.clone())
        };
        if listed == known && !known.0.is_empty() {
            return Ok(());
        }
        let repository = open(&self.store)?;
        let (tips, unpushed) = (existing(&repository, listed.0), existing(&repository, listed.1));
        let mut state = self.state();
        (state.tips, state.unpushed) = (tips, unpushed);
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
        private::tighten(&self.store).map_err(failed)?;
        let mut state = self.state();
        state.idle = vec![repository];
        state.tips.clear();
        state.unpushed.clear();
        state.generation += 1;
        self.write_tips(&state)
    }

    fn read_tips(&self) -> Option<(Vec<ObjectId>, Vec<ObjectId>)> {
        let text = std::fs::read_to_string(self.store.join("tips")).ok()?;
        let mut lines = text.lines();
        if lines.next() != Some(FORMAT) {
            return None;
        }
        let (mut tips, mut unpushed) = (Vec::new(), Vec::new());
        for line in lines {
            match line.strip_prefix(UNPUSHED) {
                Some(id) => unpushed.push(id.parse().ok()?),
                None => tips.push(line.parse().ok()?),
            }
        }
        Some((tips, unpushed))
    }

    fn write_tips(&self, state: &State) -> Result<(), GitError> {
        let mut text = FORMAT.to_owned();
        for tip in &state.tips {
            let _ = write!(text, "\n{tip}");
        }
        for commit in &state.unpushed {
            let _ = write!(text, "\n{UNPUSHED}{commit}");
        }
        let new = self.store.join("tips.new");
        private::create(&new)
            .and_then(|mut file| file.write_all(text.as_bytes()))
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
            return state.unpushed.contains(&tip);
        };
        let tip = state.tips.remove(position);
        state.tips.push(tip);
        true
    }

    /// Notes that `fetched` are here, and returns what there is to consolidate if there are many packs. Call it
    /// with the lock file held: a pack whose tip is not noted yet must not be taken for an old one. Blocking.
    pub(crate) fn add_tips(&self, fetched: &[ObjectId]) -> Result<Option<Consolidation>, GitError> {
        let mut state = self.state();
        let State { tips, unpushed, .. } = &mut *state;
        for list in [&mut *tips, unpushed] {
            list.retain(|tip| !fetched.contains(tip));
        }
        tips.extend(fetched);
        let excess = state.tips.len().saturating_sub(MAX_TIPS);
        state.tips.drain(..excess);
        self.write_tips(&state)?;
        self.crowded(&state)
    }

    /// Takes over a commit that was made here, with its pack. Call it with the lock file held. Blocking.
    pub(crate) fn adopt(&self, commit: &NewCommit) -> Result<Option<Consolidation>, GitError> {
        let failed = |error: std::io::Error| GitError::cache("take over a commit", error);
        let mut files = Vec::new();
        for entry in std::fs::read_dir(commit.scratch.objects().join("pack")).map_err(failed)? {
            files.push(entry.map_err(failed)?.path());
        }
        // The index last: with it the pack is seen.
        files.sort_by_key(|file| file.extension().is_some_and(|it| it == "idx"));
        for file in files {
            let name = file.file_name().unwrap_or_default();
            std::fs::rename(&file, self.store.join("objects/pack").join(name)).map_err(failed)?;
        }
        let mut state = self.state();
        if !state.tips.contains(&commit.id) && !state.unpushed.contains(&commit.id) {
            state.unpushed.push(commit.id);
            let excess = state.unpushed.len().saturating_sub(MAX_UNPUSHED);
            state.unpushed.drain(..excess);
        }
        self.write_tips(&state)?;
        self.crowded(&state)
    }

    /// Whether the commit was made here and is not known to be pushed.
    pub(crate) fn is_unpushed(&self, commit: ObjectId) -> bool {
        self.state().unpushed.contains(&commit)
    }

    /// Notes that the server has the commits of `chain`, the first of which is a tip. Call it with the lock file held.
    /// Blocking.
    pub(crate) fn pushed(&self, chain: &[ObjectId]) -> Result<(), GitError> {
        let Some(tip) = chain.first() else { return Ok(()) };
        self.state().unpushed.retain(|commit| !chain.contains(commit));
        self.add_tips(&[*tip]).map(drop)
    }

    /// Whether the cache may be thrown away for want of what `tips` need, and notes that it is. Once it was, and they are
    /// fetched again, what is missing still is not the cache's fault.
    pub(crate) fn may_rebuild(&self, tips: &[ObjectId]) -> bool {
        let mut state = self.state();
        state.rebuilds.retain(|(_, at)| at.elapsed() < REBUILD_EVERY);
        let was = |tip: &ObjectId| state.rebuilds.iter().any(|(rebuilt, _)| rebuilt == tip);
        if !tips.is_empty() && tips.iter().all(was) {
            return false;
        }
        let now = Instant::now();
        state.rebuilds.extend(tips.iter().map(|tip| (*tip, now)));
        let excess = state.rebuilds.len().saturating_sub(MAX_REBUILDS);
        state.rebuilds.drain(..excess);
        true
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
            let repository = cache.idle.take(&cache).map_or_else(|| open(&cache.store), Ok)?;
            let result = work(&repository, &stop);
            if result.is_ok() {
                cache.idle.keep(&cache, repository);
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
        let _ = File::open(&self.lock_path).and_then(|file| file.set_modified(now));
    }
}

fn existing(repository: &Repository, mut tips: Vec<ObjectId>) -> Vec<ObjectId> {
    match repository.odb() {
        Ok(odb) => tips.retain(|tip| tree::header(&odb, *tip).is_ok()),
        Err(_) => tips.clear(),
    }
    tips
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_thrown_away_once_for_a_tip() {
        crate::init_process().unwrap();
        let folder = std::env::temp_dir().join(format!("windlass-git-{}", uuid::Uuid::new_v4()));
        let caches = Caches::new(&folder).unwrap();
        let cache = caches.get(&Key("a".to_owned())).unwrap();
        let tip = |n: u8| ObjectId::from_bytes([n; 20]);
        assert!(cache.may_rebuild(&[tip(1)]));
        assert!(!cache.may_rebuild(&[tip(1)]));
        assert!(cache.may_rebuild(&[tip(1), tip(2)]));
        assert!(!cache.may_rebuild(&[tip(2)]));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
