//! Error answers: the only place where a `metav1.Status` is made.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status, StatusCause, StatusDetails};

use crate::field_error::FieldError;

/// An error answer with everything but details.
pub fn error(code: u16, reason: &str, message: impl Into<String>) -> Status {
    Status {
        code: Some(i32::from(code)),
        details: None,
        message: Some(message.into()),
        metadata: ListMeta::default(),
        reason: Some(reason.to_owned()),
        status: Some("Failure".to_owned()),
    }
}

/// The HTTP status code of an answer; 500 when it has none.
pub fn code(status: &Status) -> u16 {
    status.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500)
}

/// The answer to a successful deletion of an object.
pub fn deleted(group: &str, resource: &str, name: &str, uid: &str) -> Status {
    Status {
        code: None,
        details: Some(StatusDetails { uid: Some(uid.to_owned()), ..details(group, resource, name) }),
        message: None,
        metadata: ListMeta::default(),
        reason: None,
        status: Some("Success".to_owned()),
    }
}

/// 404: there is no such object. `resource` is the plural.
pub fn not_found(group: &str, resource: &str, name: &str) -> Status {
    about(
        404,
        "NotFound",
        group,
        resource,
        name,
        format!("{} {name:?} not found", qualified(group, resource)),
    )
}

/// 404: there is no such path.
pub fn no_such_path(path: &str) -> Status {
    error(404, "NotFound", format!("the server could not find the requested resource: {path}"))
}

/// 409: an object of that name is there already.
pub fn already_exists(group: &str, resource: &str, name: &str) -> Status {
    let message = format!("{} {name:?} already exists", qualified(group, resource));
    about(409, "AlreadyExists", group, resource, name, message)
}

/// 409: the object is not as the caller thinks.
pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Status {
    let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified(group, resource));
    about(409, "Conflict", group, resource, name, message)
}

/// 422: fields of an object are wrong. `kind` is the kind, not the plural.
pub fn invalid(group: &str, kind: &str, name: &str, errors: Vec<FieldError>) -> Status {
    let text = match errors.as_slice() {
        [only] => only.to_string(),
        several => {
            let texts: Vec<String> = several.iter().map(ToString::to_string).collect();
            format!("[{}]", texts.join(", "))
        }
    };
    let message = format!("{} {name:?} is invalid: {text}", qualified(group, kind));
    let mut status = about(422, "Invalid", group, kind, name, message);
    if let Some(details) = status.details.as_mut() {
        details.causes = Some(errors.iter().map(StatusCause::from).collect());
    }
    status
}

/// 400: the request makes no sense.
pub fn bad_request(message: impl Into<String>) -> Status {
    error(400, "BadRequest", message)
}

/// 401: nobody knows who is calling.
pub fn unauthorized(message: impl Into<String>) -> Status {
    error(401, "Unauthorized", message)
}

/// 403: the caller may not do that to an object. `name` may be empty.
pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Status {
    let message = format!("{} {name:?} is forbidden: {why}", qualified(group, resource));
    about(403, "Forbidden", group, resource, name, message)
}

/// 405: the method does not go with the path.
pub fn method_not_allowed(method: &str) -> Status {
    error(
        405,
        "MethodNotAllowed",
        format!("the server does not allow the method {method} on the requested resource"),
    )
}

/// 406: the client accepts nothing that the server can send.
pub fn not_acceptable(supported: &str) -> Status {
    error(406, "NotAcceptable", format!("only the following media types are accepted: {supported}"))
}

/// 410: the resource version or continue token is too old.
pub fn expired(message: impl Into<String>) -> Status {
    error(410, "Expired", message)
}

/// 413: the body is over the limit.
pub fn too_large(limit: usize) -> Status {
    error(413, "RequestEntityTooLarge", format!("the request body is larger than the limit of {limit} bytes"))
}

/// 415: the body is of a type that is not understood.
pub fn unsupported_media_type(got: &str, supported: &str) -> Status {
    error(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format ({got}); accepted media types are {supported}"
        ),
    )
}

/// 424: something that the request stands on is not well, for example an unhealthy repository.
pub fn failed_dependency(message: impl Into<String>) -> Status {
    error(424, "FailedDependency", message)
}

/// 429: too many requests; come back after some seconds.
pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: i32) -> Status {
    retry(error(429, "TooManyRequests", message), retry_after_seconds)
}

/// 500: our fault.
pub fn internal_error(message: impl std::fmt::Display) -> Status {
    error(500, "InternalError", format!("Internal error occurred: {message}"))
}

/// 503: not now; come back after some seconds.
pub fn service_unavailable(message: impl Into<String>, retry_after_seconds: i32) -> Status {
    retry(error(503, "ServiceUnavailable", message), retry_after_seconds)
}

/// 504: it took too long.
pub fn timeout(message: impl Into<String>) -> Status {
    error(504, "Timeout", message)
}

fn about(code: u16, reason: &str, group: &str, kind: &str, name: &str, message: String) -> Status {
    Status { details: Some(details(group, kind, name)), ..error(code, reason, message) }
}

fn details(group: &str, kind: &str, name: &str) -> StatusDetails {
    let set = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    StatusDetails { group: set(group), kind: set(kind), name: set(name), ..StatusDetails::default() }
}

fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

fn retry(mut status: Status, seconds: i32) -> Status {
    status.details.get_or_insert_default().retry_after_seconds = Some(seconds);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_object_lists_every_field_as_a_cause() {
        let errors = vec![
            FieldError::required("spec.title", "a repository needs a title"),
            FieldError::not_supported("spec.action", "fly", &["pull", "test"]),
        ];
        let status = invalid("provisioning.grafana.app", "Job", "a", errors);
        assert_eq!(code(&status), 422);
        assert_eq!(
            status.message.as_deref(),
            Some(
                "Job.provisioning.grafana.app \"a\" is invalid: [spec.title: Required value: a repository needs a \
                 title, spec.action: Unsupported value: \"fly\": supported values: \"pull\", \"test\"]"
            )
        );
        let causes = status.details.unwrap().causes.unwrap();
        assert_eq!(causes[1].field.as_deref(), Some("spec.action"));
        assert_eq!(causes[1].reason.as_deref(), Some("FieldValueNotSupported"));
    }

    #[test]
    fn a_status_is_written_as_a_kubernetes_client_expects_it() {
        let json = serde_json::to_value(not_found("folder.grafana.app", "folders", "x")).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 404,
                "reason": "NotFound", "message": "folders.folder.grafana.app \"x\" not found",
                "details": { "group": "folder.grafana.app", "kind": "folders", "name": "x" }
            })
        );
    }
}
