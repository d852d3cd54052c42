//! One write transaction for a batch of commits.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use redb::{Database, Durability, ReadableTable, Table, WriteTransaction};

use super::database::{META, META_REVISION, OBJECTS, SENSELESS, USAGE, durably, guarded};
use super::entry;
use super::wal::{Record, Wal};
use super::{Committed, Encoded, Event, EventKind, Key, Object, Op, Precondition, StoreError, Write};

/// What became of each commit of a batch, in its order.
pub(super) type Outcomes = Vec<Result<Committed, StoreError>>;

/// Does each commit of the batch, or finds why not; then makes them durable together, by the log if there is one.
///
/// An error is one of the database, and answers all of them.
pub(super) fn apply(
    database: &Database,
    wal: Option<&mut Wal>,
    batch: Vec<Vec<Write>>,
) -> Result<Outcomes, redb::Error> {
    let writing = database.begin_write()?;
    let (outcomes, record) = match guarded(|| write(&writing, batch)) {
        Some(written) => written?,
        None => {
            // Given up like any other: one that is dropped while it panics makes the database repair itself.
            writing.abort()?;
            return Err(redb::Error::Corrupted(SENSELESS.to_owned()));
        }
    };
    match (record, wal) {
        (Some(record), Some(wal)) => wal.commit(writing, record)?,
        (Some(_), None) => durably(writing)?,
        (None, _) => writing.abort()?,
    }
    Ok(outcomes)
}

/// Does commits anew that a log has. False: they cannot be of this store.
pub(super) fn replay(database: &Database, batch: Vec<Vec<Write>>) -> Result<bool, redb::Error> {
    let mut writing = database.begin_write()?;
    writing.set_durability(Durability::None)?;
    let (outcomes, _) = write(&writing, batch)?;
    if outcomes.iter().any(Result::is_err) {
        writing.abort()?;
        return Ok(false);
    }
    writing.commit()?;
    Ok(true)
}

/// Does each commit of the batch in a transaction, or finds why not, and says what is written if anything is.
fn write(
    writing: &WriteTransaction,
    batch: Vec<Vec<Write>>,
) -> Result<(Outcomes, Option<Record>), redb::Error> {
    let mut outcomes = Vec::with_capacity(batch.len());
    let mut objects = writing.open_table(OBJECTS)?;
    let mut meta = writing.open_table(META)?;
    let before = meta
        .get(META_REVISION)?
        .map(|revision| revision.value())
        .ok_or_else(|| redb::Error::Corrupted("the revision record is gone".to_owned()))?;
    let (mut revision, mut record, mut usage) = (before, Record::new(before), UsageChanges::default());
    for writes in batch {
        let outcome = match stage(&objects, revision, writes)? {
            Ok(events) => {
                for event in &events {
                    store(&mut objects, &mut record, event)?;
                    usage.add(event);
                    revision = event.revision;
                }
                Ok(Committed { revision, events })
            }
            Err(error) => Err(error),
        };
        outcomes.push(outcome);
    }
    if revision != before {
        meta.insert(META_REVISION, revision)?;
    }
    if !usage.0.is_empty() {
        usage.store(&mut writing.open_table(USAGE)?)?;
    }
    Ok((outcomes, (revision != before).then_some(record)))
}

/// Checks the writes of one commit, each against the state that those before it leave, and says what they do.
fn stage(
    objects: &impl ReadableTable<&'static str, &'static [u8]>,
    mut revision: u64,
    writes: Vec<Write>,
) -> Result<Result<Vec<Arc<Event>>, StoreError>, redb::Error> {
    let mut staged: HashMap<Key, Option<Object>> = HashMap::new();
    let mut events = Vec::with_capacity(writes.len());
    for Write { key, expect, op } in writes {
        let previous = if let Some(state) = staged.get(&key) {
            state.clone()
        } else {
            match objects.get(key.as_str())?.map(|entry| entry::decode(key.clone(), entry.value())) {
                Some(Ok(object)) => Some(object),
                Some(Err(error)) => return Ok(Err(error)),
                None => None,
            }
        };
        let actual = previous.as_ref().map(|object| object.revision);
        let holds = match expect {
            Precondition::Absent => actual.is_none(),
            Precondition::Revision(expected) => actual == Some(expected),
            Precondition::Any => actual.is_some() || matches!(op, Op::Put(_)),
        };
        revision += 1;
        let (kind, value) = match (op, &previous) {
            (Op::Put(value), None) if holds => (EventKind::Added, value),
            (Op::Put(value), Some(_)) if holds => (EventKind::Modified, value),
            (Op::Delete, Some(previous)) if holds => (EventKind::Deleted, previous.value.clone()),
            _ => return Ok(Err(StoreError::Conflict { key, expected: expect, actual })),
        };
        let object = Object { key: key.clone(), revision, value };
        staged.insert(key, (kind != EventKind::Deleted).then(|| object.clone()));
        events.push(Arc::new(Event { kind, revision, object, previous, encoded: Encoded::default() }));
    }
    Ok(Ok(events))
}

fn store(
    objects: &mut Table<'_, &'static str, &'static [u8]>,
    record: &mut Record,
    event: &Event,
) -> Result<(), redb::Error> {
    let Object { key, revision, value } = &event.object;
    match event.kind {
        EventKind::Added | EventKind::Modified => {
            let entry = entry::encode(key, *revision, value);
            record.put(key, &entry);
            objects.insert(key.as_str(), entry.as_slice())?;
        }
        EventKind::Deleted => {
            record.delete(key);
            objects.remove(key.as_str())?;
        }
    }
    Ok(())
}

/// How the numbers of objects and bytes change, by kind and namespace.
#[derive(Default)]
struct UsageChanges(BTreeMap<String, (i64, i64)>);

impl UsageChanges {
    fn add(&mut self, event: &Event) {
        let size = |object: &Object| {
            i64::try_from(object.key.as_str().len() + object.value.len()).unwrap_or(i64::MAX)
        };
        let (count, bytes) = match (event.kind, &event.previous) {
            (EventKind::Deleted, _) => (-1, -size(&event.object)),
            (_, Some(previous)) => (0, size(&event.object) - size(previous)),
            (_, None) => (1, size(&event.object)),
        };
        if (count, bytes) == (0, 0) {
            return;
        }
        let prefix = event.object.key.folder();
        if let Some(sum) = self.0.get_mut(prefix) {
            sum.0 += count;
            sum.1 += bytes;
        } else {
            self.0.insert(prefix.to_owned(), (count, bytes));
        }
    }

    fn store(self, usage: &mut Table<'_, &'static str, (u64, u64)>) -> Result<(), redb::Error> {
        for (prefix, (count, bytes)) in self.0 {
            let before = usage.get(prefix.as_str())?.map(|sum| sum.value()).unwrap_or_default();
            let after = (before.0.saturating_add_signed(count), before.1.saturating_add_signed(bytes));
            if after.0 == 0 {
                usage.remove(prefix.as_str())?;
            } else {
                usage.insert(prefix.as_str(), after)?;
            }
        }
        Ok(())
    }
}
