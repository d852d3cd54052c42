//! Answers about single files.

use axum::response::Response;
use http::header::ETAG;
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use windlass_api::{ResourceAction, ResourceObjects, ResourceType, ResourceWrapper, status};
use windlass_resources::FOLDER;
use windlass_resources::parse::ParsedResource;

use super::change::Change;
use super::place::Place;
use super::trial::Trial;
use crate::answer::Refusal;
use crate::request::Target;

/// A wrapper around the file at `path`, without its object.
pub(super) fn around(place: &Place, path: &str, reference: &str, hash: String) -> ResourceWrapper {
    ResourceWrapper {
        path: path.to_owned(),
        reference: reference.to_owned(),
        hash,
        repository: place.info(),
        urls: place.urls(reference, path),
        ..ResourceWrapper::default()
    }
}

/// What is known of a file's objects. Of several, each member holds `documents`, one for each in the file's order, and the
/// kind is given if it is that of all.
pub(super) fn objects(trial: Trial, action: Option<ResourceAction>) -> ResourceObjects {
    let kinds: Vec<ResourceType> = trial.objects.iter().map(|tried| type_of(&tried.resource)).collect();
    let kind = kinds.first().filter(|first| kinds.iter().all(|kind| kind == *first));
    let (mut file, mut existing, mut dry_run) = (Vec::new(), Vec::new(), Vec::new());
    for tried in trial.objects {
        file.push(Some(tried.document));
        existing.push(tried.existing);
        dry_run.push(tried.dry_run);
    }
    ResourceObjects {
        kind: kind.cloned().unwrap_or_default(),
        file: together(file),
        existing: together(existing),
        action,
        dry_run: together(dry_run),
        upsert: None,
    }
}

/// What is known of each object, as one value; nothing if nothing is known of any.
fn together(mut values: Vec<Option<Value>>) -> Option<Value> {
    match values.len() {
        0 | 1 => values.pop().flatten(),
        _ if values.iter().all(Option::is_none) => None,
        _ => Some(json!({ "documents": values })),
    }
}

/// What is known of a folder.
pub(super) fn folder(change: &Change) -> ResourceObjects {
    ResourceObjects {
        kind: ResourceType {
            group: FOLDER.group.to_string(),
            version: FOLDER.version.to_string(),
            kind: FOLDER.kind.to_string(),
            resource: FOLDER.resource.to_string(),
            classic: String::new(),
        },
        action: Some(change.action),
        ..ResourceObjects::default()
    }
}

fn type_of(resource: &ParsedResource) -> ResourceType {
    ResourceType {
        group: resource.kind.group.to_string(),
        version: resource.version.clone(),
        kind: resource.kind.kind.to_string(),
        resource: resource.kind.resource.to_string(),
        classic: String::new(),
    }
}

/// The answer: 206 where something is wrong.
pub(super) fn answer(target: &Target, wrapper: &ResourceWrapper) -> Response {
    let code = if wrapper.errors.is_empty() { 200 } else { 206 };
    let mut response = target.typed(code, "ResourceWrapper", wrapper);
    tag(&mut response, &wrapper.hash);
    response
}

/// Says which content an answer is about, for `If-Match`.
pub(super) fn tag(response: &mut Response, hash: &str) {
    if let Ok(value) = HeaderValue::from_str(&format!("\"{hash}\""))
        && !hash.is_empty()
    {
        response.headers_mut().insert(ETAG, value);
    }
}

/// The hash that the caller's file has to have (`If-Match`).
pub(super) fn expected(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(http::header::IF_MATCH) else { return Ok(None) };
    let text = value.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Ok(None);
    }
    let hash = text.trim_start_matches("W/").trim_matches('"');
    if hash.len() == 40 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(Some(hash.to_ascii_lowercase()));
    }
    Err(status::bad_request("If-Match is the hash of one file, as ETag has it").into())
}

/// The objects as the API has them after a write; nothing of what is not there, or cannot be read now.
pub(super) async fn upserted(
    preview: &windlass_resources::Preview,
    resources: &[ParsedResource],
) -> Option<Value> {
    let mut found = Vec::with_capacity(resources.len());
    for resource in resources {
        let existing = preview.existing(&resource.kind, &resource.version, &resource.name).await;
        found.push(existing.ok().flatten());
    }
    together(found)
}
