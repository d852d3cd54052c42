//! What a delivery comes to. Pure. Codes and texts are Grafana's: `webhooks/webhook.go`, `github/webhook.go`.

use windlass_api::conditions::{self, reasons, types};
use windlass_api::{JobAction, JobSpec, PullRequestJobOptions, Repository};
use windlass_http_client::printable;
use windlass_repository::webhook::{Event, Provider, PullRequestEvent, Push, RepositoryId};

/// So many characters of what somebody else wrote are answered.
const MAX_SHOWN: usize = 100;

/// What a delivery comes to.
#[derive(Debug, PartialEq)]
pub(super) enum Decision {
    /// It is answered, and nothing else.
    Answer {
        /// The HTTP status.
        code: u16,
        /// What was understood; empty for nothing.
        message: String,
    },
    /// A job is queued.
    Queue {
        /// The job.
        job: Box<JobSpec>,
    },
}

fn answer(code: u16, message: impl Into<String>) -> Decision {
    Decision::Answer { code, message: message.into() }
}

/// What to do about an event of the repository, whose provider has signed it.
pub(super) fn decide(repository: &Repository, provider: Provider, event: &Event) -> Decision {
    match event {
        Event::Ping => answer(200, "ping received"),
        Event::Other(name) if provider == Provider::Github => {
            answer(501, format!("unsupported messageType: {}", printable(name, MAX_SHOWN)))
        }
        // Others take a hook that answers with failures out of service.
        Event::Other(name) => {
            answer(200, format!("ignoring {}: only pushes matter", printable(name, MAX_SHOWN)))
        }
        Event::Push(push) => on_push(repository, push),
        Event::PullRequest(pull) => on_pull_request(repository, pull),
    }
}

fn on_push(repository: &Repository, push: &Push) -> Decision {
    if !is_about(repository, &push.repository) {
        return answer(400, "repository mismatch");
    }
    if !repository.spec.sync.enabled || push.branch(repository.spec.branch()).is_none() {
        return answer(200, "");
    }
    if let Some(why) = held_back(repository) {
        return answer(200, why);
    }
    // The payload's list of commits is cut short at both ends and says nothing of a forced push: the worker compares.
    Decision::Queue { job: Box::new(JobSpec::pull(name(repository), true)) }
}

fn on_pull_request(repository: &Repository, pull: &PullRequestEvent) -> Decision {
    if !is_about(repository, &pull.repository) {
        return answer(400, "repository mismatch");
    }
    let configured = repository.spec.branch();
    let default = pull.repository.default_branch.as_deref().unwrap_or_default();
    let ours = if configured.is_empty() { default } else { configured };
    if pull.base != ours {
        let base = printable(&pull.base, MAX_SHOWN);
        return answer(200, format!("ignoring pull request event as {base} is not the configured branch"));
    }
    if !matches!(pull.action.as_str(), "opened" | "reopened" | "synchronize") {
        return answer(200, format!("ignore pull request event: {}", printable(&pull.action, MAX_SHOWN)));
    }
    if let Some(why) = held_back(repository) {
        return answer(200, why);
    }
    let options = PullRequestJobOptions {
        reference: pull.head.clone(),
        pr: pull.number,
        hash: pull.commit.clone(),
        url: pull.url.clone(),
        ..PullRequestJobOptions::default()
    };
    let mut job = JobSpec::pull(name(repository), false);
    (job.action, job.pull, job.pr) = (JobAction::PullRequest, None, Some(options));
    Decision::Queue { job: Box::new(job) }
}

fn name(repository: &Repository) -> &str {
    repository.metadata.name.as_deref().unwrap_or_default()
}

fn is_about(repository: &Repository, told: &RepositoryId) -> bool {
    let spec = &repository.spec;
    let id = spec.github.as_ref().map(|github| github.repo_id).filter(|id| *id != 0);
    spec.url().is_some_and(|url| told.is_at(url, id))
}

/// Why a repository is not worked on now. One that merely could not be reached is: the push says that its server is up.
/// Whoever is held back is pulled in full once that is over.
fn held_back(repository: &Repository) -> Option<String> {
    if repository.metadata.deletion_timestamp.is_some() {
        return Some("the repository is being deleted".to_owned());
    }
    let ready = conditions::find(&repository.status.conditions, types::READY)?;
    let passing = [
        reasons::AVAILABLE,
        reasons::UNAVAILABLE,
        reasons::REPOSITORY_EMPTY,
        reasons::AUTHENTICATION_FAILED,
        reasons::SERVICE_UNAVAILABLE,
        reasons::RATE_LIMITED,
    ];
    let held = !repository.status.health.healthy && !passing.contains(&ready.reason.as_str());
    held.then(|| format!("the repository is not pulled now ({}); it is once that is over", ready.reason))
}

#[cfg(test)]
mod tests;
