//! Failed requests: every one is answered by a `metav1.Status` of kube-apiserver's code, reason and fields. What `kubectl`
//! shows of everyday mistakes is worded as it words it.

use std::collections::HashSet;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};
use windlass_api::status;

use crate::kinds::Kind;
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

impl Failure {
    fn with_details(mut self, details: StatusDetails) -> Self {
        self.0.details = Some(details);
        self
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        status::bad_request(message).into()
    }

    /// A namespace in which something is to be created does not exist.
    pub(crate) fn no_namespace(name: &str) -> Self {
        let mut failure = Self::from(status::not_found("", "namespaces", name));
        failure.0.message = Some(format!("namespaces {name:?} not found"));
        failure
    }

    /// The answer of a probe while the store has a problem. Probes come from anybody: the log says what it is.
    pub(crate) fn not_ready() -> Response {
        let text = "[-]store failed: reason withheld\nreadyz check failed\n";
        (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
    }

    /// The body did not arrive in time.
    pub(crate) fn body_too_slow(within: Duration) -> Self {
        let message = format!("the request's body did not arrive within {} seconds", within.as_secs());
        status::error(408, "Timeout", message).into()
    }

    /// The request took too long.
    pub(crate) fn deadline_passed() -> Self {
        Self::from(status::timeout("Timeout: request did not complete within the allotted timeout"))
    }

    /// An error that a real server does not classify either.
    pub(crate) fn unclassified(message: String) -> Self {
        let mut status = status::error(500, "", message);
        status.reason = None;
        status.into()
    }

    /// Fields of an applied object belong to others: the path of each and with whom it is in conflict.
    pub(crate) fn apply_conflict(message: String, causes: Vec<(String, String)>) -> Self {
        let causes = causes.into_iter().map(|(field, message)| StatusCause {
            reason: Some("FieldManagerConflict".to_owned()),
            message: Some(message),
            field: Some(field),
        });
        Self::from(status::error(409, "Conflict", message))
            .with_details(StatusDetails { causes: Some(causes.collect()), ..StatusDetails::default() })
    }

    /// The path names nothing that is served.
    pub(crate) fn unknown_path() -> Self {
        Self::from(status::error(404, "NotFound", "the server could not find the requested resource"))
            .with_details(StatusDetails::default())
    }

    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        let mut failure = Self::from(status::not_found(&kind.group, &kind.plural, name));
        failure.0.message = Some(format!("{} {name:?} not found", kind.qualified()));
        failure
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        status::already_exists(&kind.group, &kind.plural, name).into()
    }

    /// As [`Self::already_exists`], when the object that is in the way is being deleted.
    pub(crate) fn being_deleted(self) -> Self {
        let mut failure = self;
        failure.0.message = Some(format!("object is being deleted: {}", failure.message()));
        failure
    }

    /// What a result of a patch could not be read for, if this is such an error.
    pub(crate) fn decoding_problem(&self) -> Option<&str> {
        let is_bad = self.0.code == Some(400);
        self.message()
            .split_once(" cannot be handled as a ")
            .filter(|_| is_bad)?
            .1
            .split_once(": ")
            .map(|(_, why)| why)
    }

    pub(crate) fn name_not_generated(kind: &Kind, name: &str) -> Self {
        let mut failure = Self::already_exists(kind, name);
        failure.0.message = Some(format!(
            "{} {name:?} already exists, the server was not able to generate a unique name for the object",
            kind.qualified()
        ));
        failure.0.details.get_or_insert_default().retry_after_seconds = Some(1);
        failure
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        status::conflict(&kind.group, &kind.plural, name, why).into()
    }

    /// As [`Self::conflict`], naming the kind instead of the resource, as deletions do.
    pub(crate) fn conflict_of_kind(kind: &Kind, name: &str, why: &str) -> Self {
        status::conflict(&kind.group, &kind.kind, name, why).into()
    }

    /// A write that carried a resourceVersion which is no longer the latest.
    pub(crate) fn modified(kind: &Kind, name: &str) -> Self {
        Self::conflict(
            kind,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let mut failure = Self::from(status::forbidden(&kind.group, &kind.plural, name, why));
        if name.is_empty() {
            failure.0.message = Some(format!("{} is forbidden: {why}", kind.qualified()));
        }
        failure
    }

    /// Nothing new is created in a namespace that is being deleted.
    pub(crate) fn namespace_terminating(kind: &Kind, name: &str, namespace: &str) -> Self {
        let why =
            format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut failure = Self::forbidden(kind, name, &why);
        failure.0.details.get_or_insert_default().causes = Some(vec![StatusCause {
            reason: Some("NamespaceTerminating".to_owned()),
            message: Some(format!("namespace {namespace} is being terminated")),
            field: Some("metadata.namespace".to_owned()),
        }]);
        failure
    }

    /// A path that is no object's, for those only who may do everything.
    pub(crate) fn forbidden_path(path: &str, caller: &str) -> Self {
        let message =
            format!("forbidden: User {caller:?} cannot get path {path:?}: it is for administrators");
        Self::from(status::error(403, "Forbidden", message)).with_details(StatusDetails::default())
    }

    pub(crate) fn unauthorized() -> Self {
        status::unauthorized("Unauthorized").into()
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::from(status::error(405, "MethodNotAllowed", message)).with_details(StatusDetails::default())
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
        Self::from(status::timeout(message)).with_details(StatusDetails {
            causes: Some(vec![StatusCause {
                reason: Some("ResourceVersionTooLarge".to_owned()),
                message: Some("Too large resource version".to_owned()),
                field: None,
            }]),
            retry_after_seconds: Some(1),
            ..StatusDetails::default()
        })
    }

    /// Fields of an object of this kind are wrong (422).
    pub(crate) fn invalid(kind_name: &str, group: &str, name: &str, errors: Vec<FieldError>) -> Self {
        let mut errors = errors;
        errors.truncate(MAX_ERRORS);
        let mut seen = HashSet::new();
        let texts = errors.iter().map(ToString::to_string);
        let shown: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
        let shown = match shown.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut failure = Self::from(status::invalid(group, kind_name, name, Vec::new()));
        let qualified = if group.is_empty() { kind_name.to_owned() } else { format!("{kind_name}.{group}") };
        failure.0.message = Some(format!("{qualified} {name:?} is invalid: {shown}"));
        let text = |text: String| (!text.is_empty()).then_some(text);
        failure.0.details.get_or_insert_default().causes = Some(
            errors
                .into_iter()
                .map(|error| StatusCause {
                    reason: text(error.reason),
                    message: text(error.body),
                    field: text(error.field),
                })
                .collect(),
        );
        failure
    }

    /// A JSON patch that could be read but not applied. kube-apiserver says no more than this.
    pub(crate) fn patch_not_applicable() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::from(status::error(422, "Invalid", message)).with_details(StatusDetails::default())
    }

    /// An error of ours: logged with its causes, which the answer carries as well.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        let mut chain = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            chain.push_str(": ");
            chain.push_str(&cause.to_string());
            source = cause.source();
        }
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
}

impl Failure {
    /// The answer for a client that accepts YAML.
    pub(crate) fn into_yaml(self) -> Response {
        let text =
            serde_json::to_value(&self.0).ok().and_then(|status| windlass_api::yaml::to_string(&status).ok());
        let mut response = self.into_response();
        let json = HeaderValue::from_static("application/json");
        if let Some(text) = text.filter(|_| response.headers().get(header::CONTENT_TYPE) == Some(&json)) {
            *response.body_mut() = Body::from(text);
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"));
        }
        response
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_json()));
        *response.status_mut() =
            StatusCode::from_u16(status::code(&self.0)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.0.details.as_ref().and_then(|details| details.retry_after_seconds) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        warn(&mut response, &self.1);
        response
    }
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
    let mut told = 0;
    for text in texts {
        if !is_much {
            warn_of(response, text);
        } else if told < MAX_WARNINGS {
            let short: String = text.chars().take(MAX_WARNING).collect();
            told += length(&short);
            warn_of(response, &short);
        }
    }
}

fn warn_of(response: &mut Response, warning: &str) {
    let text = warning.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{text}\"")) {
        response.headers_mut().append(header::WARNING, value);
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
