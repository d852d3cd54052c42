//! A reply, before headers of all replies are put on it.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::Value;

use crate::answers;

/// A reply, before headers of all replies are put on it.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    /// Nothing is no body.
    pub(crate) body: Option<Value>,
    pub(crate) next_page: Option<usize>,
    pub(crate) retry_after: Option<Duration>,
    /// The permissions that would have done.
    pub(crate) needs: Option<String>,
}

impl Reply {
    pub(crate) fn new(status: StatusCode, body: Value) -> Self {
        Self { status, body: Some(body), next_page: None, retry_after: None, needs: None }
    }

    pub(crate) fn ok(body: Value) -> Self {
        Self::new(StatusCode::OK, body)
    }

    pub(crate) fn empty(status: StatusCode) -> Self {
        Self { body: None, ..Self::new(status, Value::Null) }
    }

    pub(crate) fn refuse(status: u16, message: &str) -> Self {
        let body = answers::error(status, message);
        Self::new(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), body)
    }

    pub(crate) fn not_found() -> Self {
        Self::refuse(404, "Not Found")
    }

    /// A value that GitHub does not take (422), in its words.
    pub(crate) fn invalid(resource: &str, message: &str) -> Self {
        let mut reply = Self::refuse(422, "Validation Failed");
        if let Some(body) = &mut reply.body {
            body["errors"] =
                serde_json::json!([{ "resource": resource, "code": "custom", "message": message }]);
        }
        reply
    }
}
