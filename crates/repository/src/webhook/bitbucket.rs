//! Bitbucket's payloads: those of the cloud, and those of a server of one's own.

use serde::Deserialize;

use super::event::{Branch, Event, ParseError, Push, RepositoryId, commit_or_nothing, moved, read};

#[derive(Deserialize)]
struct CloudPush {
    push: CloudChanges,
    repository: CloudRepository,
}

#[derive(Deserialize)]
struct CloudChanges {
    changes: Vec<CloudChange>,
}

#[derive(Deserialize)]
struct CloudChange {
    /// Nothing for a branch that was deleted.
    new: Option<CloudRef>,
}

#[derive(Deserialize)]
struct CloudRef {
    #[serde(rename = "type")]
    kind: String,
    name: String,
    target: Option<CloudTarget>,
}

#[derive(Deserialize)]
struct CloudTarget {
    hash: String,
}

#[derive(Deserialize)]
struct CloudRepository {
    full_name: String,
    mainbranch: Option<CloudBranch>,
}

#[derive(Deserialize)]
struct CloudBranch {
    name: String,
}

#[derive(Deserialize)]
struct ServerPush {
    changes: Vec<ServerChange>,
    repository: ServerRepository,
}

#[derive(Deserialize)]
struct ServerChange {
    #[serde(rename = "refId")]
    reference: String,
    #[serde(rename = "toHash", default)]
    to: String,
}

#[derive(Deserialize)]
struct ServerRepository {
    slug: String,
    project: ServerProject,
}

#[derive(Deserialize)]
struct ServerProject {
    key: String,
}

pub(super) fn event(name: &str, body: &[u8]) -> Result<Event, ParseError> {
    Ok(match name {
        "repo:push" => {
            let CloudPush { push, repository } = read(body)?;
            let branches = push.changes.into_iter().filter_map(|change| change.new);
            let branches = branches.filter(|new| new.kind == "branch").map(|new| Branch {
                name: new.name,
                commit: new.target.map(|target| commit_or_nothing(&target.hash)).unwrap_or_default(),
            });
            let branches = branches.collect();
            let default_branch = repository.mainbranch.map(|branch| branch.name);
            Event::Push(Push {
                repository: RepositoryId { path: repository.full_name, id: None, default_branch },
                at: None,
                branches,
            })
        }
        "repo:refs_changed" => {
            let ServerPush { changes, repository } = read(body)?;
            let branches = changes.iter().filter_map(|change| moved(&change.reference, &change.to)).collect();
            let path = format!("{}/{}", repository.project.key, repository.slug);
            Event::Push(Push {
                repository: RepositoryId { path, id: None, default_branch: None },
                branches,
                at: None,
            })
        }
        "diagnostics:ping" => Event::Ping,
        other => Event::Other(other.to_owned()),
    })
}
