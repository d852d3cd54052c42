//! Reading a request's body.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::{Map, Value};
use windlass_api::status;

use crate::failure::{Failure, FieldError, Result};
use crate::kinds::ServedKind;
use windlass_apimachinery::bounds::{self, MAX_BYTES};
use windlass_apimachinery::json::{self, Parsed};
use windlass_apimachinery::metadata;
use windlass_apimachinery::{protobuf, yaml};

/// How long a body may take to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(30);

pub(crate) async fn read_bytes(body: Body) -> Result<Bytes> {
    match tokio::time::timeout(ARRIVES_WITHIN, Limited::new(body, MAX_BYTES).collect()).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Failure::too_large(MAX_BYTES)),
        Ok(Err(error)) => Err(Failure::bad_request(format!("failed to read the request body: {error}"))),
        Err(_) => {
            let within = ARRIVES_WITHIN.as_secs();
            let message = format!("the request's body did not arrive within {within} seconds");
            Err(status::error(408, "Timeout", message).into())
        }
    }
}

/// A document from JSON or YAML (or a core kind from protobuf), as the content type says; JSON when it says
/// nothing.
pub(crate) fn read_document(headers: &HeaderMap, bytes: &[u8]) -> Result<Parsed> {
    read(headers, bytes)?.map_err(Failure::bad_request)
}

/// As [`read_document`], for an object of this kind: what names another kind or version is refused.
pub(crate) fn read_object(served: &ServedKind, headers: &HeaderMap, bytes: &[u8]) -> Result<Parsed> {
    let unrecognized = |problem: &str| {
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): {problem}",
            served.kind.kind
        ))
    };
    let mut parsed = read(headers, bytes)?.map_err(|problem| unrecognized(&problem))?;
    if parsed.value.is_null() && served.kind.builtin.is_some() {
        parsed.value = Value::Object(Map::new());
    }
    let not_a_type =
        |found: &Value, place: &str| unrecognized(&format!("{place} is of type {}", json::type_name(found)));
    let empty = Map::new();
    let object = match &parsed.value {
        Value::Object(object) => object,
        Value::Null => &empty,
        other => return Err(not_a_type(other, "the body")),
    };
    for field in ["apiVersion", "kind"] {
        if let Some(found) = object.get(field).filter(|found| !found.is_string() && !found.is_null()) {
            return Err(not_a_type(found, field));
        }
    }
    check_type(served, object, || unrecognized("Object 'Kind' is missing in the body of the request"))?;
    Ok(parsed)
}

const MEDIA_TYPES: &[&str] = &["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// The document, or why the bytes are not of their content type.
fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Result<Parsed, String>> {
    let kind = headers.get(header::CONTENT_TYPE).map_or(Ok(""), |value| value.to_str()).unwrap_or("?");
    let unread = || Failure::unsupported_media_type(MEDIA_TYPES);
    let parsed = match kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "" | "application/json" => json::parse(bytes)
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}")),
        "application/yaml" | "text/yaml" | "application/x-yaml" => std::str::from_utf8(bytes)
            .map_err(|_| "yaml: invalid UTF-8".to_owned())
            .and_then(|text| yaml::parse(text).map_err(|error| format!("yaml: {error}")))
            .map(|(value, twice)| {
                let problem = (!twice.is_empty()).then(|| format!("{}{}", yaml::ERRORS, twice.join("\n  ")));
                Parsed { value, problems: problem.into_iter().collect() }
            }),
        "application/vnd.kubernetes.protobuf" => {
            Ok(Parsed { value: protobuf::decode(bytes).ok_or_else(unread)?, problems: Vec::new() })
        }
        _ => return Err(unread()),
    };
    if let Ok(parsed) = &parsed {
        bounds::check_depth(&parsed.value)?;
    }
    Ok(parsed)
}

/// Whether the document is of this kind and version.
pub(crate) fn check_type(
    served: &ServedKind,
    object: &Map<String, Value>,
    without_kind: impl FnOnce() -> Failure,
) -> Result<()> {
    let (kind, version) = (&*served.kind, served.served());
    let field = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
    let (api_version, found) = (field("apiVersion"), field("kind"));
    if kind.builtin.is_some() {
        let api_version = if api_version.is_empty() { version.api_version.as_str() } else { api_version };
        let found = if found.is_empty() { kind.kind.as_str() } else { found };
        if api_version == version.api_version && found == kind.kind {
            return Ok(());
        }
        let number = api_version.rsplit('/').next().unwrap_or_default();
        return Err(Failure::bad_request(format!(
            "{found} in version {number:?} cannot be handled as a {}: no kind {found:?} is registered for version \
             {api_version:?}",
            kind.kind
        )));
    }
    if found.is_empty() {
        return Err(without_kind());
    }
    if api_version != version.api_version {
        return Err(Failure::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({})",
            version.api_version
        )));
    }
    if found != kind.kind {
        let error = FieldError::invalid("kind", &found.into(), &format!("must be {}", kind.kind));
        return Err(Failure::invalid(found, &kind.group, metadata::text(object, "name"), vec![error]));
    }
    Ok(())
}
