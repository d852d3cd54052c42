//! Saying how healthy a repository or a connection is.

use jiff::Timestamp;
use windlass_api::conditions::{self, messages, types};
use windlass_api::{ErrorDetails, HealthErrorKind, HealthStatus, RepositoryStatus};

/// What is wrong, by its field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// The condition's reason.
    pub(crate) reason: &'static str,
    /// Each with what to do about it; one at least.
    pub(crate) errors: Vec<ErrorDetails>,
}

impl Failure {
    /// One value that cannot be.
    pub(crate) fn new(reason: &'static str, field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::of_kind("FieldValueInvalid", reason, field, detail)
    }

    /// One error of this kind.
    pub(crate) fn of_kind(
        kind: &str,
        reason: &'static str,
        field: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let (kind, field, detail) = (kind.to_owned(), field.into(), detail.into());
        Self { reason, errors: vec![ErrorDetails { kind, field, detail, ..ErrorDetails::default() }] }
    }

    /// The first of what is wrong.
    pub(crate) fn message(&self) -> &str {
        self.errors.first().map_or("", |error| &error.detail)
    }
}

/// What is said of something that is well.
pub(crate) fn healthy(now: Timestamp) -> HealthStatus {
    HealthStatus { healthy: true, checked: now.as_millisecond(), ..HealthStatus::default() }
}

/// What is said of something with these errors.
pub(crate) fn unhealthy(errors: &[ErrorDetails], now: Timestamp) -> HealthStatus {
    let details = errors.iter().map(|error| error.detail.clone());
    HealthStatus {
        healthy: false,
        error: Some(HealthErrorKind::Health),
        checked: now.as_millisecond(),
        message: details.filter(|detail| !detail.is_empty()).collect(),
        retry_at: 0,
    }
}

/// Writes into a status that the repository is not healthy: health, the `Ready` condition and the errors by field.
pub(crate) fn be_unhealthy(
    status: &mut RepositoryStatus,
    failure: Failure,
    generation: Option<i64>,
    now: Timestamp,
) {
    status.health = unhealthy(&failure.errors, now);
    let message = status.health.message.first().map_or(messages::UNAVAILABLE, String::as_str);
    let ready = conditions::new(types::READY, false, failure.reason, message, generation, now);
    conditions::set(&mut status.conditions, ready);
    status.field_errors = failure.errors;
}
