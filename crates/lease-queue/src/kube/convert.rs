//! Records from objects and back.

use ::kube::core::DynamicObject;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::Value;
use windlass_api::{Job, JobSpec, JobStatus};

use crate::queue::Event;
use crate::store::{Key, Record};

/// A record from a job that a watch has seen.
pub fn record(job: &Job) -> Record {
    let spec = serde_json::to_value(&job.spec).unwrap_or_default();
    let status = serde_json::to_value(&job.status).unwrap_or_default();
    from_parts(job.metadata.clone(), spec, status)
}

/// The event that a job was created or written, for [`crate::Queue::observe`].
pub fn event_applied(job: &Job) -> Event {
    Event::Applied(record(job))
}

/// The event that a job is gone, for [`crate::Queue::observe`].
pub fn event_deleted(job: &Job) -> Event {
    Event::Deleted { key: key(&job.metadata), uid: job.metadata.uid.clone().unwrap_or_default() }
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
