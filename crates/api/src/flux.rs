//! Flux's kinds of sources: `source.toolkit.fluxcd.io/v1`, as Flux's own controllers write and read them.
//!
//! On this wire absent and empty differ for some fields (`spec.ignore`), so fields are `Option`s here.

mod definition;
pub(crate) mod external_artifact;
pub(crate) mod receiver;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::is_zero;

pub(crate) use self::definition::{columns, extras};
pub use self::external_artifact::{
    ExternalArtifact, ExternalArtifactSpec, ExternalArtifactStatus, SourceReference,
};
pub use self::receiver::{
    NOTIFICATION_GROUP, OidcProvider, OidcValidation, OidcVariable, Receiver, ReceiverResource, ReceiverSpec,
    ReceiverStatus, WEBHOOK_PATH,
};

/// The group of Flux's sources.
pub const SOURCE_GROUP: &str = "source.toolkit.fluxcd.io";
/// Its version.
pub const SOURCE_VERSION: &str = "v1";
/// The finalizer of Flux's controllers.
pub const FINALIZER: &str = "finalizers.fluxcd.io";
/// The annotation with a regular expression of the tags that `spec.ref.semver` chooses from. What it captures as `version`, or
/// first, is the version; else all that it matches is. Ours, not Flux's.
pub const SEMVER_FILTER: &str = "windlass.dev/semver-filter";
/// The annotation whose change asks for a reconcile.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";

/// A Git repository whose files become an artifact.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepository {
    /// Standard object metadata, read without `managedFields`: a controller keeps every object in memory.
    #[serde(default, deserialize_with = "crate::wire::unmanaged")]
    #[schemars(schema_with = "crate::schema::object_metadata")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: GitRepositorySpec,
    /// What was observed.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub status: GitRepositoryStatus,
}

root_object!(GitRepository {
    group: SOURCE_GROUP,
    version: SOURCE_VERSION,
    plural: "gitrepositories",
    always: [spec],
    unless_zero: [status]
});

/// Which repository, which of its revisions, and how often it is looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositorySpec {
    /// URL of the repository: http, https or ssh.
    #[serde(default)]
    pub url: String,
    /// Secret with the credentials, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Who gives the credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Service account whose identity is shown, for azure and aws.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// How often the repository is looked at.
    #[serde(default)]
    pub interval: String,
    /// How long one operation of Git may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// Which revision; the default branch without it.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<GitRepositoryRef>,
    /// Whose signatures a revision has to carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<GitRepositoryVerification>,
    /// Secret with the address of a proxy, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_secret_ref: Option<LocalReference>,
    /// Patterns of files that are left out, in the form of `.sourceignore`; they win over those of such files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ignore: Option<String>,
    /// Whether the repository is left alone; what was made of it is served still.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suspend: bool,
    /// Whether the files of submodules belong to the artifact.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub recurse_submodules: bool,
    /// Artifacts of other Git repositories that are put into this one's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<GitRepositoryInclude>,
    /// Directories that belong to the artifact; all of them without it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sparse_checkout: Vec<String>,
}

/// An object of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct LocalReference {
    /// Its name.
    pub name: String,
}

/// A revision of a repository. Of several the strongest counts: commit, name, semver, tag, branch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct GitRepositoryRef {
    /// A branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// A tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The highest tag within a range of versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub semver: Option<String>,
    /// A ref by its full name, such as refs/pull/1/head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// A commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// Which signatures are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositoryVerification {
    /// What has to be signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Secret with the public keys, in the same namespace.
    pub secret_ref: LocalReference,
}

/// An artifact that is put into another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositoryInclude {
    /// Whose artifact: a Git repository of the same namespace.
    pub repository: LocalReference,
    /// The directory of it that is taken; all of it without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_path: Option<String>,
    /// Where it is put; a directory of the repository's name without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_path: Option<String>,
}

/// What was observed of a Git repository.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepositoryStatus {
    /// Generation of the specification that the status is about; -1 before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds of the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// What was made of the repository last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// The artifacts that were put into it, in the order of the specification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub included_artifacts: Vec<Artifact>,
    /// The patterns that it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_ignore: Option<String>,
    /// Whether it was made with submodules.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub observed_recurse_submodules: bool,
    /// What was put into it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_include: Vec<GitRepositoryInclude>,
    /// The directories that it was made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_sparse_checkout: Vec<String>,
    /// Which signatures were verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_verification_mode: Option<String>,
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` that was heeded last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
}

/// A file that consumers fetch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Artifact {
    /// Its path on the server.
    pub path: String,
    /// Where it is fetched.
    pub url: String,
    /// What it was made of, for people and programs.
    pub revision: String,
    /// Its digest, as algorithm and hexadecimal digits.
    pub digest: String,
    /// When it was made.
    #[schemars(schema_with = "crate::schema::time")]
    pub last_update_time: Time,
    /// Its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    /// What else its source says of it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
}
