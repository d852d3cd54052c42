//! What a repository's server says beside its files: whether it can be written to, and what the specification left out.
//!
//! None of it is a reason not to read the repository. A branch that takes changes by pull request only is pulled like any
//! other; what is written to it is refused before anything is staged.

use std::time::Duration;

use kube::Client;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use windlass_api::conditions::reasons;
use windlass_api::{ErrorDetails, Repository, RepositoryType, Workflow};
use windlass_git::GitError;
use windlass_github::{ErrorKind, GithubError, Protection, RepositoryInfo};
use windlass_telemetry::ErrorChain;

use crate::{GithubOpenError, GithubRepository, OpenError, Opener, ReadError, WriteError};

/// What the server says.
#[derive(Debug, Default)]
pub struct Inspected {
    /// What GitHub knows of the repository, where that is asked for.
    pub about: Option<RepositoryInfo>,
    /// Whether the workflow `write` can push; nothing where the repository is not written to that way.
    pub writable: Option<Writable>,
}

impl Inspected {
    /// What came of asking when nobody answered in time.
    pub fn timed_out(repository: &Repository, after: Duration) -> Self {
        let message =
            format!("the server did not say within {after:?} whether it takes pushes; it is asked again");
        let unknown = Writable::unknown(reasons::SERVICE_UNAVAILABLE, message);
        Self { about: None, writable: is_written(repository).then_some(unknown) }
    }

    /// What GitHub knows and the specification leaves out, as a merge patch of the specification: the repository's
    /// number, which outlives renames, and its default branch. Nothing when nothing is left out.
    pub fn left_out(&self, repository: &Repository) -> Option<Value> {
        let about = self.about.as_ref()?;
        let mut fields = Map::new();
        if has_no_id(repository)
            && let Ok(id) = i64::try_from(about.id)
        {
            fields.insert("repoID".to_owned(), id.into());
        }
        if repository.spec.branch().is_empty() {
            fields.insert("branch".to_owned(), about.default_branch.clone().into());
        }
        (!fields.is_empty()).then(|| json!({ repository.spec.kind.as_str(): fields }))
    }
}

/// Whether the workflow `write` can push to the repository's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writable {
    /// Whether it can; nothing where that is not known, and a push is tried.
    pub holds: Option<bool>,
    /// The condition's reason.
    pub reason: &'static str,
    /// What keeps it from that, and what to do about it.
    pub message: String,
    /// When to ask again, where the server says.
    pub again: Option<Duration>,
}

impl Writable {
    fn yes(message: impl Into<String>) -> Self {
        Self { holds: Some(true), reason: reasons::BRANCH_WRITABLE, message: message.into(), again: None }
    }

    fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self { holds: Some(false), reason, message: message.into(), again: None }
    }

    fn unknown(reason: &'static str, message: impl Into<String>) -> Self {
        Self { holds: None, reason, message: message.into(), again: None }
    }

    /// What `POST …/test` says of a repository that cannot be written to, and its code. Grafana: `github/repository.go`.
    pub fn refusal(&self) -> Option<(u16, ErrorDetails)> {
        let (code, field) = match self.reason {
            _ if self.holds != Some(false) => return None,
            reasons::PERMISSION_DENIED => (403, "secure.token"),
            _ => (400, "spec.workflows"),
        };
        let details = ErrorDetails {
            kind: "FieldValueForbidden".to_owned(),
            field: field.to_owned(),
            detail: self.message.clone(),
            ..ErrorDetails::default()
        };
        Some((code, details))
    }
}

/// Whether [`inspect`] has anything to ask about the repository.
pub fn is_inspected(repository: &Repository) -> bool {
    repository.spec.is_git() && (is_written(repository) || leaves_out(repository))
}

/// Asks the server of `repository`: GitHub's API, or a Git server whether it takes pushes. A repository that is only read
/// is asked about where its specification leaves something out that GitHub knows.
pub async fn inspect(
    opener: &Opener,
    core: &Client,
    repository: &Repository,
    cancel: &CancellationToken,
) -> Inspected {
    let writes = is_written(repository);
    if !is_on_github(repository) {
        let writable = if writes { Some(over_git(opener, core, repository, cancel).await) } else { None };
        return Inspected { about: None, writable };
    }
    if !is_inspected(repository) {
        return Inspected::default();
    }
    let failed = |writable| Inspected { about: None, writable: writes.then_some(writable) };
    let at_github = match opener.github(core, repository).await {
        Ok(at_github) => at_github,
        Err(error) => return failed(of_open(&error)),
    };
    let about = match at_github.api.repository(&at_github.name).await {
        Ok(about) => about,
        Err(error) => return failed(of_github(&error)),
    };
    let writable = if writes { Some(on_github(&at_github, &about, repository).await) } else { None };
    Inspected { about: Some(about), writable }
}

fn is_on_github(repository: &Repository) -> bool {
    matches!(repository.spec.kind, RepositoryType::Github | RepositoryType::GithubEnterprise)
}

fn is_written(repository: &Repository) -> bool {
    repository.spec.workflows.contains(&Workflow::Write)
}

/// Whether the specification leaves something out that GitHub knows.
fn leaves_out(repository: &Repository) -> bool {
    is_on_github(repository) && (has_no_id(repository) || repository.spec.branch().is_empty())
}

fn has_no_id(repository: &Repository) -> bool {
    let spec = &repository.spec;
    spec.kind == RepositoryType::Github && spec.github.as_ref().is_some_and(|it| it.repo_id == 0)
}

async fn on_github(at: &GithubRepository, about: &RepositoryInfo, repository: &Repository) -> Writable {
    let name = &at.name;
    if about.archived {
        return Writable::no(
            reasons::BRANCH_PROTECTED,
            format!(
                "{name} is archived, so nobody writes to it: unarchive it, or take \"write\" out of spec.workflows"
            ),
        );
    }
    if about.can_push == Some(false) {
        return denied(&format!("the token may not push to {name}"));
    }
    let branch = match repository.spec.branch() {
        "" => about.default_branch.as_str(),
        branch => branch.strip_prefix("refs/heads/").unwrap_or(branch),
    };
    match at.api.protection(name, branch, about.is_admin).await {
        Err(error) => of_github(&error),
        Ok(Protection { refuses, .. }) if !refuses.is_empty() => {
            let message = format!(
                "branch {branch} of {name} takes no pushes of ours: {}; let the token bypass that, or write to other \
                 branches with the workflow \"branch\" and merge them",
                refuses.join(", ")
            );
            Writable::no(reasons::BRANCH_PROTECTED, message)
        }
        Ok(Protection { is_hidden: true, .. }) => {
            let message = format!(
                "branch {branch} of {name} is protected, and the token may not see by what, so a push is tried; the \
                 repository permission \"Administration: read\" shows it"
            );
            Writable::unknown(reasons::PROTECTION_UNKNOWN, message)
        }
        Ok(_) => Writable::yes(format!("nothing is known that keeps us from pushing to {branch} of {name}")),
    }
}

async fn over_git(
    opener: &Opener,
    core: &Client,
    repository: &Repository,
    cancel: &CancellationToken,
) -> Writable {
    let writer = match opener.open(core, repository).await {
        Ok(open) => open.writer,
        Err(error) => return of_opening(&error),
    };
    let Some(writer) = writer else {
        return Writable::no(reasons::PERMISSION_DENIED, "the repository cannot be written to");
    };
    match writer.check_access(cancel).await {
        Ok(()) => Writable::yes("the server takes pushes of ours"),
        Err(WriteError::Write { source, .. }) => match *source {
            ReadError::Git(error @ (GitError::PushDenied { .. } | GitError::Unauthorized { .. })) => {
                denied(&error.to_string())
            }
            ReadError::Git(error @ GitError::Unsupported { .. }) => {
                Writable::no(reasons::PERMISSION_DENIED, error.to_string())
            }
            ReadError::Git(GitError::RateLimited { host, retry_after }) => {
                let error = GitError::RateLimited { host, retry_after };
                let known = Writable::unknown(reasons::RATE_LIMITED, error.to_string());
                Writable { again: retry_after, ..known }
            }
            error => Writable::unknown(unknown_reason(error.reason()), error.to_string()),
        },
        Err(error) => Writable::unknown(reasons::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

fn denied(why: &str) -> Writable {
    let message = format!(
        "write permission denied: {why}; give it that right (\"Contents: read and write\"), or take \"write\" out of \
         spec.workflows"
    );
    Writable::no(reasons::PERMISSION_DENIED, message)
}

fn of_open(error: &GithubOpenError) -> Writable {
    Writable::unknown(unknown_reason(error.reason()), ErrorChain(error).to_string())
}

fn of_opening(error: &OpenError) -> Writable {
    Writable::unknown(unknown_reason(error.reason()), ErrorChain(error).to_string())
}

fn of_github(error: &GithubError) -> Writable {
    let reason = match error.kind() {
        ErrorKind::RateLimited { .. } => reasons::RATE_LIMITED,
        ErrorKind::Unauthorized { .. } => reasons::AUTHENTICATION_FAILED,
        ErrorKind::Forbidden { .. } | ErrorKind::NotFound { .. } => reasons::PROTECTION_UNKNOWN,
        _ => reasons::SERVICE_UNAVAILABLE,
    };
    Writable { again: error.retry_after(), ..Writable::unknown(reason, error.to_string()) }
}

/// Reasons of a repository that cannot be read are those of one of which nothing is known, too.
fn unknown_reason(reason: &'static str) -> &'static str {
    if matches!(reason, reasons::AUTHENTICATION_FAILED | reasons::RATE_LIMITED | reasons::SERVICE_UNAVAILABLE)
    {
        reason
    } else {
        reasons::PROTECTION_UNKNOWN
    }
}
