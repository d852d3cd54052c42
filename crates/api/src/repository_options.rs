//! How a repository is pulled, and how changes are written to it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wire::is_zero;

/// When and into what a repository is pulled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SyncOptions {
    /// Whether the repository is pulled on its own.
    #[serde(default)]
    pub enabled: bool,
    /// Where the repository's files end up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<SyncTarget>,
    /// Seconds between two looks at the remote; raised to the server's minimum.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub interval_seconds: i64,
}

/// Where a repository's files end up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SyncTarget {
    /// The whole namespace: no other repository may exist in it.
    Instance,
    /// One folder that is named as the repository.
    Folder,
    /// The root, beside what other repositories put there.
    Folderless,
}

impl SyncTarget {
    /// The wire's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Instance => "instance",
            Self::Folder => "folder",
            Self::Folderless => "folderless",
        }
    }
}

/// A way in which changes may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Workflow {
    /// Straight to the repository's branch.
    Write,
    /// To a branch of its own.
    Branch,
}

/// Webhook settings of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookConfig {
    /// Public URL of this server, instead of the configured one; http or https.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 2048))]
    pub base_url: String,
    /// Whether the remote is only polled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disabled: bool,
}

/// How commits are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommitOptions {
    /// Template of the message of a commit that changes one resource. Variables: action, resourceKind,
    /// resourceID, title, userName, userLogin, userEmail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub single_resource_message_template: String,
    /// Whether a person's own message is refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub enforce_template: bool,
    /// Name of the author; forbidden with a signing method.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub author_name: String,
    /// E-mail of the author; forbidden with a signing method.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub author_email: String,
    /// Name of the signer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub signer_name: String,
    /// E-mail of the signer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub signer_email: String,
    /// How commits are signed; unsigned when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_method: Option<SigningMethod>,
    /// Whether the signer is also the author.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub signer_is_author: bool,
    /// Public certificate for S/MIME, in PEM.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub smime_certificate: String,
}

/// How a commit is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SigningMethod {
    /// `OpenPGP`.
    Gpg,
    /// SSH signature.
    Ssh,
    /// S/MIME.
    Smime,
}

/// How new branches are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BranchOptions {
    /// Template of a new branch's name. Variables: action, resourceKind, title, userLogin, random.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub name_template: String,
    /// Whether a person's own name is refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub enforce_template: bool,
}

/// How pull requests are written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequestOptions {
    /// Template of a pull request's title.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub title_template: String,
    /// Whether a person's own title is refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub enforce_template: bool,
    /// Whether pull requests get pictures of the dashboards that they change.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generate_dashboard_previews: bool,
}
