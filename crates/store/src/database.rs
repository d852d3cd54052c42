//! The database behind a store: its tables, its format, and how it is opened.
//!
//! | table | key | value |
//! |---|---|---|
//! | `objects` | the key's stored form | revision and value (`entry.rs`) |
//! | `usage` | `group NUL resource NUL namespace NUL` | how many objects, how many bytes |
//! | `meta` | `format`, `revision`, `log` (the number of the write-ahead log, `wal.rs`) | u64 |

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition, TableHandle, WriteTransaction,
};

use tracing::info;

use super::durable::Durable;
use super::{OpenError, StoreError};

/// The format that this program writes: raised whenever the bytes in a table change their meaning.
const FORMAT: u64 = 4;
/// The oldest format that is read, whose entries have no checksums: they are written with one when they change. The next
/// one, 3, has no write-ahead log.
const OLDEST: u64 = 2;
/// The revision of a store that was never written to: not 0, which means "from now on" to a watch.
pub const FIRST_REVISION: u64 = 1;
/// A file smaller than this is never compacted.
const SPARSE_BYTES: u64 = 8 << 20;
/// What file systems count in.
const BLOCK_BYTES: u64 = 512;
/// A file this many times as large as its live data is compacted. Pages that are half empty alone explain a half of
/// it, so that compacting does not come again at each start.
const SPARSE_RATIO: u64 = 4;

pub(super) const OBJECTS: TableDefinition<&str, &[u8]> = TableDefinition::new("objects");
pub(super) const USAGE: TableDefinition<&str, (u64, u64)> = TableDefinition::new("usage");
pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
pub(super) const META_REVISION: &str = "revision";
const META_FORMAT: &str = "format";

/// Opens the database in this backend.
pub(super) fn open_backend(
    backend: impl StorageBackend,
    cache_bytes: usize,
) -> Result<Database, DatabaseError> {
    Database::builder().set_cache_size(cache_bytes).create_with_backend(backend)
}

/// Opens the database in this file.
pub(super) fn open_database_file(path: &Path, cache_bytes: usize) -> Result<Database, DatabaseError> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    if file.metadata()?.len() == 0 {
        // The database would begin an empty one in it.
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it has 0 bytes").into());
    }
    open_with(file, cache_bytes)
}

/// Makes a database in a file that only its owner may read.
pub(super) fn create_database_file(path: &Path, cache_bytes: usize) -> Result<Database, DatabaseError> {
    open_with(open_private(path)?, cache_bytes)
}

/// Makes an empty store in this file, if there is none.
///
/// It is made under another name, and renamed once whole: a process that dies meanwhile leaves no half-made store.
/// The other name stays locked until then, so that of two processes that start at once one is told.
pub(super) fn create_file(path: &Path, cache_bytes: usize) -> Result<(), PrepareError> {
    if path.try_exists()? {
        return Ok(());
    }
    if path_of_log(path).try_exists()? {
        return Err(PrepareError::Foreign(
            "it is gone, and its write-ahead log is there under its name and .wal",
        ));
    }
    let folder = folder_of(path).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut new_path = path.as_os_str().to_owned();
    new_path.push(".new");
    let new_path = Path::new(&new_path);
    let open = || create_database_file(new_path, cache_bytes);
    let database = match open() {
        Err(error @ DatabaseError::DatabaseAlreadyOpen) => return Err(error.into()),
        Err(_) => {
            // Left by a process that died while it made the store: nothing was ever answered from it.
            fs::remove_file(new_path)?;
            open()?
        }
        Ok(database) => database,
    };
    prepare(&database)?;
    if !path.try_exists()? {
        // A file is durable once the folder that names it is.
        fs::rename(new_path, path)?;
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

fn open_with(file: File, cache_bytes: usize) -> Result<Database, DatabaseError> {
    open_backend(Durable::new(FileBackend::new(file)?), cache_bytes)
}

/// Opens or makes a file that only its owner may read: sealed secrets will be in it.
pub(super) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Where the write-ahead log of the store in this file is.
pub(super) fn path_of_log(store: &Path) -> PathBuf {
    store.with_added_extension("wal")
}

/// The folder that a file lies in.
pub(super) fn folder_of(path: &Path) -> Option<&Path> {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Some(Path::new(".")),
        other => other,
    }
}

/// Checks the format, makes what is missing in an empty database, and returns the store's revision.
pub(super) fn prepare(database: &Database) -> Result<u64, PrepareError> {
    let reading = database.begin_read()?;
    let tables: Vec<String> = reading.list_tables()?.map(|table| table.name().to_owned()).collect();
    if tables.is_empty() {
        create_tables(database)?;
        return Ok(FIRST_REVISION);
    }
    let has_meta = tables.iter().any(|name| name == META.name());
    let format = if has_meta { number(&reading, META_FORMAT)? } else { None };
    match format.ok_or(PrepareError::Foreign("it has no format record"))? {
        FORMAT => {}
        OLDEST..FORMAT => {
            let writing = database.begin_write()?;
            writing.open_table(META)?.insert(META_FORMAT, FORMAT)?;
            durably(writing)?;
        }
        other => return Err(PrepareError::Format(other)),
    }
    reading.open_table(OBJECTS)?;
    reading.open_table(USAGE)?;
    revision(&reading)?.ok_or(PrepareError::Foreign("it has no revision record"))
}

/// Commits a transaction so that it is on disk, with all before it.
pub(super) fn durably(mut writing: WriteTransaction) -> Result<(), redb::Error> {
    // A start after a crash reads the allocator's state instead of the whole file.
    writing.set_quick_repair(true);
    Ok(writing.commit()?)
}

pub(super) fn create_tables(database: &Database) -> Result<(), redb::Error> {
    let writing = database.begin_write()?;
    writing.open_table(OBJECTS)?;
    writing.open_table(USAGE)?;
    {
        let mut meta = writing.open_table(META)?;
        meta.insert(META_FORMAT, FORMAT)?;
        meta.insert(META_REVISION, FIRST_REVISION)?;
    }
    durably(writing)
}

/// Moves the live data together when little of the file is in use, as after most objects were deleted.
///
/// While the store runs the file does not shrink: what was freed is used again by later writes, and ten rewrites
/// of every object leave it below twice the live data. Killed in the middle, it is in one state or the other.
pub(super) fn compact_if_sparse(database: &mut Database, path: &Path) -> Result<(), PrepareError> {
    // What the file takes up on the disk: it grows by doubling, and the rest is a hole.
    let taken = || -> io::Result<u64> { Ok(fs::metadata(path)?.blocks() * BLOCK_BYTES) };
    let (before, live) = (taken()?, live_bytes(database)?);
    if before >= SPARSE_BYTES && before / SPARSE_RATIO >= live {
        database.compact()?;
        info!(path = %path.display(), before, after = taken()?, live, "compacted the object store");
    }
    Ok(())
}

/// The bytes of all keys and values.
fn live_bytes(database: &Database) -> Result<u64, redb::Error> {
    let usage = database.begin_read()?.open_table(USAGE)?;
    let mut live = 0;
    for entry in usage.iter()? {
        let (_, usage) = entry?;
        live += usage.value().1;
    }
    Ok(live)
}

/// The revision of the state that a transaction reads.
pub(super) fn revision(reading: &ReadTransaction) -> Result<Option<u64>, redb::Error> {
    number(reading, META_REVISION)
}

fn number(reading: &ReadTransaction, name: &str) -> Result<Option<u64>, redb::Error> {
    Ok(reading.open_table(META)?.get(name)?.map(|number| number.value()))
}

/// Why an open database cannot serve as a store.
#[derive(Debug)]
pub(super) enum PrepareError {
    /// Of another version.
    Format(u64),
    Foreign(&'static str),
    Database(redb::Error),
}

impl<E: Into<redb::Error>> From<E> for PrepareError {
    fn from(error: E) -> Self {
        Self::Database(error.into())
    }
}

impl PrepareError {
    /// The error of opening the store at `path`.
    pub(super) fn at(self, path: &Path) -> OpenError {
        match self {
            Self::Format(found) => OpenError::Format { path: path.to_owned(), found, known: FORMAT },
            Self::Foreign(problem) => {
                OpenError::Damaged { path: path.to_owned(), problem: problem.to_owned() }
            }
            Self::Database(error) => open_error(path, error),
        }
    }
}

/// Tells a damaged file from one that is held by another process and from one that cannot be read.
pub(super) fn open_error(path: &Path, error: redb::Error) -> OpenError {
    let path = path.to_owned();
    match error {
        redb::Error::DatabaseAlreadyOpen => OpenError::Locked { path },
        redb::Error::Io(source)
            if matches!(source.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            OpenError::Damaged { path, problem: source.to_string() }
        }
        error @ (redb::Error::Corrupted(_)
        | redb::Error::UpgradeRequired(_)
        | redb::Error::RepairAborted
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TypeDefinitionChanged { .. }
        | redb::Error::TableIsMultimap(_)
        | redb::Error::TableDoesNotExist(_)) => OpenError::Damaged { path, problem: error.to_string() },
        source => OpenError::Open { path, source },
    }
}

/// What is said of what the database panics of.
pub(super) const SENSELESS: &str = "the database can make no sense of it";

/// Reads what may be damaged in ways that the database panics of: a key that is no text. `None`: it did.
pub(super) fn guarded<T>(read: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

/// A failed read, for the caller of the store.
pub(super) fn read_error(error: impl Into<redb::Error>) -> StoreError {
    StoreError::Read { source: std::sync::Arc::new(error.into()) }
}
