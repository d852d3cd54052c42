//! Whether a repository can be read with what its specification says: the health check and `POST …/test`.

use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;
use windlass_api::conditions::reasons;
use windlass_api::repositories::{self, RepositoryRules};
use windlass_api::{ErrorDetails, FieldError, Repository, TestResults};
use windlass_git::{GitError, Revision};
use windlass_telemetry::ErrorChain;

use crate::inspect::Writable;
use crate::{LocalError, OpenError, Opener, ReadError};

/// What a check found.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The answer of `POST …/test`: code 200 and success, or the errors with the code of the first.
    pub results: TestResults,
    /// The reason for the `Ready` condition.
    pub reason: &'static str,
    /// The branch's tip, when it was reached.
    pub revision: Option<Revision>,
    /// How long the server wants to be left alone, where it says so.
    pub retry_after: Option<Duration>,
}

impl Checked {
    fn healthy(revision: Revision) -> Self {
        let results = TestResults { code: 200, success: true, errors: Vec::new() };
        Self { results, reason: reasons::AVAILABLE, revision: Some(revision), retry_after: None }
    }

    fn failed(code: u16, reason: &'static str, errors: Vec<ErrorDetails>) -> Self {
        let results = TestResults { code: i64::from(code), success: false, errors };
        Self { results, reason, revision: None, retry_after: None }
    }

    /// The same, for a workflow that cannot do what it is for. A repository that cannot be read has a worse trouble.
    #[must_use]
    pub fn and_writable(self, writable: Option<&Writable>) -> Self {
        match writable.and_then(Writable::refusal).filter(|_| self.results.success) {
            Some((code, details)) => Self::failed(code, reasons::INVALID_SPEC, vec![details]),
            None => self,
        }
    }
}

/// Checks the specification, then that the source answers and has the branch: one request to a Git server.
///
/// Failures of the source are a result, not an error: an unreachable server is a fact about the repository.
pub async fn check(
    opener: &Opener,
    core: &Client,
    repository: &Repository,
    rules: &RepositoryRules,
    cancel: &CancellationToken,
) -> Checked {
    let invalid = repositories::review(repository, rules);
    if !invalid.is_empty() {
        let details = |error: &FieldError| ErrorDetails { bad_value: None, ..error.details() };
        return Checked::failed(422, reasons::INVALID_SPEC, invalid.iter().map(details).collect());
    }
    check_source(opener, core, repository, cancel).await
}

/// The same of a repository whose specification is known to keep the rules.
pub async fn check_source(
    opener: &Opener,
    core: &Client,
    repository: &Repository,
    cancel: &CancellationToken,
) -> Checked {
    let reader = match opener.open(core, repository).await {
        Ok(found) => found.reader,
        Err(error) => {
            return Checked::failed(error.http_code(), error.reason(), vec![of_open(repository, &error)]);
        }
    };
    match reader.resolve(repository.spec.branch(), cancel).await {
        Ok(revision) => Checked::healthy(revision),
        Err(error) => {
            let retry_after = match &error {
                ReadError::Git(GitError::RateLimited { retry_after, .. }) => *retry_after,
                _ => None,
            };
            let failed =
                Checked::failed(error.http_code(), error.reason(), vec![of_read(repository, &error)]);
            Checked { retry_after, ..failed }
        }
    }
}

/// What a check came to that did not end in time.
pub fn timed_out(repository: &Repository, after: Duration) -> Checked {
    let detail =
        format!("the repository could not be read within {after:?}; the server is slow, or not answering");
    let error = ErrorDetails {
        kind: "InternalError".to_owned(),
        field: url_field(repository),
        detail,
        ..ErrorDetails::default()
    };
    Checked::failed(504, reasons::SERVICE_UNAVAILABLE, vec![error])
}

fn of_open(repository: &Repository, error: &OpenError) -> ErrorDetails {
    match error {
        OpenError::Refused(error) => of_read(repository, error),
        OpenError::NoUrl => details("FieldValueRequired", url_field(repository), error),
        OpenError::Token(_) => details("FieldValueInvalid", "secure.token".to_owned(), error),
    }
}

fn of_read(repository: &Repository, error: &ReadError) -> ErrorDetails {
    let field = match error {
        ReadError::Git(GitError::Unauthorized { .. } | GitError::Forbidden { .. }) => {
            "secure.token".to_owned()
        }
        ReadError::Git(GitError::BranchNotFound { .. } | GitError::Empty { .. }) => {
            format!("spec.{}.branch", repository.spec.kind.as_str())
        }
        ReadError::Local(LocalError::NotFound { .. }) => "spec.local.path".to_owned(),
        _ => url_field(repository),
    };
    details("FieldValueInvalid", field, error)
}

fn url_field(repository: &Repository) -> String {
    format!(
        "spec.{}.{}",
        repository.spec.kind.as_str(),
        if repository.spec.is_git() { "url" } else { "path" }
    )
}

fn details(kind: &str, field: String, error: &(dyn std::error::Error + 'static)) -> ErrorDetails {
    let detail = ErrorChain(error).to_string();
    ErrorDetails { kind: kind.to_owned(), field, detail, ..ErrorDetails::default() }
}
