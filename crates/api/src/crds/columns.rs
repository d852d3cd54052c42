//! The columns that `kubectl get` shows.
//!
//! Times on this wire are Unix milliseconds, which a date column cannot show; states and refs tell the story.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;

/// A column that is always shown.
fn column(name: &str, kind: &str, json_path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: kind.to_owned(),
        json_path: json_path.to_owned(),
        description: Some(description.to_owned()),
        ..CustomResourceColumnDefinition::default()
    }
}

/// A column that only `-o wide` shows.
fn wide(name: &str, kind: &str, json_path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition { priority: Some(1), ..column(name, kind, json_path, description) }
}

fn age() -> CustomResourceColumnDefinition {
    column("Age", "date", ".metadata.creationTimestamp", "Time since the object was created.")
}

/// The settings of whatever Git provider there is.
macro_rules! provider {
    ($field:literal) => {
        concat!(".spec['git','github','githubEnterprise','gitlab','bitbucket'].", $field)
    };
}

pub(super) fn repository() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Type", "string", ".spec.type", "Provider of the repository."),
        column("URL", "string", provider!("url"), "URL of the remote."),
        column("Branch", "string", provider!("branch"), "Branch that is read."),
        column("Healthy", "boolean", ".status.health.healthy", "Whether the last check passed."),
        column("Sync", "string", ".status.sync.state", "State of the last pull."),
        column("Last Ref", "string", ".status.sync.lastRef", "Last ref that was pulled."),
        age(),
        wide("Title", "string", ".spec.title", "Name that people read."),
        wide("Target", "string", ".spec.sync.target", "Where the repository's files end up."),
        wide("Path", "string", provider!("path"), "Folder inside the repository."),
        wide(
            "Reason",
            "string",
            ".status.conditions[?(@.type==\"Ready\")].reason",
            "Why the repository is ready or not.",
        ),
        wide("Message", "string", ".status.health.message[0]", "What the last check found wrong."),
    ]
}

pub(super) fn connection() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Type", "string", ".spec.type", "Provider and way of authentication."),
        column("Title", "string", ".spec.title", "Name that people read."),
        column("Healthy", "boolean", ".status.health.healthy", "Whether the last check passed."),
        age(),
    ]
}

pub(super) fn job() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Action", "string", ".spec.action", "What the job does."),
        column("Repository", "string", ".spec.repository", "Repository that it is done to."),
        column("State", "string", ".status.state", "How far it is."),
        column("Progress", "integer", ".status.progress", "Share of the work that is done, in percent."),
        column("Message", "string", ".status.message", "What is being done, or how it ended."),
        age(),
        wide(
            "Attempt",
            "string",
            r".metadata.labels.windlass\.dev/attempt",
            "How often the job was claimed.",
        ),
        wide(
            "Owner",
            "string",
            r".metadata.labels.provisioning\.grafana\.app/claim-owner",
            "Token of the present claim.",
        ),
        wide(
            "Revision",
            "string",
            r".metadata.annotations.windlass\.dev/revision",
            "Revision that the job worked on.",
        ),
        wide("Error", "string", ".status.errors[0]", "The first thing that went wrong."),
        wide("Warning", "string", ".status.warnings[0]", "The first thing that was left out."),
    ]
}

pub(super) fn folder() -> Vec<CustomResourceColumnDefinition> {
    let mut columns = vec![column("Title", "string", ".spec.title", "Name that people read.")];
    columns.extend(managed());
    columns
}

pub(super) fn dashboard() -> Vec<CustomResourceColumnDefinition> {
    let mut columns = vec![column("Title", "string", ".spec.title", "Name that people read.")];
    columns.extend(managed());
    columns
}

/// What a managed resource's annotations say.
fn managed() -> [CustomResourceColumnDefinition; 4] {
    [
        column("Folder", "string", r".metadata.annotations.grafana\.app/folder", "Folder that holds it."),
        column(
            "Manager",
            "string",
            r".metadata.annotations.grafana\.app/managerId",
            "Repository that manages it.",
        ),
        age(),
        wide(
            "Source",
            "string",
            r".metadata.annotations.grafana\.app/sourcePath",
            "File that it comes from.",
        ),
    ]
}
