//! The options of each job action.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{duration::GoDuration, wire::is_zero};

/// Options of a pull.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullOptions {
    /// Whether only what changed since the last pull is looked at. Always written.
    #[serde(default)]
    pub incremental: bool,
}

/// Options of a look at a pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestJobOptions {
    /// Branch of the pull request.
    #[serde(rename = "ref", default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 255))]
    pub reference: String,
    /// Number of the pull request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub pr: i64,
    /// Commit that the pull request points at.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub hash: String,
    /// URL of the pull request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub url: String,
    /// Whether the pull request comes from a fork; absent when unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_fork: Option<bool>,
    /// URL of the fork.
    #[serde(rename = "forkURL", default, skip_serializing_if = "is_zero")]
    pub fork_url: String,
}

/// Options of a push.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PushOptions {
    /// Commit message. Deprecated: the job has one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub message: String,
    /// Folder whose resources are pushed; all when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub folder: String,
    /// Branch that is written to; the repository's when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 255))]
    pub branch: String,
    /// Path under which files are written.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 1024))]
    pub path: String,
    /// Resources that are pushed; all unmanaged ones when empty.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    #[schemars(length(max = 100))]
    pub resources: Vec<ResourceRef>,
    /// Whether folders get new identities.
    #[serde(rename = "generateNewFolderIDs", default, skip_serializing_if = "is_zero")]
    pub generate_new_folder_ids: bool,
}

/// Options of a migration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MigrateOptions {
    /// Commit message. Deprecated: the job has one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub message: String,
    /// Branch that is written to; the repository's when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 255))]
    pub branch: String,
    /// Resources that are migrated; all unmanaged ones when empty.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    #[schemars(length(max = 100))]
    pub resources: Vec<ResourceRef>,
    /// Whether folders get new identities.
    #[serde(rename = "generateNewFolderIDs", default, skip_serializing_if = "is_zero")]
    pub generate_new_folder_ids: bool,
    /// Whether what is not in the repository stays.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip_resource_deletion: bool,
}

/// Options of a deletion of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// Branch that is written to; the repository's when empty.
    #[serde(rename = "ref", default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 255))]
    pub reference: String,
    /// Files and folders that are deleted.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    #[schemars(length(max = 1000), inner(length(max = 1024)))]
    pub paths: Vec<String>,
    /// Resources whose files are deleted.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    #[schemars(length(max = 100))]
    pub resources: Vec<ResourceRef>,
}

/// Options of a move of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MoveOptions {
    /// Branch that is written to; the repository's when empty.
    #[serde(rename = "ref", default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 255))]
    pub reference: String,
    /// Files and folders that are moved.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    #[schemars(length(max = 1000), inner(length(max = 1024)))]
    pub paths: Vec<String>,
    /// Folder that they are moved to.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 1024))]
    pub target_path: String,
    /// Resources whose files are moved.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    #[schemars(length(max = 100))]
    pub resources: Vec<ResourceRef>,
}

/// Options of a repair of folder metadata.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FixFolderMetadataOptions {
    /// Branch that is written to; the repository's when empty.
    #[serde(rename = "ref", default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 255))]
    pub reference: String,
}

/// Options of a test job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TestOptions {
    /// How long the job sleeps, for example `5s`; at most 15 minutes.
    #[serde(default)]
    pub duration: GoDuration,
    /// How often progress is reported; 10 when 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0, max = 1000))]
    pub progress_updates: i64,
}

/// A reference to a resource, whatever file it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceRef {
    /// Name of the object.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Kind, for example `Dashboard`.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// API group, for example `dashboard.grafana.app`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub group: String,
}
