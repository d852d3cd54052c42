//! GitLab's payloads.

use serde::Deserialize;

use super::event::{Event, ParseError, Push, RepositoryId, moved, read};

#[derive(Deserialize)]
struct WirePush {
    #[serde(rename = "ref")]
    reference: String,
    #[serde(default)]
    after: String,
    project: WireProject,
}

#[derive(Deserialize)]
struct WireProject {
    path_with_namespace: String,
    id: Option<i64>,
    default_branch: Option<String>,
}

pub(super) fn event(name: &str, body: &[u8]) -> Result<Event, ParseError> {
    if name != "Push Hook" {
        return Ok(Event::Other(name.to_owned()));
    }
    let push: WirePush = read(body)?;
    let WireProject { path_with_namespace, id, default_branch } = push.project;
    let branches = moved(&push.reference, &push.after).into_iter().collect();
    Ok(Event::Push(Push {
        repository: RepositoryId { path: path_with_namespace, id, default_branch },
        branches,
        at: None,
    }))
}
