//! PATCH: JSON patch, merge patch, and for core kinds strategic merge patch.
//!
//! Server-side apply, which is a PATCH as well, is in [`super::apply`].

use std::borrow::Cow;

use axum::response::Response;
use http::{StatusCode, header};
use json_patch::PatchOperation;
use serde_json::{Map, Value};

use super::conform::{Conformed, conform};
use super::context::Context;
use super::render::write_whole;
use super::scale;
use super::update::{check_place, check_version};
use crate::failure::{Failure, FieldError, Result};
use crate::request::{FieldValidation, WriteQuery, check_type};
use crate::secure;
use crate::writer::Owners;
use windlass_apimachinery::bounds::{self, Allowance};
use windlass_apimachinery::json::{self, Parsed};
use windlass_apimachinery::metadata;
use windlass_apimachinery::strategic;
use windlass_store::Object;

/// At most this many operations in one JSON patch.
const MAX_OPERATIONS: usize = 10_000;

enum PatchKind {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
}

/// The media types of patches, in the order in which errors name them. Custom kinds take no strategic ones.
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(super) async fn answer(context: Context, bytes: &[u8]) -> Result<Response> {
    if media_type(&context) == APPLY && context.scale().is_none() {
        return super::apply::answer(context, bytes).await;
    }
    let query = WriteQuery::parse(&context.query, "PatchOptions")?;
    let Read { patch, twice, unknown } = read(&context, bytes)?;
    let name = context.name()?.to_owned();
    let writer = context.writer_of(&query);
    let mut tries = writer.tries(&name);
    while tries.next().await {
        let Some(current) = context.find(&name).await? else {
            return Err(Failure::not_found(context.kind(), &name));
        };
        let old = context.inner.load(context.kind(), &current)?;
        let mut document = served_document(&context, &current, &old)?;
        patch.apply(&mut document)?;
        check_kind(&context, &document, &name).map_err(|failure| {
            let problems = problems_elsewhere(&context, &document, query.field_validation);
            if query.field_validation == FieldValidation::Strict && !problems.is_empty() {
                return strict_failure(bytes, &context, &problems);
            }
            unreadable_result(failure.warned(&problems), bytes, &context)
        })?;
        let parsed = Parsed { value: document, problems: twice.clone() };
        let Conformed { mut object, mut problems, sent } =
            conform(context.spoken(), parsed, query.field_validation)
                .map_err(|failure| unreadable_result(failure, bytes, &context))?;
        if query.field_validation != FieldValidation::Ignore {
            problems.splice(0..0, unknown.iter().cloned());
        }
        if query.field_validation == FieldValidation::Strict && !problems.is_empty() {
            return Err(strict_failure(bytes, &context, &problems));
        }
        check_place(&context, &mut object, &name).map_err(|failure| failure.warned(&problems))?;
        problems.extend(metadata::dedup_owners(&mut object, true));
        // Finalizers are warned of only when the object is written.
        let refused = problems.clone();
        problems.extend(metadata::finalizer_warnings(&context.kind().metadata(), Some(&old), &object));
        let warned = |failure: Failure| failure.warned(&refused);
        let version = check_version(&context, &name, &object, current.revision).map_err(warned)?;
        secure::remove_missing(context.kind(), &old, &mut object);
        let owners = Owners::Sent(sent);
        let (new, owners) = scale::written(&context, &writer, &current, &old, object, owners)?;
        let replaced = writer.replace(&current, &old, new, owners).await;
        if let Some(written) = replaced.map_err(warned)? {
            return context.written(StatusCode::OK, &written, &problems);
        }
        // The version was the current one; whether the patch itself named it is what decides.
        if version.is_some() && patch.names_version() {
            break;
        }
    }
    Err(Failure::modified(context.kind(), &name))
}

/// A patch does not turn an object into one of another kind or version.
fn check_kind(context: &Context, document: &Value, name: &str) -> Result<()> {
    let Value::Object(object) = document else { return Ok(()) };
    let (kind, version) = (&context.spoken().kind, context.spoken().served());
    if kind.builtin.is_some() {
        return check_type(context.spoken(), object, Failure::unknown_path);
    }
    let mut errors = Vec::new();
    for (field, expected) in [("kind", &kind.kind), ("apiVersion", &version.api_version)] {
        if document[field] != expected.as_str() {
            let found = document[field].as_str().unwrap_or_default();
            errors.push(FieldError::invalid(field, &found.into(), &format!("must be {expected}")));
        }
    }
    Failure::refuse(document["kind"].as_str().unwrap_or_default(), &kind.group, name, errors)
}

/// The media type of the body, without parameters.
fn media_type(context: &Context) -> &str {
    let value = context.parts.headers.get(header::CONTENT_TYPE);
    let text = value.map_or(Ok(""), |value| value.to_str()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

/// The object as a client would read it: the document that patches are about.
fn served_document(context: &Context, current: &Object, old: &Map<String, Value>) -> Result<Value> {
    let plain = match context.scale() {
        Some(paths) => Cow::Owned(scale::encode(paths, old)),
        None => context.inner.plain(context.kind(), &current.value)?,
    };
    let mut bytes = Vec::with_capacity(plain.len() + 64);
    write_whole(context.spoken(), &plain, current.revision, &mut bytes);
    Ok(serde_json::from_slice(&bytes)?)
}

/// A patch, and what is to be said of its text.
struct Read {
    patch: PatchKind,
    /// What is to be said of fields that stand there twice.
    twice: Vec<String>,
    /// What is wrong with the operations of a JSON patch but does not keep them from being applied.
    unknown: Vec<String>,
}

fn read(context: &Context, bytes: &[u8]) -> Result<Read> {
    let core = context.kind().builtin.is_some();
    let document = |bytes: &[u8]| -> Result<Parsed> {
        let parsed = json::parse(bytes).map_err(|error| undecodable(&error.to_string()))?;
        bounds::check_depth(&parsed.value)?;
        match &parsed.value {
            Value::Object(_) => Ok(parsed),
            Value::Null => Err(Failure::bad_request("Invalid JSON Patch")),
            other => Err(not_of_type(other, "an object")),
        }
    };
    match media_type(context) {
        JSON => {
            let (patch, unknown) = operations(bytes)?;
            if patch.0.len() > MAX_OPERATIONS {
                return Err(Failure::too_large(MAX_OPERATIONS));
            }
            Ok(Read { patch: PatchKind::Json(patch), twice: Vec::new(), unknown })
        }
        kind if kind == MERGE || kind == STRATEGIC && core => {
            let Parsed { value, problems: twice } = document(bytes)?;
            let patch = if kind == MERGE { PatchKind::Merge(value) } else { PatchKind::Strategic(value) };
            Ok(Read { patch, twice, unknown: Vec::new() })
        }
        _ if core => Err(Failure::unsupported_media_type(&[JSON, MERGE, STRATEGIC, APPLY])),
        _ => Err(Failure::unsupported_media_type(&[JSON, MERGE, APPLY])),
    }
}

fn undecodable(problem: &str) -> Failure {
    Failure::bad_request(format!("error decoding patch: {problem}"))
}

fn not_of_type(found: &Value, expected: &str) -> Failure {
    undecodable(&format!("it must be {expected}, not {}", json::type_name(found)))
}

/// The operations of a JSON patch. One that is not of its form is as one that cannot be applied.
fn operations(bytes: &[u8]) -> Result<(json_patch::Patch, Vec<String>)> {
    const FIELDS: [&str; 4] = ["op", "path", "from", "value"];
    let value: Value = serde_json::from_slice(bytes).map_err(|error| undecodable(&error.to_string()))?;
    let items = match value {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => return Err(not_of_type(&other, "a list of operations")),
    };
    let mut unknown = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let names = item.as_object().into_iter().flat_map(Map::keys);
        let strange = names.filter(|name| !FIELDS.contains(&name.as_str()));
        unknown.extend(strange.map(|name| format!("json patch unknown field \"[{index}].{name}\"")));
    }
    let operations = items.into_iter().map(|item| match item {
        Value::Object(_) | Value::Null => {
            serde_json::from_value(item).map_err(|_| Failure::patch_not_applicable())
        }
        other => Err(not_of_type(&other, "an operation")),
    });
    Ok((json_patch::Patch(operations.collect::<Result<_>>()?), unknown))
}

impl PatchKind {
    fn apply(&self, document: &mut Value) -> Result<()> {
        match self {
            Self::Json(patch) => apply_operations(document, patch)?,
            Self::Merge(patch) => json_patch::merge(document, patch),
            Self::Strategic(patch) => strategic::merge(document, patch).map_err(Failure::bad_request)?,
        }
        Ok(bounds::check_depth(document)?)
    }

    /// Whether the patch says which version it is for.
    fn names_version(&self) -> bool {
        match self {
            Self::Json(patch) => patch.0.iter().any(|operation| {
                let target = operation.path().as_str();
                matches!(target, "" | "/metadata" | "/metadata/resourceVersion")
            }),
            Self::Merge(patch) | Self::Strategic(patch) => {
                patch.get("metadata").is_some_and(|metadata| metadata.get("resourceVersion").is_some())
            }
        }
    }
}

/// Applies a JSON patch, within bounds: a few copies can make any document grow, and deepen, without end.
///
/// A document that a patch fails on is dropped, so that nothing needs to be undone (which panics in `json_patch` after
/// some moves).
fn apply_operations(document: &mut Value, patch: &json_patch::Patch) -> Result<()> {
    let mut allowance = Allowance::default();
    for operation in &patch.0 {
        allowance.take(document, operation)?;
        // What is not there is as good as null.
        if let PatchOperation::Test(test) = operation
            && test.value.is_null()
            && document.pointer(test.path.as_str()).is_none()
            && test.path.parent().is_some_and(|parent| document.pointer(parent.as_str()).is_some())
        {
            continue;
        }
        // A key that is not there is replaced all the same.
        if let PatchOperation::Replace(replace) = operation
            && let Some((parent, key)) = replace.path.split_back()
            && let Some(Value::Object(object)) = document.pointer_mut(parent.as_str())
        {
            object.insert(key.decoded().into_owned(), replace.value.clone());
            continue;
        }
        json_patch::patch_unsafe(document, std::slice::from_ref(operation))
            .map_err(|_| Failure::patch_not_applicable())?;
    }
    Ok(())
}

/// What strict decoding finds in an object that a patch has made one of another version: fields that it does not know.
fn problems_elsewhere(context: &Context, document: &Value, validation: FieldValidation) -> Vec<String> {
    let kind = context.kind();
    let (Value::Object(object), None) = (document, kind.builtin) else { return Vec::new() };
    let api_version = document["apiVersion"].as_str().unwrap_or_default();
    if validation == FieldValidation::Ignore || document["kind"] != kind.kind.as_str() {
        return Vec::new();
    }
    let Some(version) = kind.versions.iter().find(|version| version.api_version == api_version) else {
        return Vec::new();
    };
    let mut unknown = Vec::new();
    version.schema.prune(&mut object.clone(), &mut unknown);
    unknown.sort();
    unknown.into_iter().map(|field| format!("unknown field {field:?}")).collect()
}

fn strict_failure(patch: &[u8], context: &Context, problems: &[String]) -> Failure {
    bad_result(patch, context, &format!("strict decoding error: {}", problems.join(", ")))
}

/// A result of a patch that is no object of its kind is the patch's fault.
fn unreadable_result(failure: Failure, patch: &[u8], context: &Context) -> Failure {
    let Some(problem) = failure.decoding_problem() else { return failure };
    bad_result(patch, context, problem)
}

/// Quotes the patch, where a real server quotes all of the object; of kinds that may hold secrets, nothing.
fn bad_result(patch: &[u8], context: &Context, detail: &str) -> Failure {
    let shown =
        if context.kind().may_hold_secrets() { "[redacted]".into() } else { String::from_utf8_lossy(patch) };
    let error = FieldError::invalid("patch", &shown.into(), detail);
    Failure::invalid("", "", "", vec![error])
}
