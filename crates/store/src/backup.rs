//! Copies of a store: written from one state of it while it goes on, and made a store again.
//!
//! | part | bytes |
//! |---|---|
//! | heading | `windlass store copy 1` and a newline |
//! | each object, in the order of keys | the lengths of key and entry (u32), key, entry |
//! | end | twice 2³²−1, then revision, objects and damaged objects (u64), and a CRC-32 of all that precedes it |
//!
//! Numbers are little endian. An entry has a checksum of its own (`entry.rs`), so that one that is damaged is never taken
//! over: it is left out, and counted.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use redb::{
    Database, ReadTransaction, ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _,
};

use super::database::{
    self, META, META_REVISION, OBJECTS, USAGE, create_tables, durably, folder_of, guarded, open_error,
    path_of_log,
};
use super::wal::{open_database, open_what_is_left};
use super::{Key, OpenError, StoreError, entry};

const HEADING: &[u8] = b"windlass store copy 1\n";
const END: u32 = u32::MAX;
/// The longest key and entry that are read: none that was stored is longer.
const LONGEST: u32 = 256 << 20;
/// How much of the file is kept in memory while it is read or made.
const CACHE_BYTES: usize = 8 << 20;
/// A store that was made from a copy begins so many revisions later. What was written after the copy was made had revisions
/// too, which clients may still name: they are told that theirs are no longer kept.
const LATER: u64 = 1_000_000_000;

/// What a copy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// How many objects.
    pub objects: u64,
    /// The revision of the state that was copied.
    pub revision: u64,
    /// How many objects are not in it, since they are damaged.
    pub damaged: u64,
}

/// Why a copy could not be made, or not be made a store again.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The store could not be opened, or made.
    #[error(transparent)]
    Open(OpenError),
    /// The store could not be read.
    #[error("failed to read from the object store")]
    ReadStore(#[source] StoreError),
    /// The copy could not be written.
    #[error("failed to write the copy")]
    WriteCopy(#[source] io::Error),
    /// The copy could not be read.
    #[error("failed to read the copy")]
    ReadCopy(#[source] io::Error),
    /// It is no copy of a store, or not a whole one.
    #[error("failed to read the copy: {0}")]
    NotWhole(&'static str),
    /// There is a store already.
    #[error("failed to restore to {}: it exists; move it away first", path.display())]
    Exists {
        /// The store's file.
        path: std::path::PathBuf,
    },
}

/// Copies the store in this file, which no process may have open.
///
/// # Errors
/// [`BackupError`]; [`OpenError::Locked`] within it when a process has the store open.
pub fn backup_file(path: &Path, out: &mut dyn Write) -> Result<Copied, BackupError> {
    let describe = |error: redb::Error| BackupError::Open(open_error(path, error));
    let (database, problem) = open_what_is_left(path, CACHE_BYTES).map_err(BackupError::Open)?;
    let mut copied = copy(&database.begin_read().map_err(|error| describe(error.into()))?, out)?;
    if problem.is_some() {
        // What the log had is not in it.
        copied.damaged = copied.damaged.max(1);
    }
    Ok(copied)
}

/// Writes what a transaction reads.
pub(super) fn copy(reading: &ReadTransaction, out: &mut dyn Write) -> Result<Copied, BackupError> {
    let failed = |error: redb::Error| BackupError::ReadStore(database::read_error(error));
    let mut out = Summed { inner: out, sum: crc32fast::Hasher::new() };
    let revision = database::revision(reading).map_err(failed)?.unwrap_or_default();
    let mut copied = Copied { objects: 0, revision, damaged: 0 };
    out.all(HEADING)?;
    let objects = reading.open_table(OBJECTS).map_err(|error| failed(error.into()))?;
    for found in objects.iter().map_err(|error| failed(error.into()))? {
        let (key, value) = found.map_err(|error| failed(error.into()))?;
        let is_whole = guarded(|| {
            Key::from_stored(key.value()).is_some_and(|key| entry::decode(key, value.value()).is_ok())
        });
        if is_whole != Some(true) {
            copied.damaged += 1;
            continue;
        }
        let (key, value) = (key.value(), value.value());
        let lengths = u32::try_from(key.len()).ok().zip(u32::try_from(value.len()).ok());
        let Some((key_length, value_length)) = lengths else {
            copied.damaged += 1;
            continue;
        };
        out.all(&key_length.to_le_bytes())?;
        out.all(&value_length.to_le_bytes())?;
        out.all(key.as_bytes())?;
        out.all(value)?;
        copied.objects += 1;
    }
    // What was written and is not there is damage too.
    let written = objects.len().map_err(|error| failed(error.into()))?;
    copied.damaged = copied.damaged.max(written.saturating_sub(copied.objects));
    out.all(&END.to_le_bytes())?;
    out.all(&END.to_le_bytes())?;
    for number in [copied.revision, copied.objects, copied.damaged] {
        out.all(&number.to_le_bytes())?;
    }
    let sum = out.sum.clone().finalize();
    out.all(&sum.to_le_bytes())?;
    out.inner.flush().map_err(BackupError::WriteCopy)?;
    Ok(copied)
}

/// Reads a whole copy, and says what it holds.
///
/// # Errors
/// [`BackupError`], if it is damaged or ends too early.
pub fn check_copy(from: &mut dyn Read) -> Result<Copied, BackupError> {
    read(from, |_, _| Ok(()))
}

/// Makes a store in this file of a copy. There may be none yet; what fails leaves none.
///
/// # Errors
/// [`BackupError`], which says whether the copy or the file is at fault.
pub fn restore(from: &mut dyn Read, path: &Path) -> Result<Copied, BackupError> {
    let describe = |error: redb::Error| BackupError::Open(open_error(path, error));
    // A log alone is of a store that was moved away, and belongs to it.
    for there in [path.to_owned(), path_of_log(path)] {
        if there.try_exists().map_err(|error| describe(error.into()))? {
            return Err(BackupError::Exists { path: there });
        }
    }
    let new_path = path.with_added_extension("restoring");
    let _ = fs::remove_file(&new_path);
    let made = database::create_database_file(&new_path, CACHE_BYTES)
        .map_err(|error| describe(error.into()))
        .and_then(|database| fill(&database, from, describe));
    let renamed = made.and_then(|copied| {
        fs::rename(&new_path, path)
            .and_then(|()| fs::File::open(folder_of(path).unwrap_or(Path::new(".")))?.sync_all())
            .map_err(|error| describe(error.into()))
            .map(|()| copied)
    });
    if renamed.is_err() {
        let _ = fs::remove_file(&new_path);
    }
    renamed
}

fn fill(
    database: &Database,
    from: &mut dyn Read,
    describe: impl Fn(redb::Error) -> BackupError,
) -> Result<Copied, BackupError> {
    create_tables(database).map_err(&describe)?;
    let writing = database.begin_write().map_err(|error| describe(error.into()))?;
    let copied = {
        let mut objects = writing.open_table(OBJECTS).map_err(|error| describe(error.into()))?;
        let mut usage = writing.open_table(USAGE).map_err(|error| describe(error.into()))?;
        let mut folder: (String, u64, u64) = Default::default();
        let mut keep = |(name, count, bytes): &(String, u64, u64)| {
            if *count > 0 {
                usage.insert(name.as_str(), (*count, *bytes)).map_err(|error| describe(error.into()))?;
            }
            Ok(())
        };
        let copied = read(from, |key, value| {
            objects.insert(key.as_str(), value).map_err(|error| describe(error.into()))?;
            let object = entry::decode(key.clone(), value).map_err(BackupError::ReadStore)?;
            // Keys are in order, so that those of one folder come together.
            if folder.0 != key.folder() {
                keep(&folder)?;
                folder = (key.folder().to_owned(), 0, 0);
            }
            folder.1 += 1;
            folder.2 += (key.as_str().len() + object.value.len()) as u64;
            Ok(())
        })?;
        keep(&folder)?;
        let mut meta = writing.open_table(META).map_err(|error| describe(error.into()))?;
        meta.insert(META_REVISION, copied.revision + LATER).map_err(|error| describe(error.into()))?;
        copied
    };
    durably(writing).map_err(describe)?;
    Ok(copied)
}

/// Reads a copy to its end, each entry whole and in the order of keys.
fn read(
    from: &mut dyn Read,
    mut take: impl FnMut(&Key, &[u8]) -> Result<(), BackupError>,
) -> Result<Copied, BackupError> {
    let mut from = Summed { inner: from, sum: crc32fast::Hasher::new() };
    if from.bytes(HEADING.len())? != HEADING {
        return Err(BackupError::NotWhole("it does not begin as a copy of a store does"));
    }
    let mut last: Option<Key> = None;
    let mut objects = 0;
    loop {
        let (key, value) = (from.number()?, from.number()?);
        if (key, value) == (END, END) {
            break;
        }
        if key > LONGEST || value > LONGEST {
            return Err(BackupError::NotWhole("it is damaged: an object is longer than any can be"));
        }
        let key = String::from_utf8(from.bytes(key as usize)?).ok();
        let key = key.and_then(|key| Key::from_stored(&key));
        let key = key.filter(|key| last.as_ref().is_none_or(|last| last < key));
        let key =
            key.ok_or(BackupError::NotWhole("it is damaged: an object has no key, or not its place"))?;
        let value = from.bytes(value as usize)?;
        entry::decode(key.clone(), &value).map_err(BackupError::ReadStore)?;
        take(&key, &value)?;
        objects += 1;
        last = Some(key);
    }
    let revision = from.long()?;
    let copied = Copied { revision, objects: from.long()?, damaged: from.long()? };
    let sum = from.sum.clone().finalize();
    if from.number()? != sum || copied.objects != objects {
        return Err(BackupError::NotWhole("it is damaged: its checksum is another"));
    }
    Ok(copied)
}

/// What goes through it is summed up.
struct Summed<T> {
    inner: T,
    sum: crc32fast::Hasher,
}

impl Summed<&mut dyn Write> {
    fn all(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.sum.update(bytes);
        self.inner.write_all(bytes).map_err(BackupError::WriteCopy)
    }
}

impl Summed<&mut dyn Read> {
    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, BackupError> {
        let mut bytes = Vec::new();
        // Grows with what is there, not with what is announced.
        let read = self.inner.take(count as u64).read_to_end(&mut bytes).map_err(BackupError::ReadCopy)?;
        if read < count {
            return Err(BackupError::NotWhole("it ends too early"));
        }
        self.sum.update(&bytes);
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u32, BackupError> {
        let bytes = self.bytes(4)?;
        Ok(u32::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }

    fn long(&mut self) -> Result<u64, BackupError> {
        let bytes = self.bytes(8)?;
        Ok(u64::from_le_bytes(bytes.try_into().unwrap_or_default()))
    }
}

/// How large a file was before and after it was compacted, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// Gives back what is free in the file of a store that no process has open. Killed meanwhile, it leaves the store as it was
/// or compacted.
///
/// # Errors
/// [`OpenError`], if the file cannot be opened, or not be written.
pub fn compact_file(path: &Path) -> Result<Compacted, OpenError> {
    let describe = |error: redb::Error| open_error(path, error);
    let size = || fs::metadata(path).map(|found| found.len()).map_err(|error| describe(error.into()));
    let mut database = open_database(path, CACHE_BYTES).map_err(|error| error.at(path))?;
    let before = size()?;
    // Each pass moves what it can; a pass that moved nothing is the last.
    while database.compact().map_err(|error| describe(error.into()))? {}
    drop(database);
    Ok(Compacted { before, after: size()? })
}
