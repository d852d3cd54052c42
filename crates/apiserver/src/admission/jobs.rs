//! Admission of jobs and historic jobs.

use serde_json::Value;
use windlass_api::{FieldError, GROUP, JobSpec, Repository, annotations, jobs, patch};
use windlass_auth::{Caller, Namespaces};

use super::Object;
use crate::failure::{Failure, Result};
use crate::kinds::Kind;
use crate::verbs::Context;
use windlass_apimachinery::metadata;
use windlass_store::Key;

/// Infers a missing action from the options and settles who the job's author is.
pub(super) fn admit(kind: &Kind, caller: &Caller, old: Option<&Object>, new: &mut Object) -> Result<()> {
    if old.is_none() {
        infer_action(kind, new)?;
    }
    settle_author(caller, old, new);
    Ok(())
}

fn infer_action(kind: &Kind, new: &mut Object) -> Result<()> {
    // What is no JobSpec is refused by the schema.
    let Ok(mut spec) = spec_of(new) else { return Ok(()) };
    let before = serde_json::to_value(&spec).unwrap_or_default();
    jobs::normalise(&mut spec).map_err(|error| {
        Failure::invalid(&kind.kind, &kind.group, metadata::text(new, "name"), vec![error.into()])
    })?;
    let after = serde_json::to_value(&spec).unwrap_or_default();
    if let (Some(change), Some(spec)) = (patch::merge_diff(&before, &after), new.get_mut("spec")) {
        json_patch::merge(spec, &change);
    }
    Ok(())
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
        let metadata = metadata::of(new);
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
pub(super) async fn validate(
    context: &Context,
    old: Option<&Object>,
    new: &Object,
) -> Result<Vec<FieldError>> {
    let spec = read(new)?;
    let mut errors = jobs::offered(&spec, &context.inner.rules.jobs);
    if old.is_none()
        && let Some(repository) = repository(context, new, &spec.repository).await?
    {
        errors.extend(jobs::refused_by(&spec, &repository));
    }
    Ok(errors)
}

async fn repository(context: &Context, job: &Object, name: &str) -> Result<Option<Repository>> {
    let namespace = metadata::text(job, "namespace");
    let Ok(key) = Key::new(GROUP, "repositories", namespace, name) else { return Ok(None) };
    let Some(found) = context.inner.store.get(&key).await? else { return Ok(None) };
    serde_json::from_slice(&found.value).map(Some).map_err(|error| Failure::internal(&error))
}

fn read(object: &Object) -> Result<JobSpec> {
    spec_of(object).map_err(|error| Failure::bad_request(format!("spec: {error}")))
}

fn spec_of(object: &Object) -> Result<JobSpec, serde_json::Error> {
    use serde::Deserialize as _;
    match object.get("spec") {
        Some(spec) => JobSpec::deserialize(spec),
        None => serde_json::from_str("{}"),
    }
}
