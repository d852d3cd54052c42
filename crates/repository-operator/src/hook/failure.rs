//! What went wrong with a hook: a reason, and what to do about it.

use std::time::Duration;

use windlass_api::annotations;
use windlass_api::conditions::reasons;
use windlass_github::{ErrorKind, GithubError};
use windlass_repository::{GithubOpenError, TokenError};
use windlass_runtime::CallError;
use windlass_telemetry::ErrorChain;

/// How long until it is tried again, where nobody says how long.
const AGAIN: Duration = Duration::from_mins(1);
/// How long until it is tried again where somebody has to do something first.
const AFTER_A_CHANGE: Duration = Duration::from_mins(5);

/// Why the hook of a repository that goes is still there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CleanUpError {
    /// GitHub's API cannot be asked.
    #[error(
        "failed to remove the webhook; set a valid token, or annotate the repository with {}=true to leave it there",
        annotations::FORCE_DELETE
    )]
    Open(#[source] GithubOpenError),
    /// GitHub refuses or does not answer.
    #[error(
        "failed to remove the webhook; annotate the repository with {}=true to leave it there",
        annotations::FORCE_DELETE
    )]
    Github(#[source] GithubError),
}

/// Why a hook could not be made or looked at.
#[derive(Debug)]
pub(super) struct Failure {
    /// The condition's reason.
    pub(super) reason: &'static str,
    /// What happened, and what to do.
    pub(super) message: String,
    /// How long until it is tried again.
    pub(super) again: Duration,
}

impl Failure {
    pub(super) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), again: AGAIN }
    }

    /// The hook's own trouble: `url` is where it should post to.
    pub(super) fn of_github(error: &GithubError, url: &str) -> Self {
        let (reason, advice) = match error.kind() {
            ErrorKind::RateLimited { retry_after } => {
                let message = "GitHub's rate limit is used up; the hook is looked at again when it is not".to_owned();
                return Self { reason: reasons::RATE_LIMITED, message, again: *retry_after };
            }
            ErrorKind::Unauthorized { .. } => {
                (reasons::AUTHENTICATION_FAILED, "; set a valid token in secure.token".to_owned())
            }
            // Hooks are hidden from those who may not change them.
            ErrorKind::Forbidden { .. } | ErrorKind::NotFound { .. } => (
                reasons::PERMISSION_DENIED,
                "; let the token administer webhooks (repository permission \"Webhooks: read and write\", or the scope \
                 admin:repo_hook), or set spec.webhook.disabled"
                    .to_owned(),
            ),
            ErrorKind::AlreadyExists(_) | ErrorKind::Unprocessable(_) => (
                reasons::WEBHOOK_REJECTED,
                format!("; can GitHub reach {url}? correct spec.webhook.baseUrl or provisioning_server_public_url"),
            ),
            _ => (reasons::SERVICE_UNAVAILABLE, "; it is tried again".to_owned()),
        };
        let again = if error.is_transient() { error.retry_after().unwrap_or(AGAIN) } else { AFTER_A_CHANGE };
        Self { reason, message: format!("{error}{advice}"), again: again.max(AGAIN) }
    }

    /// It took longer than this.
    pub(super) fn of_silence(deadline: Duration) -> Self {
        let message = format!("GitHub did not say within {deadline:?} how the webhook is; it is asked again");
        Self::new(reasons::SERVICE_UNAVAILABLE, message)
    }

    /// GitHub's API cannot be asked at all.
    pub(super) fn of_open(error: &GithubOpenError) -> Self {
        Self::new(error.reason(), ErrorChain(error).to_string())
    }

    /// The webhook's Secret.
    pub(super) fn of_secret(error: &TokenError) -> Self {
        Self::new(error.reason(), ErrorChain(error).to_string())
    }

    /// A call of our own API server.
    pub(super) fn of_call(error: &CallError) -> Self {
        Self::new(
            reasons::SERVICE_UNAVAILABLE,
            format!("the webhook's secret could not be stored: {}", ErrorChain(error)),
        )
    }
}
