//! GitHub's payloads. Grafana: `github/webhook.go`.

use serde::Deserialize;

use super::event::{Event, ParseError, PullRequestEvent, Push, RepositoryId, commit_or_nothing, moved, read};

#[derive(Deserialize)]
struct WireRepository {
    full_name: String,
    id: Option<i64>,
    default_branch: Option<String>,
    /// Seconds in a push, text in other events.
    pushed_at: Option<serde_json::Value>,
}

#[derive(Deserialize)]
struct WirePush {
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    after: String,
    #[serde(default)]
    deleted: bool,
    repository: WireRepository,
}

#[derive(Deserialize)]
struct WirePullRequest {
    action: String,
    number: i64,
    pull_request: WirePull,
    repository: WireRepository,
}

#[derive(Deserialize)]
struct WirePull {
    html_url: String,
    base: WireEnd,
    head: WireEnd,
}

#[derive(Deserialize)]
struct WireEnd {
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    sha: String,
}

impl From<WireRepository> for RepositoryId {
    fn from(wire: WireRepository) -> Self {
        Self { path: wire.full_name, id: wire.id, default_branch: wire.default_branch }
    }
}

pub(super) fn event(name: &str, body: &[u8]) -> Result<Event, ParseError> {
    Ok(match name {
        "push" => {
            let push: WirePush = read(body)?;
            let branch = moved(&push.reference, &push.after).filter(|_| !push.deleted);
            let at = push.repository.pushed_at.as_ref().and_then(serde_json::Value::as_i64);
            Event::Push(Push {
                repository: push.repository.into(),
                branches: branch.into_iter().collect(),
                at,
            })
        }
        "pull_request" => {
            let WirePullRequest { action, number, pull_request, repository } = read(body)?;
            Event::PullRequest(PullRequestEvent {
                repository: repository.into(),
                action,
                number,
                url: pull_request.html_url,
                base: pull_request.base.reference,
                head: pull_request.head.reference,
                commit: commit_or_nothing(&pull_request.head.sha),
            })
        }
        "ping" => Event::Ping,
        other => Event::Other(other.to_owned()),
    })
}
