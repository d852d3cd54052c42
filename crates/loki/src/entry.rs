//! A job's record as a line of a stream, and back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_api::{GROUP, HistoricJob, JobSpec, JobStatus, VERSION, labels};
use windlass_lease_queue::NewRecord;

/// The longest line that is sent: Loki's `max_line_size` is 256 KB unless it is told otherwise.
const LONGEST_LINE: usize = 250_000;
/// Nanoseconds of a millisecond.
pub(crate) const MILLISECOND: i64 = 1_000_000;

/// One record: the stream it belongs to, its time and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The tenant of the job.
    pub namespace: String,
    /// The repository that the job was for.
    pub repository: String,
    /// When the job ended, in nanoseconds since 1970.
    pub time: i64,
    /// The whole job, in JSON.
    pub line: String,
}

impl Entry {
    /// The line of a record. The same record makes the same entry, which Loki keeps once. What would make the line longer
    /// than Loki takes is left out: first what became of each file, then everything but how the job ended.
    pub fn of(record: &NewRecord, now: Timestamp) -> Self {
        let status = &record.status;
        let milliseconds = |field: &str| status[field].as_i64().filter(|time| *time > 0);
        let ended = milliseconds("finished").or_else(|| milliseconds("started"));
        let ended = ended.unwrap_or_else(|| now.as_millisecond());
        let repository = record.spec["repository"].as_str();
        let repository = repository.or_else(|| record.labels.get(labels::REPOSITORY).map(String::as_str));
        Self {
            namespace: record.key.namespace.clone(),
            repository: repository.unwrap_or_default().to_owned(),
            time: ended.saturating_mul(MILLISECOND),
            line: line(record, ended),
        }
    }

    /// The labels of the stream.
    pub(crate) fn stream(&self) -> BTreeMap<&'static str, &str> {
        BTreeMap::from([
            ("source", "grafana-provisioning"),
            ("service_name", "grafana-provisioning"),
            ("from", "job-history"),
            ("namespace", &*self.namespace),
            ("repository", &*self.repository),
        ])
    }

    /// What it takes in memory and on the wire, about.
    pub(crate) fn bytes(&self) -> usize {
        self.line.len() + self.namespace.len() + self.repository.len()
    }
}

fn line(record: &NewRecord, ended: i64) -> String {
    let created = Timestamp::from_millisecond(ended).unwrap_or(Timestamp::UNIX_EPOCH);
    let mut document = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Job",
        "metadata": {
            "name": record.key.name,
            "namespace": record.key.namespace,
            "uid": record.labels.get(labels::ORIGINAL_UID),
            "creationTimestamp": created.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "labels": record.labels,
            "annotations": record.annotations,
        },
        "spec": record.spec,
        "status": record.status,
    });
    let whole = document.to_string();
    if whole.len() <= LONGEST_LINE {
        return whole;
    }
    let files = document["status"]["files"].as_array().map_or(0, Vec::len);
    if let Some(status) = document["status"].as_object_mut() {
        status.remove("files");
        let omitted = status.get("filesOmitted").and_then(Value::as_u64).unwrap_or(0) + files as u64;
        status.insert("filesOmitted".to_owned(), omitted.into());
    }
    let shorter = document.to_string();
    if shorter.len() <= LONGEST_LINE {
        return shorter;
    }
    if let Some(status) = document["status"].as_object_mut() {
        status.retain(|field, _| matches!(field.as_str(), "state" | "started" | "finished" | "message"));
    }
    document["spec"] = json!({"action": record.spec["action"], "repository": record.spec["repository"]});
    document["metadata"]["annotations"] = json!({});
    document.to_string()
}

/// A line as anybody may have written it: Grafana's have the job's own name and uid.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    metadata: ObjectMeta,
    spec: JobSpec,
    #[serde(default)]
    status: JobStatus,
}

/// The record that a line says; nothing for what is none.
pub(crate) fn parse(line: &str) -> Option<HistoricJob> {
    let Line { mut metadata, spec, status } = serde_json::from_str(line).ok()?;
    if let Some(uid) = metadata.uid.clone() {
        metadata.labels.get_or_insert_default().entry(labels::ORIGINAL_UID.to_owned()).or_insert(uid);
    }
    Some(HistoricJob { metadata, spec, status })
}

/// The uid of the job that a record is of.
pub(crate) fn job_uid(job: &HistoricJob) -> Option<&str> {
    job.metadata.labels.as_ref()?.get(labels::ORIGINAL_UID).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use windlass_lease_queue::Key;

    use super::*;

    fn record(status: Value) -> NewRecord {
        NewRecord {
            key: Key::new("default", "repo-sync-u1"),
            labels: BTreeMap::from([(labels::ORIGINAL_UID.to_owned(), "u1".to_owned())]),
            annotations: BTreeMap::new(),
            spec: json!({"action": "pull", "repository": "repo", "pull": {"incremental": true}}),
            status,
        }
    }

    #[test]
    fn a_line_is_the_whole_job_at_the_time_of_its_end() {
        let entry = Entry::of(
            &record(json!({"state": "success", "started": 1, "finished": 1_700_000_000_123_i64})),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(entry.time, 1_700_000_000_123_000_000);
        let job = parse(&entry.line).unwrap();
        assert_eq!(job_uid(&job), Some("u1"));
        assert_eq!((&*job.spec.repository, job.status.finished), ("repo", 1_700_000_000_123));
    }

    #[test]
    fn what_makes_a_line_too_long_is_left_out_and_counted() {
        let files: Vec<Value> = (0..3000)
            .map(|n| json!({"path": format!("{n:0100}.json"), "reason": "Error", "message": "no"}))
            .collect();
        let status = json!({"state": "warning", "finished": 5, "message": "m", "files": files});
        let entry = Entry::of(&record(status), Timestamp::UNIX_EPOCH);
        assert!(entry.line.len() <= LONGEST_LINE, "{}", entry.line.len());
        let job = parse(&entry.line).unwrap();
        assert_eq!((job.status.files.len(), job.status.files_omitted, &*job.status.message), (0, 3000, "m"));
        let status = json!({"state": "error", "finished": 5, "errors": ["x".repeat(LONGEST_LINE)]});
        let entry = Entry::of(&record(status), Timestamp::UNIX_EPOCH);
        assert!(entry.line.len() <= LONGEST_LINE && parse(&entry.line).unwrap().status.errors.is_empty());
    }

    #[test]
    fn a_line_of_grafanas_is_read_and_another_is_not() {
        let job = parse(
            r#"{"metadata":{"name":"repo-sync","uid":"u2"},"spec":{"action":"pull","repository":"repo"},"status":{"state":"success"}}"#,
        );
        assert_eq!(job_uid(&job.unwrap()), Some("u2"));
        assert_eq!(parse("level=info msg=hello"), None);
    }
}
