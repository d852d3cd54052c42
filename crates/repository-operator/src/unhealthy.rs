//! Saying that a repository is not healthy.

use jiff::Timestamp;
use windlass_api::conditions::{self, messages, types};
use windlass_api::{ErrorDetails, HealthErrorKind, HealthStatus, RepositoryStatus};

/// Writes into a status that the repository is not healthy: health, the `Ready` condition and the errors by field.
pub(crate) fn be_unhealthy(
    status: &mut RepositoryStatus,
    reason: &'static str,
    errors: Vec<ErrorDetails>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let details: Vec<String> =
        errors.iter().map(|error| error.detail.clone()).filter(|detail| !detail.is_empty()).collect();
    let message = details.first().cloned().unwrap_or_else(|| messages::UNAVAILABLE.to_owned());
    status.health = HealthStatus {
        healthy: false,
        error: Some(HealthErrorKind::Health),
        checked: now.as_millisecond(),
        message: details,
        retry_at: 0,
    };
    status.field_errors = errors;
    let ready = conditions::new(types::READY, false, reason, message, generation, now);
    conditions::set(&mut status.conditions, ready);
}
