//! The end of a job: into history, then out of the queue.
//!
//! The record's name in history is made of the job's name and uid, so that it can be written once only: whoever comes
//! second is told that it exists, and knows that the job has ended. That, and not timing, is why each job ends in history
//! exactly once.

use std::collections::BTreeMap;

use serde_json::Value;
use tracing::warn;
use windlass_api::{annotations, labels};

use crate::store::{Key, NewRecord, Record, Store, StoreError};

/// The longest name that a Kubernetes API server takes.
const LONGEST_NAME: usize = 253;
/// About what a record's metadata takes.
const METADATA_BYTES: usize = 1024;
/// How often the job is read again when its removal meets newer versions.
const TRIES: usize = 3;

/// Name of a job's record in history: `{job}-{uid}`. The job's part is cut where the whole would be too long for an API
/// server; the uid alone makes it unique.
pub fn history_name(job: &str, uid: &str) -> String {
    let room = LONGEST_NAME.saturating_sub(uid.len() + 1);
    let mut end = job.len().min(room);
    while !job.is_char_boundary(end) {
        end -= 1;
    }
    let job = job[..end].trim_end_matches(['-', '.']);
    if job.is_empty() { uid.to_owned() } else { format!("{job}-{uid}") }
}

pub(crate) fn history_key(job: &Record) -> Key {
    Key::new(job.key.namespace.clone(), history_name(&job.key.name, &job.uid))
}

/// How a job ends, as its record in history says.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    /// The whole status.
    pub(crate) status: Value,
    /// What is said beside the job's own annotations.
    pub(crate) annotations: BTreeMap<String, String>,
}

impl From<Value> for Ending {
    fn from(status: Value) -> Self {
        Self { status, annotations: BTreeMap::new() }
    }
}

/// Files `job`. That it is there already is as good.
pub(crate) async fn file(store: &dyn Store, job: &Record, ending: Ending) -> Result<(), StoreError> {
    let mut labels = job.labels.clone();
    labels.remove(labels::CLAIM);
    labels.remove(labels::CLAIM_OWNER);
    labels.insert(labels::REPOSITORY.to_owned(), job.repository().to_owned());
    labels.insert(labels::ORIGINAL_UID.to_owned(), job.uid.clone());
    let mut notes = job.annotations.clone();
    notes.extend(ending.annotations);
    let bytes = size(&job.spec) + size(&ending.status) + METADATA_BYTES;
    notes.insert(annotations::BYTES.to_owned(), bytes.to_string());
    let record = NewRecord {
        key: history_key(job),
        labels,
        annotations: notes,
        spec: job.spec.clone(),
        status: ending.status,
    };
    let refused = match create(store, record.clone()).await {
        Err(StoreError::Refused(reason)) => {
            warn!(job = %job.key, reason, "history refused the job; filing it without its details");
            match create(store, without_details(record)).await {
                Err(StoreError::Refused(reason)) => reason,
                other => return other,
            }
        }
        // The name is ours to choose: it is the collection that is not there.
        Err(StoreError::NotFound) => "it is not kept by this server".to_owned(),
        other => return other,
    };
    // A job that history will never take must still leave the queue, or it would run for ever. Grafana: driver.go.
    warn!(job = %job.key, uid = %job.uid, reason = refused, "the job ends without a record in history");
    Ok(())
}

/// The length of a document in JSON.
fn size(document: &Value) -> usize {
    serde_json::to_vec(document).map_or(0, |json| json.len())
}

async fn create(store: &dyn Store, record: NewRecord) -> Result<(), StoreError> {
    match store.history_create(record).await {
        Err(StoreError::AlreadyExists) => Ok(()),
        other => other,
    }
}

/// What can make a record too large, or differ between versions of the API, left out.
fn without_details(mut record: NewRecord) -> NewRecord {
    if let Some(status) = record.status.as_object_mut() {
        status.retain(|field, _| matches!(field.as_str(), "state" | "started" | "finished" | "message"));
        if let Some(Value::String(message)) = status.get_mut("message") {
            *message = crate::progress::cut(message);
        }
    }
    let ours = ["provisioning.grafana.app/", "windlass.dev/"];
    record.annotations.retain(|name, _| ours.iter().any(|prefix| name.starts_with(prefix)));
    record
}

/// Takes `job` out of the queue if it still belongs to `owner`; if not, it is for others to do.
pub(crate) async fn remove(store: &dyn Store, job: &mut Record, owner: &str) -> Result<(), StoreError> {
    for _ in 0..TRIES {
        match store.delete(&job.key, &job.precondition()).await {
            Ok(()) | Err(StoreError::NotFound) => return Ok(()),
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error),
        }
        match store.get(&job.key).await {
            Ok(newest) if newest.uid == job.uid && newest.owner() == Some(owner) => *job = newest,
            Ok(_) | Err(StoreError::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Conflict)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "6f1c2f5e-9a52-4f0e-a8ad-1d1f8e0c9b11";

    #[test]
    fn a_history_name_is_the_jobs_name_and_uid() {
        assert_eq!(history_name("repo-sync", UID), format!("repo-sync-{UID}"));
    }

    #[test]
    fn a_history_name_too_long_for_the_server_keeps_the_whole_uid() {
        let job = format!("{}-.{}", "r".repeat(214), "x".repeat(60));
        let name = history_name(&job, UID);
        assert_eq!(name, format!("{}-{UID}", "r".repeat(214)), "cut before the separators");
        assert!(name.len() <= LONGEST_NAME);
        let longest = history_name(&"r".repeat(253), UID);
        assert_eq!(longest.len(), LONGEST_NAME);
        assert!(longest.ends_with(UID));
    }
}
