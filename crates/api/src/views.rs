//! Documents that are answered but not stored.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    file_outcome::FileOutcome,
    health::ErrorDetails,
    job::JobSpec,
    repository::RepositoryType,
    repository_options::{BranchOptions, CommitOptions, PullRequestOptions, SyncTarget, Workflow},
    repository_status::ResourceCount,
    repository_urls::RepositoryUrls,
    wire::is_zero,
};

/// Answer of `…/test`: whether a repository can be used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct TestResults {
    /// HTTP status code that describes the result.
    pub code: i64,
    /// Whether the repository can be used.
    pub success: bool,
    /// What is wrong, by field.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub errors: Vec<ErrorDetails>,
}

/// Answer of `…/webhook`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct WebhookResponse {
    /// 200 when there was nothing to do, 202 when a job was queued.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: i64,
    /// What was understood, for a reader. The key really is `added`.
    #[serde(rename = "added", default, skip_serializing_if = "is_zero")]
    pub message: String,
    /// Job that was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobSpec>,
}

/// Answer of `…/resources`: what a repository manages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ResourceList {
    /// The resources.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub items: Vec<ResourceListItem>,
}

/// One resource that a repository manages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ResourceListItem {
    /// Path of its file.
    #[serde(default)]
    pub path: String,
    /// API group.
    #[serde(default)]
    pub group: String,
    /// Resource, in the plural.
    #[serde(default)]
    pub resource: String,
    /// Name of the object.
    #[serde(default)]
    pub name: String,
    /// Hash of its file.
    #[serde(default)]
    pub hash: String,
    /// Time of its file, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub time: i64,
    /// Name that people read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub title: String,
    /// Name of the folder that holds it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub folder: String,
}

/// Answer of `…/unsynced`: what is not in the API as the repository has it. Paged as lists of objects are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct UnsyncedList {
    /// Where the next page begins, and how many files follow.
    #[serde(default)]
    pub metadata: ListMeta,
    /// Files and folders, by path.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub items: Vec<FileOutcome>,
}

/// Answer of `/stats`: who manages how many resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ResourceStats {
    /// All resources.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub instance: Vec<ResourceCount>,
    /// Resources without a manager.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub unmanaged: Vec<ResourceCount>,
    /// Resources by manager.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub managed: Vec<ManagedStats>,
}

/// How many resources one manager has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ManagedStats {
    /// Kind of the manager.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kind: String,
    /// Identity of the manager.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub id: String,
    /// How many, by resource.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub stats: Vec<ResourceCount>,
}

/// Answer of `…/files/`: the files of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct FileList {
    /// The files.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub items: Vec<FileItem>,
}

/// One file of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct FileItem {
    /// Path relative to the repository's path.
    pub path: String,
    /// Size in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub size: i64,
    /// Hash of the content.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hash: String,
    /// When it was last changed, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub modified: i64,
    /// Who changed it last.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub author: String,
}

/// Answer of `…/history`: the commits of a file or repository.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct HistoryList {
    /// Where the next page begins.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub metadata: ListMeta,
    /// The commits, newest first.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub items: Vec<HistoryItem>,
}

/// One commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryItem {
    /// The commit.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Its message.
    pub message: String,
    /// Its authors.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub authors: Vec<HistoryAuthor>,
    /// When it was made, in Unix milliseconds.
    pub created_at: i64,
}

/// Author of a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct HistoryAuthor {
    /// Full name.
    pub name: String,
    /// Name at the provider.
    pub username: String,
    /// Picture.
    #[serde(rename = "avatarURL", default, skip_serializing_if = "is_zero")]
    pub avatar_url: String,
}

/// Answer of `…/refs`: the branches of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct RefList {
    /// The branches.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub items: Vec<RefItem>,
}

/// One branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct RefItem {
    /// Its name.
    pub name: String,
    /// The commit that it points at.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hash: String,
    /// Its page at the provider.
    #[serde(rename = "refURL", default, skip_serializing_if = "is_zero")]
    pub ref_url: String,
    /// Whether something keeps direct writes from it; absent where the provider does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<bool>,
}

/// Answer of `…/files/{path}`: a file and the resource in it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ResourceWrapper {
    /// Path relative to the repository's path.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub path: String,
    /// Ref that was read.
    #[serde(rename = "ref", default, skip_serializing_if = "is_zero")]
    pub reference: String,
    /// Hash of the file.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hash: String,
    /// Repository that the file is in.
    #[serde(default)]
    pub repository: ResourceRepositoryInfo,
    /// Links into the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<RepositoryUrls>,
    /// Time of the file, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// The resource in its several forms.
    #[serde(default)]
    pub resource: ResourceObjects,
    /// What is wrong with the file.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub errors: Vec<String>,
}

/// The repository that a file is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ResourceRepositoryInfo {
    /// Its type.
    #[serde(rename = "type", default)]
    pub kind: RepositoryType,
    /// Name that people read.
    #[serde(default)]
    pub title: String,
    /// Its namespace.
    #[serde(default)]
    pub namespace: String,
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// A resource as it is in the file, as it is now, and as it would be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceObjects {
    /// Kind of the resource.
    #[serde(rename = "type", default)]
    pub kind: ResourceType,
    /// As it is in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<Value>,
    /// As it is in the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub existing: Option<Value>,
    /// What writing it would do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<ResourceAction>,
    /// As it would be after the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<Value>,
    /// As it is after the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upsert: Option<Value>,
}

/// Kind of a resource in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ResourceType {
    /// API group.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub group: String,
    /// API version.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: String,
    /// Kind.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kind: String,
    /// Resource, in the plural.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resource: String,
    /// `dashboard`, `datasources`, `alerting` or `access-control` for a file in a form of old.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub classic: String,
}

/// What writing a file does to its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ResourceAction {
    /// Creates it.
    Create,
    /// Updates it.
    Update,
    /// Deletes it.
    Delete,
    /// Moves it.
    Move,
}

/// Answer of `/settings`: what the server offers, and the repositories in brief.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryViewList {
    /// Targets that a repository may have.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub allowed_targets: Vec<SyncTarget>,
    /// Whether pictures can be made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub allow_image_rendering: bool,
    /// Most repositories in the namespace; 0 for no limit.
    #[serde(default)]
    pub max_repositories: i64,
    /// Types that a repository may have.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub available_repository_types: Vec<RepositoryType>,
    /// Types that a connection may have.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub available_connection_types: Vec<String>,
    /// Kinds that a repository may manage.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub available_resources: Vec<AvailableResource>,
    /// The repositories.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub items: Vec<RepositoryView>,
}

/// A kind that a repository may manage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct AvailableResource {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Whether it is switched off.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disabled: bool,
}

/// A repository in brief.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryView {
    /// Its name.
    pub name: String,
    /// Name that people read.
    pub title: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: RepositoryType,
    /// Where its files end up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<SyncTarget>,
    /// Branch that is read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub branch: String,
    /// URL of the remote.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub url: String,
    /// Path inside the repository.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub path: String,
    /// Ways in which changes may be written.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub workflows: Vec<Workflow>,
    /// How commits are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitOptions>,
    /// How new branches are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_options: Option<BranchOptions>,
    /// How pull requests are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequestOptions>,
}

/// The repositories that a connection can be used for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalRepositoryList {
    /// Each of them.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub items: Vec<ExternalRepository>,
}

/// A repository at a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExternalRepository {
    /// Its name there.
    #[serde(default)]
    pub name: String,
    /// The user or organisation that it belongs to.
    #[serde(default)]
    pub owner: String,
    /// Its page.
    #[serde(default)]
    pub url: String,
}
