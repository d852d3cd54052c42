//! The store over redb: reads, and the one writer.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use redb::{Database, ReadTransaction, ReadableDatabase};
use tokio::sync::{Semaphore, oneshot};
use tracing::{error, info, warn};

use super::backup::{self, BackupError, Copied};
use super::commit::{self, Outcomes};
use super::database::{self, OBJECTS, PrepareError, SENSELESS, guarded, read_error};
use super::entry;
use super::log::Log;
use super::pages::{corrupt, read_page};
use super::snapshots::{Snapshot, Snapshots};
use super::wal::{OnDisk, Wal};
use super::{
    Committed, Key, ListPage, Object, OpenError, Page, Range, State, Store, StoreError, StoreOptions,
    WatchStream, Write,
};

/// The database of an in-memory store is memory itself: a cache in front of it would only double it.
const MEMORY_CACHE_BYTES: usize = 1 << 20;
/// How many pages of lists are read at a time.
const LISTED_AT_ONCE: usize = 32;
/// How many commits share a transaction at most.
const MAX_BATCH: usize = 1024;
/// How long a transaction waits at most for those whose last commit was just answered.
const MAX_GATHERING: Duration = Duration::from_millis(1);
/// The part of the last transaction's time that is spent on waiting for them.
const GATHERING: u32 = 3;

/// Opens the store in this file; makes the file, and its folder, if there is none.
///
/// One process at a time may have it open. A process that was killed leaves nothing to repair.
pub fn open_file(path: &Path, options: &StoreOptions) -> Result<Arc<dyn Store>, OpenError> {
    let start = || -> Result<Engine, PrepareError> {
        database::create_file(path, options.cache_bytes)?;
        let mut wal = Wal::new(Box::new(OnDisk { path: path.to_owned(), cache_bytes: options.cache_bytes }));
        let mut database = wal.open()?;
        if let Err(error) = database::compact_if_sparse(&mut database, path) {
            // A full disk is no reason not to start.
            warn!(error = %error.at(path), "failed to compact the object store");
            drop(database);
            database = wal.open()?;
        }
        Engine::start(database, Some(wal), options)
    };
    Ok(Arc::new(RedbStore { engine: Arc::new(start().map_err(|error| error.at(path))?) }))
}

/// A store that is gone with the process. Commits happen inline, so that tests may pause time.
pub fn in_memory(options: &StoreOptions) -> Result<Arc<dyn Store>, OpenError> {
    let database = database::open_backend(redb::backends::InMemoryBackend::new(), MEMORY_CACHE_BYTES);
    let engine =
        database.map_err(PrepareError::from).and_then(|database| Engine::start(database, None, options));
    let engine = engine.map_err(|error| error.at(Path::new(":memory:")))?;
    Ok(Arc::new(RedbStore { engine: Arc::new(engine) }))
}

/// A store in redb.
pub(super) struct RedbStore {
    pub(super) engine: Arc<Engine>,
}

impl Drop for RedbStore {
    /// Writes what waits, then closes the file: who drops a store may open it again at once.
    fn drop(&mut self) {
        let mut queue = lock(&self.engine.queue);
        while queue.has_writer {
            queue = self.engine.idle.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        drop(queue);
        if let (Some(wal), Some(database)) = (
            &mut *lock(&self.engine.writer),
            &*self.engine.database.read().unwrap_or_else(PoisonError::into_inner),
        ) {
            wal.close(database);
        }
        *self.engine.database.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

pub(super) struct Engine {
    /// `None` while a database that failed could not be opened again.
    database: RwLock<Option<Database>>,
    /// Whether it is gone with the process.
    is_in_memory: bool,
    log: Arc<Log>,
    snapshots: Snapshots,
    queue: Mutex<Queue>,
    /// What went wrong with the last commit, if anything did.
    failing: Mutex<Option<String>>,
    /// What was found damaged last.
    damaged: Mutex<Option<String>>,
    /// Told when no task writes any more.
    idle: Condvar,
    /// Told when as many commits wait as the writer waits for.
    arrived: Condvar,
    /// A turn of reading a page: however many there are, a thread is left for the writer.
    listing: Arc<Semaphore>,
    /// Held from the transaction until its events are published, so that events are in the order of revisions. `None` in
    /// memory.
    writer: Mutex<Option<Wal>>,
}

/// Commits that wait for the writer.
#[derive(Default)]
struct Queue {
    waiting: Vec<Request>,
    /// How many the writer waits for; 0: it does not wait.
    awaited: usize,
    /// Whether a task is on its way to take them.
    has_writer: bool,
}

impl Queue {
    /// Whether the writer waits, and need not any longer.
    fn has_gathered(&self) -> bool {
        self.awaited > 0 && self.waiting.len() >= self.awaited
    }
}

struct Request {
    writes: Vec<Write>,
    answer: oneshot::Sender<Result<Committed, StoreError>>,
}

impl Engine {
    pub(super) fn start(
        database: Database,
        wal: Option<Wal>,
        options: &StoreOptions,
    ) -> Result<Self, PrepareError> {
        let revision = database::prepare(&database)?;
        Ok(Self {
            database: RwLock::new(Some(database)),
            is_in_memory: wal.is_none(),
            log: Arc::new(Log::new(revision, options)),
            snapshots: Snapshots::new(options.snapshots, options.snapshot_idle, options.snapshot_bytes),
            queue: Mutex::default(),
            failing: Mutex::default(),
            damaged: Mutex::default(),
            idle: Condvar::new(),
            arrived: Condvar::new(),
            listing: Arc::new(Semaphore::new(LISTED_AT_ONCE)),
            writer: Mutex::new(wal),
        })
    }

    fn begin_read(&self) -> Result<ReadTransaction, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        database.as_ref().ok_or(StoreError::Closed)?.begin_read().map_err(read_error)
    }

    /// The latest state, as a snapshot.
    fn latest(&self) -> Result<Snapshot, StoreError> {
        let reading = self.begin_read()?;
        let revision = database::revision(&reading)
            .map_err(read_error)?
            .ok_or_else(|| StoreError::Corrupt { entry: "revision".to_owned(), problem: "it is gone" })?;
        Ok(Snapshot::new(revision, reading))
    }

    fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        let reading = self.begin_read()?;
        let objects = reading.open_table(OBJECTS).map_err(read_error)?;
        let entry = objects.get(key.as_str()).map_err(read_error)?;
        entry.map(|entry| entry::decode(key.clone(), entry.value())).transpose()
    }

    fn list(&self, range: &Range, page: &Page) -> Result<ListPage, StoreError> {
        self.snapshots.expire();
        let kept = || page.snapshot.and_then(|requested| self.snapshots.find(requested));
        let snapshot = if let Some(State(state)) = &page.state {
            state.clone()
        } else if let Some(kept) = kept() {
            kept
        } else {
            let latest = Arc::new(self.latest()?);
            match page.snapshot {
                Some(requested) if requested != latest.revision => {
                    return Err(StoreError::Expired { requested, current: latest.revision });
                }
                _ => latest,
            }
        };
        let mut answer = read_page(&snapshot, range, page)?;
        answer.state = answer.more.then(|| State(snapshot.clone()));
        if page.state.is_some() {
            return Ok(answer);
        }
        match (answer.more, page.after.is_some()) {
            (true, true) if self.snapshots.find(answer.revision).is_some() => {}
            (true, _) if page.limit > 0 => self.snapshots.begin(snapshot),
            (false, true) => self.snapshots.end(answer.revision),
            (true, _) | (false, false) => {}
        }
        Ok(answer)
    }

    fn watch(&self, range: &Range, from: u64) -> Result<WatchStream, StoreError> {
        // Readers see a commit just before watchers do.
        if from > self.log.published() {
            let current = self.latest()?.revision;
            if from > current {
                return Err(StoreError::Expired { requested: from, current });
            }
        }
        self.log.watch(range, from)
    }

    /// Writes a batch and tells the watchers. Blocks until the batch is durable.
    fn write(&self, batch: Vec<Vec<Write>>) -> Outcomes {
        let count = batch.len();
        let mut wal = lock(&self.writer);
        self.snapshots.expire();
        let written = guarded(|| self.try_write(wal.as_mut(), batch));
        match written.unwrap_or_else(|| Err(redb::Error::Corrupted(SENSELESS.to_owned()))) {
            Ok(outcomes) => {
                *lock(&self.failing) = None;
                for outcome in &outcomes {
                    self.look_for_damage(outcome);
                }
                for event in outcomes.iter().flatten().flat_map(|committed| &committed.events) {
                    self.snapshots.wrote(event.object.value.len());
                }
                self.log.publish(outcomes.iter().flatten().flat_map(|committed| &committed.events));
                outcomes
            }
            Err(source) => {
                error!(error = %source, commits = count, "failed to commit to the object store");
                *lock(&self.failing) = Some(format!("the last commit failed: {source}"));
                self.reopen(wal.as_mut());
                let source = Arc::new(source);
                (0..count).map(|_| Err(StoreError::Commit { source: source.clone() })).collect()
            }
        }
    }

    fn try_write(&self, mut wal: Option<&mut Wal>, batch: Vec<Vec<Write>>) -> Result<Outcomes, redb::Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(database) = database.as_ref() {
            return commit::apply(database, wal, batch);
        }
        drop(database);
        // The last attempt to open it again failed.
        self.reopen(wal.as_deref_mut());
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        commit::apply(database.as_ref().ok_or(redb::Error::DatabaseClosed)?, wal, batch)
    }

    /// Remembers, and says once, what is damaged.
    fn look_for_damage<T>(&self, result: &Result<T, StoreError>) {
        let Err(error @ (StoreError::Corrupt { .. } | StoreError::Read { .. })) = result else { return };
        let problem = error.to_string();
        let mut damaged = lock(&self.damaged);
        if damaged.as_ref() != Some(&problem) {
            error!(%error, "the object store is damaged: restore it from a copy");
            *damaged = Some(problem);
        }
    }

    fn problem(&self) -> Option<String> {
        let is_closed = self.database.read().unwrap_or_else(PoisonError::into_inner).is_none();
        let closed = is_closed.then(|| "it is closed".to_owned());
        closed.or_else(|| lock(&self.failing).clone()).or_else(|| lock(&self.damaged).clone())
    }

    /// Opens what could not be opened again after a failed commit, for a read: nothing may be written any more.
    fn heal(&self) {
        let is_closed = || self.database.read().unwrap_or_else(PoisonError::into_inner).is_none();
        if is_closed()
            && let Ok(mut wal) = self.writer.try_lock()
            && is_closed()
        {
            self.reopen(wal.as_mut());
        }
    }

    /// Opens the database anew after a failed commit, since it then refuses all further ones: a full disk that
    /// was made room on needs no restart. What the failed commit left, all of it or nothing, is found out.
    fn reopen(&self, wal: Option<&mut Wal>) {
        let Some(wal) = wal else { return };
        let mut database = self.database.write().unwrap_or_else(PoisonError::into_inner);
        self.snapshots.clear();
        // Closed before it is opened: the file is locked while it is open.
        *database = None;
        match wal.open().and_then(|fresh| Ok((database::prepare(&fresh)?, fresh))) {
            Ok((revision, fresh)) => {
                if revision != self.log.published() {
                    self.log.reset(revision);
                }
                *database = Some(fresh);
                info!(revision, "opened the object store again");
            }
            Err(error) => error!(?error, "failed to open the object store again"),
        }
    }
}

/// Writes what waits until nothing does.
///
/// Those who were answered are soon back when they write one object after the other, as the workers of a pull do. A
/// transaction costs a sync of the log whatever its size, so a turn waits a little for as many as there were last
/// time; who writes alone never waits.
///
/// Dropped without having run (the runtime shuts down) it lets the waiting commits fail.
struct WriterTurn {
    engine: Arc<Engine>,
    /// How many callers the last transaction had, with those who came while it was written.
    callers: usize,
    /// How long to wait for so many.
    gather_for: Duration,
    is_over: bool,
}

impl WriterTurn {
    fn new(engine: Arc<Engine>) -> Self {
        Self { engine, callers: 0, gather_for: Duration::ZERO, is_over: false }
    }

    fn run(mut self) {
        while let Some(requests) = self.take() {
            let (batch, answers): (Vec<_>, Vec<_>) =
                requests.into_iter().map(|request| (request.writes, request.answer)).unzip();
            let started = Instant::now();
            let outcomes = self.engine.write(batch);
            self.gather_for = (started.elapsed() / GATHERING).min(MAX_GATHERING);
            self.callers = outcomes.len() + lock(&self.engine.queue).waiting.len();
            // From a task, callers are woken by a thread that goes on with them, instead of each by a call of the system.
            tokio::spawn(async move {
                for (outcome, answer) in outcomes.into_iter().zip(answers) {
                    // A caller that has gone away does not take its commit back.
                    let _ = answer.send(outcome);
                }
            });
        }
    }

    /// The next batch; `None` hands the turn back.
    fn take(&mut self) -> Option<Vec<Request>> {
        let mut queue = lock(&self.engine.queue);
        if self.callers > 1 {
            queue.awaited = self.callers.min(MAX_BATCH);
            let waited =
                self.engine.arrived.wait_timeout_while(queue, self.gather_for, |queue| !queue.has_gathered());
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.awaited = 0;
        }
        if queue.waiting.is_empty() {
            queue.has_writer = false;
            self.engine.idle.notify_all();
            // From here on another task may have the turn.
            self.is_over = true;
            return None;
        }
        let count = queue.waiting.len().min(MAX_BATCH);
        Some(queue.waiting.drain(..count).collect())
    }
}

impl Drop for WriterTurn {
    fn drop(&mut self) {
        if !self.is_over {
            let mut queue = lock(&self.engine.queue);
            queue.waiting.clear();
            queue.has_writer = false;
            self.engine.idle.notify_all();
        }
    }
}

#[async_trait]
impl Store for RedbStore {
    async fn get(&self, key: &Key) -> Result<Option<Object>, StoreError> {
        self.engine.heal();
        let found = guarded(|| self.engine.get(key));
        let found = found.unwrap_or_else(|| Err(corrupt(key.as_str(), SENSELESS)));
        self.engine.look_for_damage(&found);
        found
    }

    async fn list(&self, range: &Range, page: Page) -> Result<ListPage, StoreError> {
        self.engine.heal();
        let read = move |engine: &Engine, range: &Range| {
            let found = guarded(|| engine.list(range, &page));
            found.unwrap_or_else(|| Err(corrupt(range.prefix(), SENSELESS)))
        };
        let found = if self.engine.is_in_memory {
            read(&self.engine, range)
        } else {
            let turn = self.engine.listing.clone().acquire_owned().await;
            let (engine, range) = (self.engine.clone(), range.clone());
            let listing = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                read(&engine, &range)
            });
            listing.await.map_err(|_| StoreError::Closed)?
        };
        self.engine.look_for_damage(&found);
        found
    }

    async fn commit(&self, writes: Vec<Write>) -> Result<Committed, StoreError> {
        if writes.is_empty() {
            return Ok(Committed { revision: self.revision(), events: Vec::new() });
        }
        if self.engine.is_in_memory {
            return self.engine.write(vec![writes]).pop().unwrap_or(Err(StoreError::Closed));
        }
        let (answer, answered) = oneshot::channel();
        let (needs_writer, has_gathered) = {
            let mut queue = lock(&self.engine.queue);
            queue.waiting.push(Request { writes, answer });
            (!std::mem::replace(&mut queue.has_writer, true), queue.has_gathered())
        };
        if has_gathered {
            self.engine.arrived.notify_one();
        }
        if needs_writer {
            let turn = WriterTurn::new(self.engine.clone());
            tokio::task::spawn_blocking(move || turn.run());
        }
        answered.await.map_err(|_| StoreError::Closed)?
    }

    fn watch(&self, range: &Range, from: u64) -> Result<WatchStream, StoreError> {
        self.engine.watch(range, from)
    }

    fn revision(&self) -> u64 {
        self.engine.log.published()
    }

    fn backup(&self, out: &mut dyn std::io::Write) -> Result<Copied, BackupError> {
        backup::copy(&self.engine.begin_read().map_err(BackupError::ReadStore)?, out)
    }

    fn problem(&self) -> Option<String> {
        self.engine.problem()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each critical section leaves its data whole, also when it panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
