//! Records from objects and back.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use ::kube::core::DynamicObject;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use windlass_api::{Job, JobAction, JobSpec, JobState, JobStatus, labels};

use crate::job::QueuedJob;
use crate::store::{Key, Record};

/// A record from a job that a watch has seen.
fn record(job: &Job) -> Record {
    let spec = serde_json::to_value(&job.spec).unwrap_or_default();
    let status = serde_json::to_value(&job.status).unwrap_or_default();
    from_parts(job.metadata.clone(), spec, status)
}

/// The job of a record, such as a claimed one. Fails when its spec is none.
pub fn job(record: &Record) -> Result<Job, serde_json::Error> {
    let metadata = ObjectMeta {
        name: Some(record.key.name.clone()),
        namespace: Some(record.key.namespace.clone()),
        uid: Some(record.uid.clone()),
        resource_version: Some(record.version.clone()),
        creation_timestamp: Some(Time(record.created)),
        labels: Some(record.labels.clone()),
        annotations: Some(record.annotations.clone()),
        ..ObjectMeta::default()
    };
    let spec: JobSpec = serde_json::from_value(record.spec.clone())?;
    let status = match &record.status {
        Value::Null => JobStatus::default(),
        status => serde_json::from_value(status.clone())?,
    };
    Ok(Job { metadata, spec, status })
}

pub(super) fn from_object(mut object: DynamicObject) -> Record {
    let mut take = |field: &str| object.data.get_mut(field).map(Value::take).unwrap_or_default();
    let (spec, status) = (take("spec"), take("status"));
    from_parts(object.metadata, spec, status)
}

fn from_parts(metadata: ObjectMeta, spec: Value, status: Value) -> Record {
    Record {
        key: key(&metadata),
        uid: metadata.uid.unwrap_or_default(),
        version: metadata.resource_version.unwrap_or_default(),
        created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        deleting: metadata.deletion_timestamp.is_some(),
        labels: metadata.labels.unwrap_or_default(),
        annotations: metadata.annotations.unwrap_or_default(),
        spec,
        status,
    }
}

pub(super) fn key(metadata: &ObjectMeta) -> Key {
    Key::new(metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

impl From<&Job> for QueuedJob {
    fn from(job: &Job) -> Self {
        (&record(job)).into()
    }
}

/// From a `Job` object's text: what is not kept is not read into memory.
impl<'de> Deserialize<'de> for QueuedJob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Object::deserialize(deserializer).map(Into::into)
    }
}

#[derive(Deserialize, Default)]
#[serde(default, bound(deserialize = "'de: 'a"))]
struct Object<'a> {
    metadata: Metadata<'a>,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct Metadata<'a> {
    namespace: String,
    name: String,
    uid: Box<str>,
    resource_version: Box<str>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<IgnoredAny>,
    labels: Option<BTreeMap<Cow<'a, str>, Box<str>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    action: JobAction,
    repository: Box<str>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    state: JobState,
}

impl From<Object<'_>> for QueuedJob {
    fn from(object: Object<'_>) -> Self {
        let Object { metadata, spec, status } = object;
        let mut labels = metadata.labels.unwrap_or_default();
        let claimed = labels.get(labels::CLAIM).is_some_and(|claim| !claim.is_empty());
        let counted = labels.get(labels::ATTEMPT).and_then(|attempt| attempt.parse().ok()).unwrap_or(0);
        let repository = match spec.repository {
            named if !named.is_empty() => named,
            _ => labels.remove(labels::REPOSITORY).unwrap_or_default(),
        };
        Self {
            key: Arc::new(Key::new(metadata.namespace, metadata.name)),
            uid: metadata.uid,
            version: metadata.resource_version,
            created: metadata.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            deleting: metadata.deletion_timestamp.is_some(),
            repository,
            action: spec.action,
            state: status.unwrap_or_default().state,
            claimed,
            owner: labels.remove(labels::CLAIM_OWNER),
            attempts: if claimed { counted.max(1) } else { counted },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(document: &Value) {
        let read: QueuedJob = serde_json::from_str(&document.to_string()).unwrap();
        let whole: DynamicObject = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(read, QueuedJob::from(&from_object(whole)));
    }

    #[test]
    fn a_claim_without_a_count_is_the_first_attempt() {
        let attempts = |labels: Value| {
            let read: QueuedJob = serde_json::from_value(json!({"metadata": {"labels": labels}})).unwrap();
            read.attempts
        };
        assert_eq!(attempts(json!({"provisioning.grafana.app/claim": "170"})), 1);
        assert_eq!(attempts(json!({"provisioning.grafana.app/claim": ""})), 0);
        assert_eq!(attempts(json!({})), 0);
    }

    #[test]
    fn what_is_kept_of_a_text_is_what_is_kept_of_the_whole_object() {
        let labels = json!({
            "provisioning.grafana.app/repository": "labelled",
            "provisioning.grafana.app/claim": "170",
            "provisioning.grafana.app/claim-owner": "me",
        });
        let metadata = json!({
            "name": "repo-sync", "namespace": "default", "uid": "u", "resourceVersion": "12", "labels": labels,
            "creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:06Z",
            "managedFields": [{"manager": "x", "fieldsV1": {"f:spec": {}}}],
        });
        let status = json!({"state": "working", "progress": 5});
        let kind = json!({"apiVersion": "provisioning.grafana.app/v0alpha1", "kind": "Job"});
        let with = |fields: Value| {
            let mut object = kind.clone();
            if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields) {
                object.extend(fields);
            }
            object
        };
        check(&with(json!({"metadata": metadata, "spec": {"action": "pull"}, "status": status})));
        check(&with(json!({"metadata": metadata, "spec": {"action": "test", "repository": "repo"}})));
        check(&with(json!({"metadata": {"name": "bare"}, "spec": {"action": "odd"}, "status": null})));
        let mut counted = metadata.clone();
        counted["labels"] = json!({"windlass.dev/attempt": "2", "a\"b": "c"});
        counted["labels"][labels::ATTEMPT] = json!("2");
        check(&with(json!({"metadata": counted, "spec": {"action": "push", "repository": "repo"}})));
    }
}
