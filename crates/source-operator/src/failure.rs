//! Why a pass came to no artifact, as the conditions say it.

use std::fmt;

use windlass_git::GitError;

/// Condition types.
pub(crate) mod types {
    pub(crate) const READY: &str = "Ready";
    pub(crate) const RECONCILING: &str = "Reconciling";
    pub(crate) const STALLED: &str = "Stalled";
    pub(crate) const FETCH_FAILED: &str = "FetchFailed";
    pub(crate) const STORAGE_FAILED: &str = "StorageOperationFailed";
    pub(crate) const INCLUDE_UNAVAILABLE: &str = "IncludeUnavailable";
    pub(crate) const ARTIFACT_IN_STORAGE: &str = "ArtifactInStorage";
    pub(crate) const SOURCE_VERIFIED: &str = "SourceVerified";
}

/// The reason of what is wrong with a provider.
pub(crate) const PROVIDER: &str = "InvalidProviderConfiguration";

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTry {
    /// It is tried again, later each time.
    Retry,
    /// It is tried again when what it waits for has changed, and after a fixed time.
    Wait,
    /// Nothing until the object changes.
    Stall,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The condition that says so.
    pub(crate) condition: &'static str,
    /// Why, for programs.
    pub(crate) reason: &'static str,
    /// What happened, and what to do, for people.
    pub(crate) message: String,
    pub(crate) next_try: NextTry,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl Failure {
    pub(crate) fn new(condition: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self { condition, reason, message: message.into(), next_try: NextTry::Retry }
    }

    /// Of what Git is asked for.
    pub(crate) fn fetch(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(types::FETCH_FAILED, reason, message)
    }

    /// Of what is kept.
    pub(crate) fn storage(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(types::STORAGE_FAILED, reason, message)
    }

    /// Of what is put into the artifact.
    pub(crate) fn include(reason: &'static str, message: impl Into<String>) -> Self {
        Self { next_try: NextTry::Wait, ..Self::new(types::INCLUDE_UNAVAILABLE, reason, message) }
    }

    #[must_use]
    pub(crate) fn stalled(self) -> Self {
        Self { next_try: NextTry::Stall, ..self }
    }

    /// Of whose work it is.
    pub(crate) fn verified(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(types::SOURCE_VERIFIED, reason, message)
    }

    /// What Git said.
    pub(crate) fn git(doing: &str, error: &GitError) -> Self {
        let reason = match error.reason() {
            "AuthenticationFailed" => "AuthenticationFailed",
            _ => "GitOperationFailed",
        };
        Self::fetch(reason, format!("failed to {doing}: {error}"))
    }
}
