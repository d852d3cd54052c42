//! Failed requests: every one is answered by a `metav1.Status` of kube-apiserver's code, reason and fields. What `kubectl`
//! shows of everyday mistakes is worded as it words it.

use std::collections::HashSet;

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause};
use serde_json::Value;
use windlass_api::{status, yaml};
use windlass_telemetry::ErrorChain;

use crate::kinds::Kind;
use crate::seal::SealError;
use windlass_apimachinery::bounds::{MAX_BYTES, OutOfBounds};
pub(crate) use windlass_apimachinery::field_error::FieldError;
use windlass_apimachinery::yaml::ERRORS as YAML_ERRORS;
use windlass_store::StoreError;

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// A request that failed, and what it is warned of beside. Boxed: the happy path should not carry its size around.
#[derive(Debug, Clone)]
pub(crate) struct Failure(Box<Status>, Vec<String>);

/// How many things that are wrong with an object are told.
const MAX_ERRORS: usize = 500;
/// How many characters of warnings are told, and of each once they are too many; as on a real server.
const MAX_WARNINGS: usize = 4 << 10;
const MAX_WARNING: usize = 256;

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self(Box::new(status), Vec::new())
    }
}

impl From<OutOfBounds> for Failure {
    fn from(error: OutOfBounds) -> Self {
        match error {
            OutOfBounds::TooDeep => Self::bad_request(error.to_string()),
            OutOfBounds::TooLarge => Self::too_large(MAX_BYTES),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Expired { requested, current } => {
                Self::expired(format!("too old resource version: {requested} ({current})"))
            }
            StoreError::InvalidKey { .. } => Self::bad_request(error.to_string()),
            StoreError::Closed => status::service_unavailable("the API server is shutting down", 1).into(),
            other => Self::internal(&other),
        }
    }
}

impl From<SealError> for Failure {
    fn from(error: SealError) -> Self {
        Self::internal(&error)
    }
}

/// Of what is stored: what is sent is read elsewhere.
impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(&error)
    }
}

impl Failure {
    /// With details, which say nothing.
    fn detailed(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let mut failure = Self::from(status::error(code, reason, message));
        failure.0.details.get_or_insert_default();
        failure
    }

    fn worded(mut self, message: String) -> Self {
        self.0.message = Some(message);
        self
    }

    fn caused(mut self, causes: impl IntoIterator<Item = FieldError>) -> Self {
        let text = |text: String| (!text.is_empty()).then_some(text);
        let causes = causes.into_iter().map(|FieldError { field, reason, body }| StatusCause {
            reason: text(reason),
            message: text(body),
            field: text(field),
        });
        self.0.details.get_or_insert_default().causes = Some(causes.collect());
        self
    }

    fn again_after_a_second(mut self) -> Self {
        self.0.details.get_or_insert_default().retry_after_seconds = Some(1);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        status::bad_request(message).into()
    }

    /// The request took too long.
    pub(crate) fn deadline_passed() -> Self {
        status::timeout("Timeout: request did not complete within the allotted timeout").into()
    }

    /// An error that a real server does not classify either.
    pub(crate) fn unclassified(message: String) -> Self {
        let mut status = status::error(500, "", message);
        status.reason = None;
        status.into()
    }

    /// Fields of an applied object belong to others: the path of each and with whom it is in conflict.
    pub(crate) fn apply_conflict(message: String, causes: impl Iterator<Item = (String, String)>) -> Self {
        let reason = || "FieldManagerConflict".to_owned();
        Self::from(status::error(409, "Conflict", message)).caused(causes.map(|(field, body)| FieldError {
            field,
            reason: reason(),
            body,
        }))
    }

    /// The path names nothing that is served.
    pub(crate) fn unknown_path() -> Self {
        Self::detailed(404, "NotFound", "the server could not find the requested resource")
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        status::not_found(&kind.group, &kind.plural, name).into()
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        status::already_exists(&kind.group, &kind.plural, name).into()
    }

    /// As [`Self::already_exists`], when the object that is in the way is being deleted.
    pub(crate) fn being_deleted(self) -> Self {
        let message = format!("object is being deleted: {}", self.message());
        self.worded(message)
    }

    /// What a result of a patch could not be read for, if this is such an error.
    pub(crate) fn decoding_problem(&self) -> Option<&str> {
        let (_, problem) = self.message().split_once(" cannot be handled as a ")?;
        Some(problem.split_once(": ").filter(|_| self.0.code == Some(400))?.1)
    }

    pub(crate) fn name_not_generated(kind: &Kind, name: &str) -> Self {
        let failure = Self::already_exists(kind, name);
        let why = "the server was not able to generate a unique name for the object";
        let message = format!("{}, {why}", failure.message());
        failure.worded(message).again_after_a_second()
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        status::conflict(&kind.group, &kind.plural, name, why).into()
    }

    /// A write that carried a resourceVersion which is no longer the latest.
    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let failure = Self::from(status::forbidden(&kind.group, &kind.plural, name, why));
        if name.is_empty() {
            return failure.worded(format!("{} is forbidden: {why}", kind.qualified()));
        }
        failure
    }

    /// Nothing new is created in a namespace that is being deleted.
    pub(crate) fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        Self::forbidden(kind, name, &why).caused([FieldError {
            field: "metadata.namespace".to_owned(),
            reason: "NamespaceTerminating".to_owned(),
            body: format!("namespace {namespace} is being terminated"),
        }])
    }

    /// A path that is no object's, for those only who may do everything.
    pub(crate) fn forbidden_path(path: &str, caller: &str) -> Self {
        let message =
            format!("forbidden: User {caller:?} cannot get path {path:?}: it is for administrators");
        Self::detailed(403, "Forbidden", message)
    }

    pub(crate) fn unauthorized() -> Self {
        status::unauthorized("Unauthorized").into()
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::detailed(405, "MethodNotAllowed", message)
    }

    /// No form that the answer can have is accepted.
    pub(crate) fn not_acceptable() -> Self {
        status::not_acceptable("application/json, application/yaml").into()
    }

    pub(crate) fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        status::error(415, "UnsupportedMediaType", message).into()
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        status::error(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {limit}"))
            .into()
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        status::expired(message).into()
    }

    /// A page whose snapshot is gone; `token` continues from the same place in the latest state.
    pub(crate) fn continue_expired(token: String) -> Self {
        let mut failure = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new \
             list without the continue parameter, or use the continue token in this response to retrieve the \
             remainder of the results. Continuing with the provided token results in an inconsistent list - \
             objects that were created, modified, or deleted between the time the first chunk was returned and now \
             may show up in the list.",
        );
        failure.0.metadata.continue_ = Some(token);
        failure
    }

    pub(crate) fn version_too_large(requested: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let cause = FieldError {
            field: String::new(),
            reason: "ResourceVersionTooLarge".to_owned(),
            body: "Too large resource version".to_owned(),
        };
        Self::from(status::timeout(message)).caused([cause]).again_after_a_second()
    }

    /// Fields of an object of this kind are wrong (422).
    pub(crate) fn invalid(kind_name: &str, group: &str, name: &str, mut errors: Vec<FieldError>) -> Self {
        errors.truncate(MAX_ERRORS);
        let mut seen = HashSet::new();
        let texts = errors.iter().map(ToString::to_string);
        let shown: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
        let shown = match shown.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let dot = if group.is_empty() { "" } else { "." };
        Self::from(status::invalid(group, kind_name, name, Vec::new()))
            .worded(format!("{kind_name}{dot}{group} {name:?} is invalid: {shown}"))
            .caused(errors)
    }

    /// [`Self::invalid`], if anything is wrong.
    pub(crate) fn refuse(kind_name: &str, group: &str, name: &str, errors: Vec<FieldError>) -> Result<()> {
        if errors.is_empty() { Ok(()) } else { Err(Self::invalid(kind_name, group, name, errors)) }
    }

    /// A JSON patch that could be read but not applied. kube-apiserver says no more than this.
    pub(crate) fn patch_not_applicable() -> Self {
        Self::detailed(422, "Invalid", "the server rejected our request due to an error in our request")
    }

    /// An error of ours: logged with its causes, which the answer carries as well.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        let chain = ErrorChain(error).to_string();
        tracing::error!(error = %chain, "failed to answer a request");
        status::internal_error(chain).into()
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.0.reason.as_deref() == Some("NotFound")
    }

    /// What the client is told.
    pub(crate) fn message(&self) -> &str {
        self.0.message.as_deref().unwrap_or_default()
    }

    /// The same failure of a request that is warned of these.
    pub(crate) fn warned(mut self, warnings: &[String]) -> Self {
        self.1.extend_from_slice(warnings);
        self
    }

    pub(crate) fn is_already_exists(&self) -> bool {
        self.0.reason.as_deref() == Some("AlreadyExists")
    }

    /// The `Status` as it goes to the client.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Strings and numbers only: this does not fail.
        serde_json::to_vec(&self.0).unwrap_or_default()
    }

    /// The answer, as YAML for a client that accepts that.
    pub(crate) fn respond(self, yaml: bool) -> Response {
        let status = StatusCode::from_u16(status::code(&self.0)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = respond(status, yaml, self.to_json());
        if let Some(seconds) = self.0.details.as_ref().and_then(|details| details.retry_after_seconds) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        warn(&mut response, &self.1);
        response
    }
}

/// An answer of JSON bytes, as YAML for a client that accepts that.
pub(crate) fn respond(status: StatusCode, yaml: bool, json: Vec<u8>) -> Response {
    let text = || yaml::to_string(&serde_json::from_slice::<Value>(&json).ok()?).ok();
    let (kind, body) = match yaml.then(text).flatten() {
        Some(text) => ("application/yaml", Body::from(text)),
        None => ("application/json", Body::from(json)),
    };
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response()
}

/// Adds a Warning header for each of these texts, within bounds: many are each cut short, and then left out.
pub(crate) fn warn(response: &mut Response, warnings: &[String]) {
    let mut seen = HashSet::new();
    let mut texts: Vec<&str> = Vec::new();
    for warning in warnings {
        match warning.strip_prefix(YAML_ERRORS) {
            // What YAML's reader lists under a heading is told one by one.
            Some(listed) => texts.extend(listed.lines().map(str::trim)),
            None => texts.push(warning),
        }
    }
    texts.retain(|text| seen.insert(*text));
    let length = |text: &str| text.chars().count();
    let is_much = texts.iter().map(|text| length(text)).sum::<usize>() > MAX_WARNINGS;
    let longest = if is_much { MAX_WARNING } else { usize::MAX };
    let mut told = 0;
    for text in texts {
        if told >= MAX_WARNINGS {
            break;
        }
        let short: String = text.chars().take(longest).collect();
        told += length(&short);
        let quoted = short.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}
