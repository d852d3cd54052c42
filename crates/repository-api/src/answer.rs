//! Answers on the wire: JSON bodies, and `metav1.Status` for every refusal.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::Serialize;
use windlass_api::{GROUP, status};
use windlass_lease_queue::kube::InsertError;
use windlass_loki::LokiError;
use windlass_repository::{OpenError, ReadError, WriteError};
use windlass_runtime::CallError;
use windlass_telemetry::ErrorChain;

/// A refusal: the Status that says why, answered under its own code.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Box<Status>);

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self(Box::new(status))
    }
}

impl From<CallError> for Refusal {
    /// The API server's own refusal goes through as it is; everything else is that it did not answer in time, or
    /// could not be asked.
    fn from(error: CallError) -> Self {
        if let Some(answer) = error.status() {
            let mut passed = status::error(answer.code, &answer.reason, answer.message.clone());
            passed.details = serde_json::to_value(&answer.details)
                .ok()
                .and_then(|details| serde_json::from_value(details).ok());
            return passed.into();
        }
        tracing::warn!(error = %ErrorChain(&error), "the API server could not be asked");
        if matches!(error, CallError::Deadline { .. }) {
            return status::timeout("the API server did not answer in time; try again").into();
        }
        status::service_unavailable("the API server could not be asked; try again", 1).into()
    }
}

impl From<InsertError> for Refusal {
    fn from(error: InsertError) -> Self {
        let what = |name: &str| format!("create job {name}");
        match error {
            InsertError::AlreadyExists(name) => status::already_exists(GROUP, "jobs", &name).into(),
            InsertError::Invalid(errors) => status::invalid(GROUP, "Job", "", errors).into(),
            InsertError::Api { name, source } => CallError::new(what(&name), *source).into(),
            InsertError::Timeout { name, after } => CallError::Deadline { what: what(&name), after }.into(),
        }
    }
}

impl From<LokiError> for Refusal {
    fn from(error: LokiError) -> Self {
        tracing::warn!(error = %ErrorChain(&error), "the history of jobs could not be read");
        status::service_unavailable("the history of jobs could not be read from Loki; try again", 5).into()
    }
}

impl Refusal {
    /// The code that it is answered under.
    pub(crate) fn code(&self) -> u16 {
        self.0.code.and_then(|code| u16::try_from(code).ok()).unwrap_or(500)
    }

    /// A refusal under this code, with the reason that Kubernetes has for it.
    pub(crate) fn new(code: u16, message: impl Into<String>) -> Self {
        let message = message.into();
        match code {
            429 => return status::too_many_requests(message, 1).into(),
            503 => return status::service_unavailable(message, 1).into(),
            _ => {}
        }
        let reason = match code {
            400 => "BadRequest",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "NotFound",
            405 => "MethodNotAllowed",
            409 => "Conflict",
            412 => "PreconditionFailed",
            413 => "RequestEntityTooLarge",
            422 => "Invalid",
            500 => "InternalError",
            501 => "NotImplemented",
            504 => "Timeout",
            _ => "Unknown",
        };
        status::error(code, reason, message).into()
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        Self::new(error.http_code(), ErrorChain(&error).to_string())
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        Self::new(error.http_code(), ErrorChain(&error).to_string())
    }
}

impl From<WriteError> for Refusal {
    fn from(error: WriteError) -> Self {
        Self::new(error.http_code(), ErrorChain(&error).to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let code = status::code(&self.0);
        let retry = self.0.details.as_ref().and_then(|details| details.retry_after_seconds);
        let mut response = json(code, &self.0);
        if let Some(seconds) = retry {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// `value` as a JSON answer with the HTTP status `code`.
pub(crate) fn json(code: u16, value: &impl Serialize) -> Response {
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match serde_json::to_vec(value) {
        Ok(body) => {
            let mut response = Response::new(Body::from(body));
            *response.status_mut() = code;
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response
        }
        Err(error) => {
            tracing::error!(%error, "an answer could not be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
