//! A look at every entry of a store that no process has open.

use std::path::Path;

use redb::{ReadableDatabase as _, ReadableTable as _};

use super::database::{OBJECTS, open_database_file, open_error};
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
    let database = open_database_file(path, CACHE_BYTES).map_err(|error| describe(error.into()))?;
    let reading = database.begin_read().map_err(|error| describe(error.into()))?;
    let objects = reading.open_table(OBJECTS).map_err(|error| describe(error.into()))?;
    let mut checked = Checked { objects: 0, damaged: Vec::new() };
    for found in objects.iter().map_err(|error| describe(error.into()))? {
        let problem = match found {
            Ok((key, value)) => match Key::from_stored(key.value()) {
                Some(key) => entry::decode(key, value.value()).err().map(|error| error.to_string()),
                None => Some(format!("{:?} is no key", key.value().replace('\0', "/"))),
            },
            Err(error) => {
                // What comes after it cannot be found.
                checked.damaged.push(format!("the rest of the objects cannot be read: {error}"));
                break;
            }
        };
        match problem {
            None => checked.objects += 1,
            Some(problem) => checked.damaged.push(problem),
        }
    }
    Ok(checked)
}
