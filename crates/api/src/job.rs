//! Jobs: what is to be done to a repository, and how far it is.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    consts::{GROUP, VERSION},
    file_outcome::FileOutcome,
    job_options::{
        DeleteOptions, FixFolderMetadataOptions, MigrateOptions, MoveOptions, PullOptions,
        PullRequestJobOptions, PushOptions, TestOptions,
    },
    job_state::JobState,
    repository_urls::RepositoryUrls,
    wire::is_zero,
};

/// A job that is queued or running.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Standard object metadata; the claim is in the labels.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::object_metadata")]
    pub metadata: ObjectMeta,
    /// What is to be done.
    #[serde(default)]
    pub spec: JobSpec,
    /// How far it is.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub status: JobStatus,
}

root_object!(Job { group: GROUP, version: VERSION, plural: "jobs", always: [spec, status], unless_zero: [] });

/// The record of a job that has ended.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoricJob {
    /// Standard object metadata; the job's UID is in the labels.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::object_metadata")]
    pub metadata: ObjectMeta,
    /// What was to be done.
    #[serde(default)]
    pub spec: JobSpec,
    /// How it ended.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub status: JobStatus,
}

root_object!(HistoricJob {
    group: GROUP,
    version: VERSION,
    plural: "historicjobs",
    always: [spec, status],
    unless_zero: []
});

/// What a job is to do.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    /// What to do; the options of the same name belong to it.
    #[serde(default)]
    pub action: JobAction,
    /// Name of the repository in the job's namespace.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repository: String,
    /// Commit message, for the actions that write to the repository.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub message: String,
    /// Options of `pr`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pr: Option<PullRequestJobOptions>,
    /// Options of `push`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub push: Option<PushOptions>,
    /// Options of `pull`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull: Option<PullOptions>,
    /// Options of `migrate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrate: Option<MigrateOptions>,
    /// Options of `delete`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete: Option<DeleteOptions>,
    /// Options of `move`.
    #[serde(rename = "move", default, skip_serializing_if = "Option::is_none")]
    pub move_: Option<MoveOptions>,
    /// Options of `fixFolderMetadata`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix_folder_metadata: Option<FixFolderMetadataOptions>,
    /// Options of `test`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<TestOptions>,
}

impl JobSpec {
    /// A pull of a repository.
    pub fn pull(repository: impl Into<String>, incremental: bool) -> Self {
        Self {
            action: JobAction::Pull,
            repository: repository.into(),
            pull: Some(PullOptions { incremental }),
            ..Self::default()
        }
    }

    /// A test job, which sleeps and reports progress.
    pub fn test(repository: impl Into<String>, test: TestOptions) -> Self {
        Self { action: JobAction::Test, repository: repository.into(), test: Some(test), ..Self::default() }
    }
}

/// What a job does.
///
/// An unknown name is kept ([`JobAction::Other`]) so that validation can refuse it by naming the field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JobAction {
    /// From the repository into the API.
    Pull,
    /// From the API into the repository.
    Push,
    /// Looks at a pull request and comments on it.
    PullRequest,
    /// Moves what is in the API under the repository's care.
    Migrate,
    /// Deletes files.
    Delete,
    /// Moves files.
    Move,
    /// Adds or corrects folder metadata files.
    FixFolderMetadata,
    /// Releases the resources of a repository that is gone.
    ReleaseResources,
    /// Deletes the resources of a repository that is gone.
    DeleteResources,
    /// Sleeps and reports progress.
    Test,
    /// Anything else; empty when absent.
    Other(String),
}

impl JobAction {
    /// Every action that can be asked for.
    pub const ALL: [Self; 10] = [
        Self::Pull,
        Self::Push,
        Self::PullRequest,
        Self::Migrate,
        Self::Delete,
        Self::Move,
        Self::FixFolderMetadata,
        Self::ReleaseResources,
        Self::DeleteResources,
        Self::Test,
    ];

    /// The wire's name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Pull => "pull",
            Self::Push => "push",
            Self::PullRequest => "pr",
            Self::Migrate => "migrate",
            Self::Delete => "delete",
            Self::Move => "move",
            Self::FixFolderMetadata => "fixFolderMetadata",
            Self::ReleaseResources => "releaseResources",
            Self::DeleteResources => "deleteResources",
            Self::Test => "test",
            Self::Other(name) => name,
        }
    }

    /// The action of a wire name.
    pub fn parse(name: &str) -> Self {
        Self::ALL
            .into_iter()
            .find(|action| action.as_str() == name)
            .unwrap_or_else(|| Self::Other(name.to_owned()))
    }

    /// Whether no action is given.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    /// Whether every repository that is there takes such jobs: they read it, and write to the API alone.
    pub fn only_reads(&self) -> bool {
        matches!(self, Self::Pull | Self::PullRequest | Self::Test)
    }

    /// Whether the action cleans up after a repository that is gone or going.
    pub fn is_orphan_cleanup(&self) -> bool {
        matches!(self, Self::ReleaseResources | Self::DeleteResources)
    }
}

impl Default for JobAction {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl fmt::Display for JobAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for JobAction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for JobAction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::parse(&Cow::<'de, str>::deserialize(deserializer)?))
    }
}

impl JsonSchema for JobAction {
    fn schema_name() -> Cow<'static, str> {
        "JobAction".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<String> = Self::ALL.iter().map(ToString::to_string).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

/// How far a job is, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    /// State of the job; absent while it is only queued.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub state: JobState,
    /// When a worker began, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub started: i64,
    /// When the job ended, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub finished: i64,
    /// What is being done, or how it ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub message: String,
    /// What went wrong, the first 20.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub errors: Vec<String>,
    /// What was left out, and why.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub warnings: Vec<String>,
    /// Share of the work that is done, in percent.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub progress: f64,
    /// How often the status was written.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub progress_updates: i64,
    /// What was done, by kind.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub summary: Vec<JobResourceSummary>,
    /// Every file that was left out or repaired, by path. An addition to the original's status, written once, when the
    /// job has ended.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub files: Vec<FileOutcome>,
    /// How many more there were than `files` has room for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub files_omitted: i64,
    /// Links into the provider. The key is singular on the wire.
    #[serde(rename = "url", default, skip_serializing_if = "Option::is_none")]
    pub urls: Option<RepositoryUrls>,
}

/// What a job did to resources of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobResourceSummary {
    /// API group.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub group: String,
    /// Kind.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kind: String,
    /// How many there are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total: i64,
    /// How many were created.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub create: i64,
    /// How many were updated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub update: i64,
    /// How many were deleted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delete: i64,
    /// How many were created or updated.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub write: i64,
    /// How many had been changed or deleted by hand, and were set back; they count as updated or created as well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub repaired: i64,
    /// How many failed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub error: i64,
    /// How many were left out with a warning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub warning: i64,
    /// How many needed nothing.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub noop: i64,
    /// How many changes there were in all.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub total_changes: i64,
    /// What failed.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub errors: Vec<String>,
    /// What was left out, and why.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub warnings: Vec<String>,
}
