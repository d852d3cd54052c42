//! Pages of lists, read from one state: by an index, or along the keys.

use std::ops::Bound;

use super::database::{OBJECTS, USAGE, read_error};
use super::snapshots::Snapshot;
use super::{Key, ListPage, Page, Range, StoreError, entry};

/// How many keys are taken from an index at once.
const LOOKED_UP: usize = 1024;

/// The objects of a page, and whether and how many come after them.
pub(super) fn read_page(snapshot: &Snapshot, range: &Range, page: &Page) -> Result<ListPage, StoreError> {
    if let Some(found) = read_looked_up(snapshot, range, page)? {
        return Ok(found);
    }
    let revision = snapshot.revision;
    let end = range.end();
    let start = match &page.after {
        Some(after) if after.as_str() >= end.as_str() => {
            let objects = Vec::new();
            return Ok(ListPage { objects, revision, more: false, remaining: Some(0), state: None });
        }
        Some(after) if after.as_str() >= range.prefix() => Bound::Excluded(after.as_str()),
        _ => Bound::Included(range.prefix()),
    };
    let table = snapshot.reading.open_table(OBJECTS).map_err(read_error)?;
    let mut entries = table.range::<&str>((start, Bound::Excluded(end.as_str()))).map_err(read_error)?;
    let (limit, most_bytes) = (page.at_most(), page.bytes_at_most());
    let (mut objects, mut bytes) = (Vec::new(), 0);
    while objects.len() < limit && bytes < most_bytes {
        let Some(entry) = entries.next() else { break };
        let (key, value) = entry.map_err(read_error)?;
        let key = Key::from_stored(key.value()).ok_or_else(|| StoreError::Corrupt {
            entry: key.value().replace('\0', "/"),
            problem: "its key does not have four parts",
        })?;
        let object = entry::decode(key, value.value())?;
        if page.filter.as_ref().is_none_or(|filter| filter(&object)) {
            bytes += object.value.len();
            objects.push(object);
        }
    }
    let is_full = objects.len() == limit || bytes >= most_bytes;
    let known = match &page.after {
        _ if page.filter.is_some() => None,
        None => Some(count(snapshot, range)?),
        Some(after) => snapshot.remaining_after(range, after),
    };
    let remaining = match known {
        Some(known) => {
            // As many as were written: damage above the entries would hide them in silence.
            let left = known.checked_sub(objects.len()).filter(|left| is_full || *left == 0);
            Some(left.ok_or_else(|| corrupt(range.prefix(), "objects are missing"))?)
        }
        None if page.filter.is_none() && !is_full => Some(0),
        None if page.filter.is_none() && page.limit > 0 => Some(entries.by_ref().count()),
        None => None,
    };
    let more = remaining.map_or_else(|| is_full && entries.next().is_some(), |remaining| remaining > 0);
    if let (Some(last), Some(remaining), true) = (objects.last(), remaining, more) {
        snapshot.remember(range, &last.key, remaining);
    }
    // Who asks for all is not told how many come.
    let remaining = remaining.filter(|_| page.limit > 0 || !is_full);
    Ok(ListPage { objects, revision, more, remaining, state: None })
}

/// The error of an entry, or of those of a range.
pub(super) fn corrupt(stored: &str, problem: &'static str) -> StoreError {
    StoreError::Corrupt { entry: stored.trim_end_matches('\0').replace('\0', "/"), problem }
}

/// As [`read_page`], of what an index names. `None`: it cannot say.
fn read_looked_up(snapshot: &Snapshot, range: &Range, page: &Page) -> Result<Option<ListPage>, StoreError> {
    let (Some(lookup), Some(filter)) = (&page.lookup, &page.filter) else { return Ok(None) };
    let (revision, limit, most_bytes) = (snapshot.revision, page.at_most(), page.bytes_at_most());
    let table = snapshot.reading.open_table(OBJECTS).map_err(read_error)?;
    let (mut objects, mut bytes, mut after) = (Vec::new(), 0, page.after.clone());
    loop {
        let Some(keys) = lookup.next(revision, range, after.as_ref(), LOOKED_UP) else { return Ok(None) };
        if keys.is_empty() {
            return Ok(Some(ListPage { objects, revision, more: false, remaining: None, state: None }));
        }
        for key in keys {
            if objects.len() >= limit || bytes >= most_bytes {
                return Ok(Some(ListPage { objects, revision, more: true, remaining: None, state: None }));
            }
            after = Some(key.clone());
            let Some(entry) = table.get(key.as_str()).map_err(read_error)? else { continue };
            let object = entry::decode(key, entry.value())?;
            if filter(&object) {
                bytes += object.value.len();
                objects.push(object);
            }
        }
    }
}

/// How many objects a range has.
fn count(snapshot: &Snapshot, range: &Range) -> Result<usize, StoreError> {
    let usage = snapshot.reading.open_table(USAGE).map_err(read_error)?;
    let mut count = 0;
    for entry in usage.range::<&str>(range.prefix()..range.end().as_str()).map_err(read_error)? {
        let (_, usage) = entry.map_err(read_error)?;
        count += usage.value().0;
    }
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}
