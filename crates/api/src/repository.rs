//! A Git repository (or a local folder) that is kept in step with an API.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    consts::{GROUP, VERSION},
    repository_options::{
        BranchOptions, CommitOptions, PullRequestOptions, SyncOptions, WebhookConfig, Workflow,
    },
    repository_status::RepositoryStatus,
    secure::SecureValues,
    wire::is_zero,
};

/// A repository whose files are kept in step with folders and dashboards.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Repository {
    /// Standard object metadata.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::object_metadata")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: RepositorySpec,
    /// Secrets: raw on the way in, references on the way out.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub secure: SecureValues,
    /// What was observed.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub status: RepositoryStatus,
}

root_object!(Repository {
    group: GROUP,
    version: VERSION,
    plural: "repositories",
    always: [spec, status],
    unless_zero: [secure]
});

/// What a repository should be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RepositorySpec {
    /// Name that people read.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub title: String,
    /// What the repository is for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub description: String,
    /// How commits are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<CommitOptions>,
    /// How new branches are named. The branch that is read is in the provider's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchOptions>,
    /// How pull requests are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequestOptions>,
    /// Ways in which changes may be written, the preferred one first; empty for read-only.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    #[schemars(length(max = 10))]
    pub workflows: Vec<Workflow>,
    /// When and into what the repository is pulled.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub sync: SyncOptions,
    /// Provider of the repository; the settings of the same name belong to it.
    #[serde(rename = "type")]
    pub kind: RepositoryType,
    /// Webhook settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<WebhookConfig>,
    /// Settings of a folder on the server's disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<LocalRepository>,
    /// Settings of a GitHub repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<GithubRepository>,
    /// Settings of a GitHub Enterprise repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github_enterprise: Option<GithubEnterpriseRepository>,
    /// Settings of a repository on any Git server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitRepository>,
    /// Settings of a Bitbucket repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitbucket: Option<BitbucketRepository>,
    /// Settings of a GitLab repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gitlab: Option<GitlabRepository>,
    /// Connection whose credentials are used instead of a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionRef>,
}

impl RepositorySpec {
    /// URL of the remote, if the active settings have one: without slashes at its end, and without `.git` where a host
    /// names a repository with and without. Whether admission has trimmed what is stored makes no difference.
    pub fn url(&self) -> Option<&str> {
        let url = match self.kind {
            RepositoryType::Local => None,
            RepositoryType::Github => self.github.as_ref().map(|c| &c.url),
            RepositoryType::GithubEnterprise => self.github_enterprise.as_ref().map(|c| &c.url),
            RepositoryType::Git => self.git.as_ref().map(|c| &c.url),
            RepositoryType::Bitbucket => self.bitbucket.as_ref().map(|c| &c.url),
            RepositoryType::Gitlab => self.gitlab.as_ref().map(|c| &c.url),
        };
        let url = url?.trim_end_matches('/');
        // A server of one's own may well have its repositories at names that end in .git.
        let hosted = !matches!(self.kind, RepositoryType::Git | RepositoryType::Local);
        let url = if hosted { url.trim_end_matches(".git") } else { url };
        (!url.is_empty()).then_some(url)
    }

    /// URL of the remote in the active settings, for writing; `None` if the settings are missing.
    pub fn url_mut(&mut self) -> Option<&mut String> {
        match self.kind {
            RepositoryType::Local => None,
            RepositoryType::Github => self.github.as_mut().map(|c| &mut c.url),
            RepositoryType::GithubEnterprise => self.github_enterprise.as_mut().map(|c| &mut c.url),
            RepositoryType::Git => self.git.as_mut().map(|c| &mut c.url),
            RepositoryType::Bitbucket => self.bitbucket.as_mut().map(|c| &mut c.url),
            RepositoryType::Gitlab => self.gitlab.as_mut().map(|c| &mut c.url),
        }
    }

    /// Branch in the active settings; empty for a local folder, and when the default branch is meant.
    pub fn branch(&self) -> &str {
        let branch = match self.kind {
            RepositoryType::Local => None,
            RepositoryType::Github => self.github.as_ref().map(|c| &c.branch),
            RepositoryType::GithubEnterprise => self.github_enterprise.as_ref().map(|c| &c.branch),
            RepositoryType::Git => self.git.as_ref().map(|c| &c.branch),
            RepositoryType::Bitbucket => self.bitbucket.as_ref().map(|c| &c.branch),
            RepositoryType::Gitlab => self.gitlab.as_ref().map(|c| &c.branch),
        };
        branch.map_or("", String::as_str)
    }

    /// Path inside the repository (or on the disk, for a local folder) in the active settings; empty for the root.
    pub fn path(&self) -> &str {
        let path = match self.kind {
            RepositoryType::Local => self.local.as_ref().map(|c| &c.path),
            RepositoryType::Github => self.github.as_ref().map(|c| &c.path),
            RepositoryType::GithubEnterprise => self.github_enterprise.as_ref().map(|c| &c.path),
            RepositoryType::Git => self.git.as_ref().map(|c| &c.path),
            RepositoryType::Bitbucket => self.bitbucket.as_ref().map(|c| &c.path),
            RepositoryType::Gitlab => self.gitlab.as_ref().map(|c| &c.path),
        };
        path.map_or("", String::as_str)
    }

    /// User name that goes with the token; each provider expects its own.
    pub fn token_user(&self) -> &str {
        let configured = match self.kind {
            RepositoryType::Git => self.git.as_ref().map(|c| c.token_user.as_str()),
            RepositoryType::Bitbucket => self.bitbucket.as_ref().map(|c| c.token_user.as_str()),
            _ => None,
        };
        match (configured, self.kind) {
            (Some(user), _) if !user.is_empty() => user,
            (_, RepositoryType::Bitbucket) => "x-token-auth",
            (_, RepositoryType::Gitlab) => "oauth2",
            _ => "git",
        }
    }

    /// Whether a Git server stands behind the repository.
    pub fn is_git(&self) -> bool {
        self.kind != RepositoryType::Local
    }

    /// Name of the connection whose credentials are used, or `""`.
    pub fn connection_name(&self) -> &str {
        self.connection.as_ref().map_or("", |connection| &connection.name)
    }
}

/// Provider of a repository.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub enum RepositoryType {
    /// A folder on the server's disk.
    Local,
    /// github.com.
    Github,
    /// A GitHub Enterprise server.
    GithubEnterprise,
    /// Any Git server.
    #[default]
    Git,
    /// Bitbucket.
    Bitbucket,
    /// GitLab.
    Gitlab,
}

impl RepositoryType {
    /// Every type, in the order of the wire's documentation.
    pub const ALL: [Self; 6] =
        [Self::Local, Self::Github, Self::GithubEnterprise, Self::Git, Self::Bitbucket, Self::Gitlab];

    /// The wire's name, which is also the name of the settings in the spec.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Github => "github",
            Self::GithubEnterprise => "githubEnterprise",
            Self::Git => "git",
            Self::Bitbucket => "bitbucket",
            Self::Gitlab => "gitlab",
        }
    }

    /// The type of a wire name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl std::fmt::Display for RepositoryType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A folder on the server's disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalRepository {
    /// Path of the folder; it has to be under a permitted prefix.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 1024))]
    pub path: String,
}

/// A repository on github.com.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GithubRepository {
    /// URL of the repository, for example `https://github.com/example/dashboards`.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 2048))]
    pub url: String,
    /// Branch that is read; the repository's default when empty. Always written.
    #[serde(default)]
    #[schemars(length(max = 255))]
    pub branch: String,
    /// Whether pull requests get pictures of the dashboards that they change.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generate_dashboard_previews: bool,
    /// Folder inside the repository; the root when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 1024))]
    pub path: String,
    /// Numeric identity of the repository at the provider, resolved by the server.
    #[serde(rename = "repoID", default, skip_serializing_if = "is_zero")]
    pub repo_id: i64,
}

/// A repository on a GitHub Enterprise server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GithubEnterpriseRepository {
    /// URL of the server.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 2048))]
    pub server_url: String,
    /// URL of the repository.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 2048))]
    pub url: String,
    /// Branch that is read; the repository's default when empty. Always written.
    #[serde(default)]
    #[schemars(length(max = 255))]
    pub branch: String,
    /// Folder inside the repository; the root when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 1024))]
    pub path: String,
}

/// A repository on any Git server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitRepository {
    /// URL of the repository, https (http where the settings allow that origin).
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 2048))]
    pub url: String,
    /// Branch that is read; the repository's default when empty. Always written.
    #[serde(default)]
    #[schemars(length(max = 255))]
    pub branch: String,
    /// User name that goes with the token; `git` when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub token_user: String,
    /// Folder inside the repository; the root when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 1024))]
    pub path: String,
}

/// A repository on Bitbucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BitbucketRepository {
    /// URL of the repository.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 2048))]
    pub url: String,
    /// Branch that is read; the repository's default when empty. Always written.
    #[serde(default)]
    #[schemars(length(max = 255))]
    pub branch: String,
    /// User name that goes with the token; `x-token-auth` when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub token_user: String,
    /// E-mail of the account, for Bitbucket's REST API.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub email: String,
    /// Folder inside the repository; the root when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 1024))]
    pub path: String,
}

/// A repository on GitLab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitlabRepository {
    /// URL of the repository.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 2048))]
    pub url: String,
    /// Branch that is read; the repository's default when empty. Always written.
    #[serde(default)]
    #[schemars(length(max = 255))]
    pub branch: String,
    /// Folder inside the repository; the root when empty.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(length(max = 1024))]
    pub path: String,
}

/// A reference to a connection in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionRef {
    /// Name of the connection.
    #[serde(default)]
    #[schemars(length(max = 253))]
    pub name: String,
}
