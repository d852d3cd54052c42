//! The write-ahead log: the commits that the database has in memory and not yet on disk.
//!
//! A commit is durable once its record is synced here. The database follows in memory, and is synced with all that it has
//! after so many commits, or when the log is full (a checkpoint); then the log is written from its beginning again. So a
//! commit costs one sync of a file that never grows, where the database would take two and write its allocator's state.
//!
//! | part | bytes |
//! |---|---|
//! | heading | `windlass store log 1` and a newline, the log's number and length (u64), zeros up to 4096 |
//! | each record, at a multiple of 4096 | the log's number, the store's revision before it (u64), the length of its writes and a CRC-32 of all that (u32), its writes |
//! | a write | the lengths of key and entry (u32), key, entry; a deletion has the length 2³²−1 and no entry |
//!
//! Numbers are little endian. The database names its log by number while there may be something in it (`meta`, `log`), so
//! that no store goes on without what was answered: a log that is missing, or another's, is an error. A store that was
//! closed has none.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use redb::backends::FileBackend;
use redb::{Database, Durability, ReadableDatabase as _, StorageBackend, WriteTransaction};
use tracing::{info, warn};

use super::commit;
use super::database::{
    self, META, PrepareError, SENSELESS, durably, folder_of, guarded, open_error, open_private, path_of_log,
};
use super::durable::Durable;
use super::{Key, Op, OpenError, Precondition, Write, entry};

const HEADING: &[u8] = b"windlass store log 1\n";
/// Records begin at multiples of it. A disk that loses power may wreck what it writes, and no sector beside.
const SECTOR: usize = 4096;
/// Number, revision, length and checksum.
const HEAD: usize = 24;
/// Instead of an entry's length: the object was removed.
const DELETED: u32 = u32::MAX;
/// The database is synced after so many commits: a start after a crash makes at most as many anew.
const MOST_COMMITS: u32 = 64;
/// How long a log is: room for so many commits of a batch of small objects each.
const LOG_BYTES: usize = 4 << 20;
const META_LOG: &str = "log";

/// The files of a store. They are opened the first time, and again after a failed commit.
pub(super) trait Files: Send + Sync {
    /// Opens the database.
    fn database(&self) -> Result<Database, redb::DatabaseError>;

    /// Opens the log, if there is one.
    fn log(&self) -> io::Result<Option<Box<dyn StorageBackend>>>;

    /// Makes an empty log; its name is on disk. One that is there is of no store that names it, and put aside.
    fn new_log(&self) -> io::Result<Box<dyn StorageBackend>>;

    fn remove_log(&self) -> io::Result<()>;

    /// How long a log is.
    fn log_bytes(&self) -> usize;
}

/// The files of a store on disk.
pub(super) struct OnDisk {
    pub(super) path: PathBuf,
    pub(super) cache_bytes: usize,
}

impl Files for OnDisk {
    fn database(&self) -> Result<Database, redb::DatabaseError> {
        database::open_database_file(&self.path, self.cache_bytes)
    }

    fn log(&self) -> io::Result<Option<Box<dyn StorageBackend>>> {
        let path = path_of_log(&self.path);
        if path.try_exists()? { Ok(Some(open_log(&path)?)) } else { Ok(None) }
    }

    fn new_log(&self) -> io::Result<Box<dyn StorageBackend>> {
        let path = path_of_log(&self.path);
        if path.try_exists()? {
            fs::rename(&path, path.with_added_extension("old"))?;
        }
        let log = open_log(&path)?;
        // A file is durable once the folder that names it is.
        File::open(folder_of(&self.path).unwrap_or(Path::new(".")))?.sync_all()?;
        Ok(log)
    }

    fn remove_log(&self) -> io::Result<()> {
        match fs::remove_file(path_of_log(&self.path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn log_bytes(&self) -> usize {
        LOG_BYTES
    }
}

fn open_log(path: &Path) -> io::Result<Box<dyn StorageBackend>> {
    let file = FileBackend::new(open_private(path)?).map_err(io::Error::other)?;
    Ok(Box::new(Durable::new(file)))
}

/// Opens the database in this file, with what its log has.
pub(super) fn open_database(path: &Path, cache_bytes: usize) -> Result<Database, PrepareError> {
    Wal::new(Box::new(OnDisk { path: path.to_owned(), cache_bytes })).open()
}

/// Opens a store; one that is damaged, or its log, without the log, and with what is wrong.
pub(super) fn open_what_is_left(
    path: &Path,
    cache_bytes: usize,
) -> Result<(Database, Option<String>), OpenError> {
    match open_database(path, cache_bytes).map_err(|error| error.at(path)) {
        Ok(database) => Ok((database, None)),
        Err(OpenError::Damaged { problem, .. }) => match database::open_database_file(path, cache_bytes) {
            Ok(database) => Ok((database, Some(problem))),
            Err(error) => Err(open_error(path, error.into())),
        },
        Err(error) => Err(error),
    }
}

/// The log of an open store.
pub(super) struct Wal {
    files: Box<dyn Files>,
    /// `None` until something is committed.
    log: Option<Log>,
}

struct Log {
    file: Box<dyn StorageBackend>,
    number: u64,
    /// Where the next record goes.
    end: usize,
    /// How many there are since the last checkpoint.
    commits: u32,
}

impl Wal {
    /// A log whose files have nothing in them that is to be read.
    pub(super) fn new(files: Box<dyn Files>) -> Self {
        Self { files, log: None }
    }

    /// Opens the database, and makes the commits anew that are in the log alone.
    pub(super) fn open(&mut self) -> Result<Database, PrepareError> {
        guarded(|| self.try_open()).unwrap_or(Err(PrepareError::Foreign(SENSELESS)))
    }

    fn try_open(&mut self) -> Result<Database, PrepareError> {
        self.log = None;
        let database = self.files.database()?;
        database::prepare(&database)?;
        let Some(number) = database.begin_read()?.open_table(META)?.get(META_LOG)?.map(|log| log.value())
        else {
            return Ok(database);
        };
        let missing =
            "its write-ahead log, which has the last commits, is not beside it under its name and .wal";
        let file = self.files.log()?.ok_or(PrepareError::Foreign(missing))?;
        // The next commit is a checkpoint: only then the log is written from its beginning again.
        let log = Log { file, number, end: SECTOR, commits: MOST_COMMITS };
        log.replay(&database)?;
        self.log = Some(log);
        Ok(database)
    }

    /// Makes what a transaction wrote durable, and then visible.
    pub(super) fn commit(
        &mut self,
        mut writing: WriteTransaction,
        record: Record,
    ) -> Result<(), redb::Error> {
        let most_bytes = self.files.log_bytes();
        if let Some(log) = self.log.as_mut().filter(|log| log.takes(&record, most_bytes)) {
            log.append(record)?;
            writing.set_durability(Durability::None)?;
            return Ok(writing.commit()?);
        }
        // The transaction is synced in the database, with all before it.
        let begun = if self.log.is_none() { self.begin(&writing)? } else { None };
        durably(writing)?;
        // Only now the database names it.
        self.log = begun.or_else(|| self.log.take());
        if let Some(log) = &mut self.log {
            (log.end, log.commits) = (SECTOR, 0);
        }
        Ok(())
    }

    /// Makes a log, and names it. `None`: there is no room for one, and the database does without.
    fn begin(&self, writing: &WriteTransaction) -> Result<Option<Log>, redb::Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // No two logs of a store have the same number: it is made at a moment of its own.
        let number = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        match self.make(number) {
            Ok(file) => {
                writing.open_table(META)?.insert(META_LOG, number)?;
                Ok(Some(Log { file, number, end: SECTOR, commits: 0 }))
            }
            Err(error) => {
                // What there is of it takes the room that the database needs.
                let _ = self.files.remove_log();
                warn!(%error, "failed to make the object store's write-ahead log: commits are slower without");
                Ok(None)
            }
        }
    }

    fn make(&self, number: u64) -> io::Result<Box<dyn StorageBackend>> {
        let file = self.files.new_log()?;
        // Written to its end, so that a sync later has no more to do than what was written.
        let mut empty = heading(number, self.files.log_bytes());
        empty.resize(self.files.log_bytes(), 0);
        file.set_len(empty.len() as u64)?;
        file.write(0, &empty)?;
        file.sync_data()?;
        Ok(file)
    }

    /// Syncs the database a last time: it has everything then, and the log goes.
    pub(super) fn close(&mut self, database: &Database) {
        if self.log.take().is_none() {
            return;
        }
        let closed = || -> Result<(), redb::Error> {
            let writing = database.begin_write()?;
            writing.open_table(META)?.remove(META_LOG)?;
            durably(writing)?;
            Ok(self.files.remove_log()?)
        };
        if let Err(error) = closed() {
            warn!(%error, "failed to close the object store's write-ahead log: it is read at the next start");
        }
    }
}

impl Log {
    fn takes(&self, record: &Record, most_bytes: usize) -> bool {
        self.commits < MOST_COMMITS && self.end + record.0.len() <= most_bytes
    }

    fn append(&mut self, record: Record) -> Result<(), redb::Error> {
        let record = record.sealed(self.number);
        self.file.write(self.end as u64, &record)?;
        self.file.sync_data()?;
        self.end = (self.end + record.len()).next_multiple_of(SECTOR);
        self.commits += 1;
        Ok(())
    }

    /// Makes the commits anew that the database does not have.
    fn replay(&self, database: &Database) -> Result<(), PrepareError> {
        let mut bytes = vec![0; usize::try_from(self.file.len()?).unwrap_or(0)];
        self.file.read(0, &mut bytes)?;
        if !bytes.starts_with(&heading(self.number, bytes.len())) {
            return Err(PrepareError::Foreign(
                "its write-ahead log is cut off, that of another store, or of another time",
            ));
        }
        let mut revision = database::revision(&database.begin_read()?)?.unwrap_or_default();
        let (mut batch, mut end) = (Vec::new(), SECTOR);
        while let Some((before, writes, length)) = self.record(&bytes, end) {
            if before > revision {
                return Err(PrepareError::Foreign("it is older than its write-ahead log"));
            }
            // One that the database has was written before the last checkpoint.
            if before == revision {
                revision += writes.len() as u64;
                batch.push(writes);
            } else if !batch.is_empty() {
                break;
            }
            end = (end + length).next_multiple_of(SECTOR);
        }
        // A record that is not whole was never answered: it is the last one, since each is synced before the next.
        let mut rest = (end..bytes.len()).step_by(SECTOR);
        if rest.any(|at| self.revision_at(&bytes, at) >= Some(revision) && self.record(&bytes, at).is_some())
        {
            return Err(PrepareError::Foreign("its write-ahead log is damaged"));
        }
        if batch.is_empty() {
            return Ok(());
        }
        let commits = batch.len();
        if !commit::replay(database, batch)? {
            return Err(PrepareError::Foreign("its write-ahead log does not fit it"));
        }
        // What was read is perhaps not on disk, after a sync that failed.
        self.file.write(SECTOR as u64, &bytes[SECTOR..end.min(bytes.len())])?;
        self.file.sync_data()?;
        info!(commits, revision, "read what was committed last from the object store's write-ahead log");
        Ok(())
    }

    /// The revision before the record that seems to be here.
    fn revision_at(&self, bytes: &[u8], at: usize) -> Option<u64> {
        let head = bytes.get(at..at + HEAD)?;
        let (number, rest) = head.split_first_chunk()?;
        (u64::from_le_bytes(*number) == self.number).then_some(())?;
        Some(u64::from_le_bytes(*rest.first_chunk()?))
    }

    /// The record here, if there is a whole one: the revision before it, what it writes, and how many bytes it is.
    fn record(&self, bytes: &[u8], at: usize) -> Option<(u64, Vec<Write>, usize)> {
        let before = self.revision_at(bytes, at)?;
        let (head, rest) = bytes.get(at..)?.split_at_checked(HEAD)?;
        let (head, sum) = head.split_last_chunk()?;
        let (_, length) = head.split_last_chunk()?;
        let writes = rest.get(..u32::from_le_bytes(*length) as usize)?;
        (u32::from_le_bytes(*sum) == checksum(head, writes)).then_some(())?;
        Some((before, decode(writes)?, HEAD + writes.len()))
    }
}

/// What a transaction writes, as the log has it.
pub(super) struct Record(Vec<u8>);

impl Record {
    /// Of a transaction that begins with a store at this revision.
    pub(super) fn new(before: u64) -> Self {
        let mut record = vec![0; HEAD];
        record[8..16].copy_from_slice(&before.to_le_bytes());
        Self(record)
    }

    pub(super) fn put(&mut self, key: &Key, entry: &[u8]) {
        self.push(key, u32::try_from(entry.len()).unwrap_or(DELETED), entry);
    }

    pub(super) fn delete(&mut self, key: &Key) {
        self.push(key, DELETED, &[]);
    }

    fn push(&mut self, key: &Key, entry_length: u32, entry: &[u8]) {
        let key = key.as_str();
        self.0.extend_from_slice(&u32::try_from(key.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.0.extend_from_slice(&entry_length.to_le_bytes());
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(entry);
    }

    fn sealed(self, number: u64) -> Vec<u8> {
        let mut record = self.0;
        record[..8].copy_from_slice(&number.to_le_bytes());
        let length = u32::try_from(record.len() - HEAD).unwrap_or(u32::MAX);
        record[16..20].copy_from_slice(&length.to_le_bytes());
        let sum = checksum(&record[..HEAD - 4], &record[HEAD..]);
        record[HEAD - 4..HEAD].copy_from_slice(&sum.to_le_bytes());
        record
    }
}

/// How a log begins.
fn heading(number: u64, length: usize) -> Vec<u8> {
    [HEADING, &number.to_le_bytes(), &(length as u64).to_le_bytes()].concat()
}

fn checksum(head: &[u8], writes: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(writes);
    sum.finalize()
}

/// The writes of a record, as they are committed again.
fn decode(mut bytes: &[u8]) -> Option<Vec<Write>> {
    let mut writes = Vec::new();
    while !bytes.is_empty() {
        let (key_length, rest) = bytes.split_first_chunk()?;
        let (entry_length, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key_length) as usize)?;
        let key = Key::from_stored(std::str::from_utf8(key).ok()?)?;
        let entry_length = u32::from_le_bytes(*entry_length);
        let (op, rest) = if entry_length == DELETED {
            (Op::Delete, rest)
        } else {
            let (entry, rest) = rest.split_at_checked(entry_length as usize)?;
            (Op::Put(entry::decode(key.clone(), entry).ok()?.value), rest)
        };
        writes.push(Write { key, expect: Precondition::Any, op });
        bytes = rest;
    }
    Some(writes)
}
