//! The store on a disk that forgets what was not synced, and on one that fails.
//!
//! The disk stands at redb's own seam: everything above it is the real thing.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use redb::{DatabaseError, StorageBackend};

use super::engine::{Engine, RedbStore};
use super::wal::{Files, Wal};
use super::{Event, Key, Op, Page, Precondition, Range, Store, StoreError, StoreOptions, Write, database};

/// The files on a disk: the database and its write-ahead log. A file without a byte is not there.
const DATABASE: usize = 0;
const LOG: usize = 1;
const FILES: usize = 2;
const SECTOR: usize = 512;
/// Room for a few commits of the scenario, not for all, and not for the largest.
const LOG_BYTES: usize = 24 << 10;

/// What was done to a file since its last sync.
#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Resize(usize),
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write(offset, data) => {
                let end = offset + data.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(data);
            }
            Self::Resize(len) => image.resize(*len, 0),
        }
    }
}

#[derive(Debug, Default)]
struct Content {
    /// As it was when it was last synced.
    durable: Vec<u8>,
    pending: Vec<Change>,
    /// What a reader sees.
    current: Vec<u8>,
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.current);
        self.pending.push(change);
    }
}

#[derive(Debug, Default)]
struct Image {
    files: [Content; FILES],
    operations: usize,
    /// The operation that fails.
    fails_at: Option<usize>,
    /// Whether all operations after it fail as well.
    is_dead: bool,
    dies: bool,
}

impl Image {
    fn operate(&mut self) -> io::Result<()> {
        if self.is_dead {
            return Err(io::Error::other("the disk is dead"));
        }
        self.operations += 1;
        if Some(self.operations) == self.fails_at {
            self.is_dead = self.dies;
            return Err(io::Error::new(io::ErrorKind::StorageFull, "the disk is full"));
        }
        Ok(())
    }
}

/// A disk; clones are the same disk.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Image>>);

/// One of its files.
#[derive(Debug)]
struct OneFile(Disk, usize);

impl Disk {
    fn of(files: [Vec<u8>; FILES]) -> Self {
        let files =
            files.map(|found| Content { durable: found.clone(), current: found, ..Content::default() });
        Self(Arc::new(Mutex::new(Image { files, ..Image::default() })))
    }

    fn file(&self, file: usize) -> OneFile {
        OneFile(self.clone(), file)
    }

    /// A disk with an empty store: a file gets its name only once that is on it.
    fn new() -> Self {
        let disk = Self::default();
        drop(disk.store().unwrap());
        disk
    }

    /// From this operation on nothing reaches the disk, as if the machine had stopped.
    fn dies_at(operation: usize) -> Self {
        Self::new().dying_at(operation)
    }

    /// The same files on a disk that dies at this operation.
    fn dying_at(&self, operation: usize) -> Self {
        let disk = self.after_power_loss(|_| true);
        {
            let mut image = disk.0.lock().unwrap();
            image.fails_at = Some(operation);
            image.dies = true;
        }
        disk
    }

    /// What the machine finds when it starts again: of the changes that were not synced, those that `survives`
    /// says.
    fn after_power_loss(&self, mut survives: impl FnMut(usize) -> bool) -> Self {
        let image = self.0.lock().unwrap();
        Self::of(image.files.each_ref().map(|file| {
            let mut found = file.durable.clone();
            for (index, change) in file.pending.iter().enumerate() {
                if survives(index) {
                    change.apply(&mut found);
                }
            }
            found
        }))
    }

    fn open(&self, repairs: &Arc<AtomicUsize>) -> Result<redb::Database, DatabaseError> {
        let repairs = repairs.clone();
        redb::Database::builder()
            .set_cache_size(1 << 20)
            .set_repair_callback(move |_| {
                repairs.fetch_add(1, Ordering::Relaxed);
            })
            .create_with_backend(self.file(DATABASE))
    }

    fn store(&self) -> Result<RedbStore, String> {
        let mut wal = Wal::new(Box::new(self.clone()));
        let engine =
            wal.open().and_then(|database| Engine::start(database, Some(wal), &StoreOptions::default()));
        Ok(RedbStore { engine: Arc::new(engine.map_err(|error| format!("{error:?}"))?) })
    }
}

impl Files for Disk {
    fn database(&self) -> Result<redb::Database, DatabaseError> {
        database::open_backend(self.file(DATABASE), 1 << 20)
    }

    fn log(&self) -> io::Result<Option<Box<dyn StorageBackend>>> {
        let log = self.file(LOG);
        if log.len()? == 0 { Ok(None) } else { Ok(Some(Box::new(log))) }
    }

    fn new_log(&self) -> io::Result<Box<dyn StorageBackend>> {
        self.remove_log()?;
        Ok(Box::new(self.file(LOG)))
    }

    fn remove_log(&self) -> io::Result<()> {
        self.file(LOG).set_len(0)
    }

    fn log_bytes(&self) -> usize {
        LOG_BYTES
    }
}

impl StorageBackend for OneFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.0.lock().unwrap().files[self.1].current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let image = self.0.0.lock().unwrap();
        let offset = usize::try_from(offset).unwrap();
        let data = image.files[self.1].current.get(offset..offset + out.len());
        out.copy_from_slice(data.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut image = self.0.0.lock().unwrap();
        image.operate()?;
        image.files[self.1].change(Change::Resize(usize::try_from(len).unwrap()));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut image = self.0.0.lock().unwrap();
        image.operate()?;
        let file = &mut image.files[self.1];
        file.durable = file.current.clone();
        file.pending.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut image = self.0.0.lock().unwrap();
        image.operate()?;
        // Each sector reaches the disk or not.
        for (sector, data) in data.chunks(SECTOR).enumerate() {
            let change = Change::Write(usize::try_from(offset).unwrap() + sector * SECTOR, data.to_vec());
            image.files[self.1].change(change);
        }
        Ok(())
    }
}

type State = BTreeMap<String, (u64, Vec<u8>)>;

fn key(index: usize) -> Key {
    Key::new("test", "objects", "default", &format!("object-{index:02}")).unwrap()
}

fn range() -> Range {
    Range::new("test", "objects", None).unwrap()
}

/// Bytes that take their full size in the database.
fn incompressible(size: usize) -> Vec<u8> {
    let mut state = size as u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    (0..size).map(|_| next()).collect()
}

/// The commits of the scenario: creates, updates and deletes, small values and large ones, one and several a commit.
fn commits() -> Vec<Vec<Write>> {
    let put = |index: usize, size: usize| Write {
        key: key(index),
        expect: Precondition::Any,
        op: Op::Put(incompressible(size).into()),
    };
    let delete = |index| Write { key: key(index), expect: Precondition::Any, op: Op::Delete };
    vec![
        vec![put(1, 10)],
        vec![put(2, 5000), put(3, 300)],
        vec![put(1, 9000)],
        vec![delete(2)],
        vec![put(4, 20), put(5, 20), delete(3)],
        vec![put(1, 11), put(4, 70_000)],
        vec![delete(1), put(1, 12)],
    ]
}

async fn state(store: &dyn Store) -> State {
    let page = store.list(&range(), Page::default()).await.unwrap();
    page.objects
        .into_iter()
        .map(|object| (object.key.name().to_owned(), (object.revision, object.value.to_vec())))
        .collect()
}

/// The state and the revision after each number of commits.
async fn states() -> Vec<(u64, State)> {
    let store = Disk::new().store().unwrap();
    let mut states = vec![(store.revision(), State::new())];
    for commit in commits() {
        store.commit(commit).await.unwrap();
        states.push((store.revision(), state(&store).await));
    }
    states
}

/// How many commits were answered before the disk died; `None` when the store could not be opened.
async fn run(disk: &Disk) -> Option<usize> {
    let store = disk.store().ok()?;
    let mut answered = 0;
    for commit in commits() {
        if store.commit(commit).await.is_err() {
            break;
        }
        answered += 1;
    }
    Some(answered)
}

#[tokio::test]
async fn power_loss_at_any_disk_operation_loses_no_answered_commit_and_needs_no_repair() {
    let states = states().await;
    let mut point = 0;
    let mut complete = false;
    while !complete {
        point += 1;
        let disk = Disk::dies_at(point);
        let answered = run(&disk).await;
        complete = !disk.0.lock().unwrap().is_dead;
        let mut seed = point;
        for survivors in 0..5_usize {
            let found = disk.after_power_loss(|index| match survivors {
                0 => false,
                1 => true,
                // Only the last half, as a disk is free to choose.
                2 => index % 2 == 1,
                _ => {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (seed >> 33) & 1 == 1
                }
            });
            let repairs = Arc::new(AtomicUsize::new(0));
            match found.after_power_loss(|_| true).open(&repairs) {
                Ok(database) => drop(database),
                Err(error) => {
                    panic!("power loss at {point}, survivors {survivors}, {answered:?} answered: {error}")
                }
            }
            assert_eq!(repairs.load(Ordering::Relaxed), 0, "power loss at {point}, survivors {survivors}");
            // And lost again, early after the start.
            let again = found.dying_at(survivors + 1);
            drop(again.store());
            let found = again.after_power_loss(|index| index % 2 == survivors % 2);
            let store = found.store().unwrap_or_else(|error| panic!("power loss at {point}: {error}"));
            let found = (store.revision(), state(&store).await);
            let answered = answered.unwrap_or(0);
            let in_flight = (answered + 1).min(states.len() - 1);
            assert!(
                found == states[answered] || found == states[in_flight],
                "power loss at {point}, survivors {survivors}: {answered} commits were answered, found {found:?}"
            );
        }
    }
    assert!(point > 50, "the scenario is long enough to be worth it: {point}");
}

#[tokio::test]
async fn a_disk_that_fails_once_fails_one_commit_and_the_store_goes_on() {
    let disk = Disk::new();
    let created = disk.0.lock().unwrap().operations;
    let all = {
        let store = disk.store().unwrap();
        store.commit(vec![Write::create(key(0), "first")]).await.unwrap();
        disk.0.lock().unwrap().operations - created
    };
    for offset in 1..=all {
        let disk = Disk::new();
        let store = disk.store().unwrap();
        let mut watch = store.watch(&range(), store.revision()).unwrap();
        {
            let mut image = disk.0.lock().unwrap();
            image.fails_at = Some(image.operations + offset);
        }
        let mut revisions = Vec::new();
        let mut failures = 0;
        for index in 0..4 {
            match store
                .commit(vec![Write { key: key(index), expect: Precondition::Any, op: Op::Put("x".into()) }])
                .await
            {
                Ok(committed) => revisions.push(committed.revision),
                Err(StoreError::Commit { .. }) => failures += 1,
                Err(other) => panic!("operation {offset}: {other}"),
            }
        }
        assert!(failures <= 1, "operation {offset}: {failures} commits failed");
        // The failed commit may be stored or not; a watcher that saw no event of it is told to list again.
        let stored: Vec<u64> = state(&store).await.values().map(|(revision, _)| *revision).collect();
        let mut seen = Vec::new();
        let expired = loop {
            match watch.try_next() {
                Ok(Some(event)) => seen.push(Event::clone(&event).revision),
                Ok(None) => break false,
                Err(StoreError::Expired { .. }) => break true,
                Err(other) => panic!("operation {offset}: {other}"),
            }
        };
        assert!(expired || seen == stored, "operation {offset}: saw {seen:?} of {stored:?}");
        assert!(revisions.iter().all(|revision| stored.contains(revision)), "operation {offset}");
    }
}

#[tokio::test]
async fn a_store_says_what_keeps_it_from_writing_until_a_commit_succeeds() {
    let disk = Disk::new();
    let store = disk.store().unwrap();
    let put = |index| vec![Write::create(key(index), "x")];
    store.commit(put(0)).await.unwrap();
    assert_eq!(store.problem(), None);

    {
        let mut image = disk.0.lock().unwrap();
        image.fails_at = Some(image.operations + 1);
    }
    store.commit(put(1)).await.unwrap_err();
    let problem = store.problem().unwrap();
    assert!(problem.contains("the last commit failed") && problem.contains("the disk is full"), "{problem}");
    assert!(store.get(&key(0)).await.unwrap().is_some(), "what there is can be read");
    store.commit(put(2)).await.unwrap();
    assert_eq!(store.problem(), None);

    // A disk that is gone: the store cannot be opened again either.
    disk.0.lock().unwrap().is_dead = true;
    store.commit(put(3)).await.unwrap_err();
    assert_eq!(store.problem().as_deref(), Some("it is closed"));
    assert!(matches!(store.get(&key(0)).await, Err(StoreError::Closed)));
    assert_eq!(store.problem().as_deref(), Some("it is closed"));
    // A read opens it as well as a write does.
    disk.0.lock().unwrap().is_dead = false;
    assert!(store.get(&key(0)).await.unwrap().is_some());
    assert!(store.problem().unwrap().contains("the last commit failed"), "nothing was written since");
    store.commit(put(4)).await.unwrap();
    assert_eq!(store.problem(), None);
}
