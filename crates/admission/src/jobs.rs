//! Admission of jobs and historic jobs.

use serde_json::Value;
use windlass_api::jobs::JobRules;
use windlass_api::{FieldError, GROUP, JobSpec, Repository, annotations, jobs, patch};
use windlass_apiserver::AdmissionError;
use windlass_apiserver::store::{Key, Store};
use windlass_auth::{Caller, Namespaces};

use crate::object::{Object, metadata_text};

/// Infers a missing action from the options and settles who the job's author is.
pub(crate) fn fill_in(caller: &Caller, old: Option<&Object>, new: &mut Object) -> Vec<FieldError> {
    let refused = if old.is_none() { infer_action(new) } else { None };
    settle_author(caller, old, new);
    refused.into_iter().collect()
}

fn infer_action(new: &mut Object) -> Option<FieldError> {
    // What is no JobSpec is refused by the schema.
    let mut spec = spec_of(new).ok()?;
    let before = serde_json::to_value(&spec).unwrap_or_default();
    if let Err(error) = jobs::normalise(&mut spec) {
        return Some(error);
    }
    let after = serde_json::to_value(&spec).unwrap_or_default();
    if let (Some(change), Some(spec)) = (patch::merge_diff(&before, &after), new.get_mut("spec")) {
        json_patch::merge(spec, &change);
    }
    None
}

/// The author of a job is whose name its commits carry: only services, which open every namespace, may say who
/// that is, and nobody may change it.
fn settle_author(caller: &Caller, old: Option<&Object>, new: &mut Object) {
    let trusted = caller.namespaces == Namespaces::All;
    for name in annotations::AUTHORS {
        let settled = match old {
            Some(old) => {
                old.get("metadata").and_then(|metadata| metadata.get("annotations")?.get(name)).cloned()
            }
            None if trusted => continue,
            None => None,
        };
        let Some(Value::Object(metadata)) = new.get_mut("metadata") else { return };
        match settled {
            Some(value) => {
                let annotations =
                    metadata.entry("annotations").or_insert_with(|| Value::Object(Object::new()));
                if let Value::Object(annotations) = annotations {
                    annotations.insert(name.to_owned(), value);
                }
            }
            None => {
                if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
                    annotations.remove(name);
                    if annotations.is_empty() {
                        metadata.remove("annotations");
                    }
                }
            }
        }
    }
}

/// Judges a job by itself, and a new one beside its repository, as `POST …/jobs` does. One whose repository is not there is
/// let through: both may come in one file.
pub(crate) async fn judge(
    rules: &JobRules,
    old: Option<&Object>,
    new: &Object,
    store: &dyn Store,
) -> Result<Vec<FieldError>, AdmissionError> {
    let spec = spec_of(new).map_err(|error| AdmissionError::Unreadable(format!("spec: {error}")))?;
    let mut errors = jobs::offered(&spec, rules);
    if old.is_none()
        && !spec.action.only_reads()
        && let Some(repository) = repository(store, new, &spec.repository).await?
    {
        errors.extend(jobs::refused_by(&spec, &repository));
    }
    Ok(errors)
}

async fn repository(
    store: &dyn Store,
    job: &Object,
    name: &str,
) -> Result<Option<Repository>, AdmissionError> {
    let namespace = metadata_text(job, "namespace");
    let Ok(key) = Key::new(GROUP, "repositories", namespace, name) else { return Ok(None) };
    let Some(found) = store.get(&key).await? else { return Ok(None) };
    serde_json::from_slice(&found.value).map(Some).map_err(AdmissionError::Parse)
}

fn spec_of(object: &Object) -> Result<JobSpec, serde_json::Error> {
    use serde::Deserialize as _;
    match object.get("spec") {
        Some(spec) => JobSpec::deserialize(spec),
        None => serde_json::from_str("{}"),
    }
}
