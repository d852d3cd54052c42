//! Answers on the wire: JSON bodies, and `metav1.Status` for every refusal.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::Serialize;
use serde_json::Value;
use windlass_api::{GROUP, VERSION, status};

/// A refusal: the Status that says why, answered under its own code.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Box<Status>);

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self(Box::new(status))
    }
}

impl From<kube::Error> for Refusal {
    /// The API server's own refusal goes through as it is; everything else is that it could not be asked.
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(answer) => {
                let mut passed = status::error(answer.code, &answer.reason, answer.message.clone());
                passed.details = serde_json::to_value(&answer.details)
                    .ok()
                    .and_then(|details| serde_json::from_value(details).ok());
                passed.into()
            }
            other => {
                tracing::warn!(error = %other, "the API server could not be asked");
                status::service_unavailable("the API server could not be asked; try again", 1).into()
            }
        }
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

/// `value` as a JSON answer that says its kind, as every object of the group does.
pub(crate) fn typed(code: u16, kind: &str, value: &impl Serialize) -> Response {
    let mut object = serde_json::to_value(value).unwrap_or(Value::Null);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("kind".to_owned(), kind.into());
        fields.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
    }
    json(code, &object)
}
