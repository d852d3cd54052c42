//! What was observed of a repository.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    file_outcome::FileOutcome,
    health::{ErrorDetails, HealthStatus, TokenStatus},
    job::JobStatus,
    job_state::JobState,
    patch::merge_diff,
    wire::is_zero,
};

/// What was observed of a repository.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepositoryStatus {
    /// Generation of the spec that the rest of the status is about. Always written.
    #[serde(default)]
    pub observed_generation: i64,
    /// Errors of the last check, by field.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub field_errors: Vec<ErrorDetails>,
    /// Conditions, one for each type.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Result of the last check. Always written.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub health: HealthStatus,
    /// State of the last pull. Always written.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub sync: SyncStatus,
    /// How many resources the repository manages, by kind.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub stats: Vec<ResourceCount>,
    /// What is not in the API as the repository has it, until it is. An addition to the original's status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsynced: Option<UnsyncedStatus>,
    /// The provider's webhook. Always written, `null` when there is none.
    #[serde(default)]
    pub webhook: Option<WebhookStatus>,
    /// Age of the generated token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenStatus>,
    /// Why a deletion is blocked, in the old form.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delete_error: String,
    /// Why a deletion is blocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<DeletionStatus>,
    /// Limits that apply to the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaStatus>,
}

impl RepositoryStatus {
    /// The merge patch of a repository that turns the status `self` into `after`; nothing when they are the same.
    ///
    /// What readers rely on being there is named in every patch: a status that was never written is read as one full of
    /// zeros, which no difference shows.
    pub fn merge_patch(&self, after: &Self) -> Option<Value> {
        let (before, wanted) = (serde_json::to_value(self).ok()?, serde_json::to_value(after).ok()?);
        let mut status = merge_diff(&before, &wanted)?;
        status["observedGeneration"] = wanted["observedGeneration"].clone();
        status["health"]["healthy"] = wanted["health"]["healthy"].clone();
        status["sync"]["state"] = wanted["sync"]["state"].clone();
        Some(json!({"status": status}))
    }
}

/// State of a repository's last pull.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncStatus {
    /// State of the last pull; empty before the first. Always written.
    #[serde(default)]
    pub state: JobState,
    /// Name of the job that pulls or has pulled last.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub job: String,
    /// When the pull started, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub started: i64,
    /// When the pull ended, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub finished: i64,
    /// When the next pull is due, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub scheduled: i64,
    /// What went wrong. Always written, `null` when there is nothing to say.
    #[serde(default)]
    pub message: Option<Vec<String>>,
    /// Last ref that was pulled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_ref: String,
    /// Whether the last pull looked only at what had changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub incremental: bool,
    /// When the source was last found to be at `lastRef`, so that there was nothing to pull, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checked: i64,
    /// When the last pull that compared everything ended, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_full: i64,
}

impl SyncStatus {
    /// What a job's status says about its repository's pull. `scheduled`, `last_ref`, `incremental`, `checked` and
    /// `last_full` are left empty: the job does not know them.
    pub fn of_job(name: &str, status: &JobStatus) -> Self {
        let message = if !status.errors.is_empty() {
            Some(status.errors.clone())
        } else if !status.warnings.is_empty() {
            Some(status.warnings.clone())
        } else if status.state == JobState::Error {
            Some(vec![status.message.clone()])
        } else {
            None
        };
        Self {
            state: status.state,
            job: name.to_owned(),
            started: status.started,
            finished: status.finished,
            message,
            ..Self::default()
        }
    }
}

/// Files and folders that are not in the API as the repository has them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnsyncedStatus {
    /// How many there are.
    #[serde(default)]
    pub count: i64,
    /// The first of them, by path; `repositories/{name}/unsynced` has all.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub items: Vec<FileOutcome>,
    /// Name of the historic job that has all of them, where there are more than are listed here.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub record: String,
    /// Whether deletions are among them: only a comparison of everything finds again what has to be deleted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub has_deletions: bool,
}

impl UnsyncedStatus {
    /// Whether nothing but a change of the files can resolve them: all are listed here, and a pull of the same revision
    /// would try none of them again.
    pub fn awaits_changes(&self) -> bool {
        usize::try_from(self.count) == Ok(self.items.len()) && self.items.iter().all(|file| !file.retry)
    }
}

/// A provider's webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookStatus {
    /// Numeric identity at the provider.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub id: i64,
    /// Textual identity at the provider.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub uuid: String,
    /// URL that the provider calls.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub url: String,
    /// Events that the provider sends.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub subscribed_events: Vec<String>,
    /// When the last event came, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_event: i64,
    /// When the secret was last changed, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_rotated: i64,
}

/// How many resources of one kind a repository manages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceCount {
    /// API group.
    #[serde(default)]
    pub group: String,
    /// Resource, in the plural.
    #[serde(default)]
    pub resource: String,
    /// How many there are.
    #[serde(default)]
    pub count: i64,
}

/// Limits that apply to a repository; 0 for none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuotaStatus {
    /// Most repositories in the namespace.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_repositories: i64,
    /// Most resources that the repository may manage.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_resources_per_repository: i64,
    /// When the limits were looked up, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub updated_at: i64,
}

/// Why a deletion does not go on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionStatus {
    /// `Blocked` after a pass over the finalizers has failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub state: String,
    /// Finalizer that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub finalizer: String,
    /// What went wrong, for a reader.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub message: String,
    /// What went wrong, one by one.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub errors: Vec<DeletionError>,
}

impl DeletionStatus {
    /// The state of a deletion that a finalizer holds up.
    pub const BLOCKED: &'static str = "Blocked";
}

/// One error of a blocked deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionError {
    /// Kind of the error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub code: String,
    /// What went wrong, for a reader.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub detail: String,
    /// Finalizer that failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub finalizer: String,
    /// Resource that it failed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<DeletionTarget>,
}

/// A resource that a deletion stumbled over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeletionTarget {
    /// API group.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub group: String,
    /// Resource, in the plural.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub resource: String,
    /// Name of the object.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub name: String,
}
