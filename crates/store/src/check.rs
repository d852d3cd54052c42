//! A look at every entry of a store that no process has open.

use std::path::Path;

use bytes::Bytes;
use redb::{ReadableDatabase as _, ReadableTable, ReadableTableMetadata as _};

use super::database::{OBJECTS, SENSELESS, guarded, open_error};
use super::wal::open_what_is_left;
use super::{Key, OpenError, entry};

/// How much of the file is kept in memory while it is read.
const CACHE_BYTES: usize = 8 << 20;

/// What a look at every entry of a store found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// How many objects can be read.
    pub objects: usize,
    /// What cannot, each by its key and with what is wrong with it.
    pub damaged: Vec<String>,
}

/// Reads every object in the store in this file, which no other process may have open. Changes nothing.
///
/// # Errors
/// [`OpenError`], if the file cannot be opened or is not a store at all.
pub fn check_file(path: &Path) -> Result<Checked, OpenError> {
    let describe = |error: redb::Error| open_error(path, error);
    let (database, problem) = open_what_is_left(path, CACHE_BYTES)?;
    let reading = database.begin_read().map_err(|error| describe(error.into()))?;
    let objects = reading.open_table(OBJECTS).map_err(|error| describe(error.into()))?;
    let written = objects.len().map_err(|error| describe(error.into()))?;
    let (mut checked, mut seen) = (Checked { objects: 0, damaged: problem.into_iter().collect() }, 0);
    for found in objects.iter().map_err(|error| describe(error.into()))? {
        let problem = match found {
            Ok((key, value)) => guarded(|| problem_of(&objects, key.value(), value.value()))
                .unwrap_or_else(|| Some(format!("an entry: {SENSELESS}"))),
            Err(error) => {
                // What comes after it cannot be found.
                checked.damaged.push(format!("the rest of the objects cannot be read: {error}"));
                seen = written;
                break;
            }
        };
        seen += 1;
        match problem {
            None => checked.objects += 1,
            Some(problem) => checked.damaged.push(problem),
        }
    }
    if seen != written {
        checked.damaged.push(format!("{written} objects were written, and {seen} are found"));
    }
    Ok(checked)
}

/// One object as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// What was written.
    Whole(Bytes),
    /// What is left of it, which is not what was written.
    Damaged(Bytes),
}

/// Reads one object of the store in this file, which no other process may have open; also one that a server cannot read.
/// `None`: it is not there. Changes nothing.
///
/// # Errors
/// [`OpenError`], if the file cannot be opened or is not a store at all, or nothing of the object can be read.
pub fn read_object(path: &Path, key: &Key) -> Result<Option<Stored>, OpenError> {
    let describe = |error: redb::Error| open_error(path, error);
    let damaged =
        || OpenError::Damaged { path: path.to_owned(), problem: format!("nothing of {key} can be read") };
    let (database, _) = open_what_is_left(path, CACHE_BYTES)?;
    let reading = database.begin_read().map_err(|error| describe(error.into()))?;
    let objects = reading.open_table(OBJECTS).map_err(|error| describe(error.into()))?;
    let found = guarded(|| objects.get(key.as_str())).ok_or_else(damaged)?;
    let Some(entry) = found.map_err(|error| describe(error.into()))? else { return Ok(None) };
    let stored = match entry::decode(key.clone(), entry.value()) {
        Ok(object) => Some(Stored::Whole(object.value)),
        Err(_) => entry::salvage(entry.value()).map(Stored::Damaged),
    };
    stored.map(Some).ok_or_else(damaged)
}

/// What is wrong with an entry, or with what leads to it.
fn problem_of(
    objects: &impl ReadableTable<&'static str, &'static [u8]>,
    stored: &str,
    value: &[u8],
) -> Option<String> {
    let Some(key) = Key::from_stored(stored) else {
        return Some(format!("{:?} is no key", stored.replace('\0', "/")));
    };
    if let Err(error) = entry::decode(key.clone(), value) {
        return Some(error.to_string());
    }
    let is_found = matches!(objects.get(stored), Ok(Some(_)));
    (!is_found).then(|| format!("{key}: it is there and cannot be found by its key"))
}
