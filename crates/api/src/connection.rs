//! Connections to a provider, whose credentials several repositories share: a GitHub App. Other types are stored, and are
//! said not to be supported yet.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    consts::{GROUP, VERSION},
    field_error::FieldError,
    health::{ErrorDetails, HealthStatus, TokenStatus},
    rules::Rule,
    secure::{InlineSecureValue, secure_rules},
    wire::is_zero,
};

/// A connection to a provider.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Connection {
    /// Standard object metadata.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::object_metadata")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ConnectionSpec,
    /// Secrets: raw on the way in, references on the way out.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub secure: ConnectionSecureValues,
    /// What was observed.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub status: ConnectionStatus,
}

root_object!(Connection {
    group: GROUP,
    version: VERSION,
    plural: "connections",
    always: [spec, status],
    unless_zero: [secure]
});

/// What is asked of a connection by both servers.
pub(crate) const RULES: &[&[Rule<Connection>]] = &[&secure_rules!(
    "privateKey" "raw-private-key" "private-key-twice" "private-key-name" private_key,
    "clientSecret" "raw-client-secret" "client-secret-twice" "client-secret-name" client_secret,
    "token" "raw-token" "token-twice" "token-name" token,
)];

impl Connection {
    /// Every rule of the definition that the connection breaks.
    pub fn broken_rules(&self, old: Option<&Self>) -> Vec<FieldError> {
        crate::rules::broken(RULES, "", self, old)
    }
}

/// What a connection should be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionSpec {
    /// Name that people read.
    #[serde(default)]
    pub title: String,
    /// What the connection is for.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub description: String,
    /// Provider and way of authentication.
    #[serde(rename = "type")]
    pub kind: ConnectionType,
    /// URL of the provider's page about the connection, set by the server.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub url: String,
    /// Settings of a GitHub App.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<ConnectionGithub>,
    /// Settings of a GitHub App on a GitHub Enterprise server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github_enterprise: Option<ConnectionGithubEnterprise>,
    /// Settings of OAuth on a GitHub Enterprise server.
    #[serde(rename = "githubEnterpriseOAuth", default, skip_serializing_if = "Option::is_none")]
    pub github_enterprise_oauth: Option<ConnectionGithubEnterpriseOauth>,
    /// Settings of Bitbucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitbucket: Option<ConnectionBitbucket>,
    /// Settings of OAuth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<ConnectionOauth>,
    /// Webhook settings of the connection's repositories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<ConnectionWebhook>,
}

/// Provider of a connection, and the way of authentication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ConnectionType {
    /// A GitHub App.
    #[default]
    #[serde(rename = "github")]
    Github,
    /// A GitHub App on a GitHub Enterprise server.
    #[serde(rename = "githubEnterprise")]
    GithubEnterprise,
    /// OAuth on github.com.
    #[serde(rename = "githubOAuth")]
    GithubOauth,
    /// OAuth on a GitHub Enterprise server.
    #[serde(rename = "githubEnterpriseOAuth")]
    GithubEnterpriseOauth,
    /// GitLab.
    #[serde(rename = "gitlab")]
    Gitlab,
    /// Bitbucket.
    #[serde(rename = "bitbucket")]
    Bitbucket,
}

impl ConnectionType {
    /// The name on the wire, which is that of its settings under `spec`, too.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::GithubEnterprise => "githubEnterprise",
            Self::GithubOauth => "githubOAuth",
            Self::GithubEnterpriseOauth => "githubEnterpriseOAuth",
            Self::Gitlab => "gitlab",
            Self::Bitbucket => "bitbucket",
        }
    }
}

/// A GitHub App.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ConnectionGithub {
    /// Identity of the App.
    #[serde(rename = "appID", default)]
    pub app_id: String,
    /// Identity of the App's installation.
    #[serde(rename = "installationID", default)]
    pub installation_id: String,
}

/// A GitHub App on a GitHub Enterprise server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ConnectionGithubEnterprise {
    /// Identity of the App.
    #[serde(rename = "appID", default)]
    pub app_id: String,
    /// Identity of the App's installation.
    #[serde(rename = "installationID", default)]
    pub installation_id: String,
    /// URL of the server.
    #[serde(rename = "serverUrl", default)]
    pub server_url: String,
}

/// OAuth on a GitHub Enterprise server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ConnectionGithubEnterpriseOauth {
    /// URL of the server.
    #[serde(rename = "serverUrl", default)]
    pub server_url: String,
}

/// Bitbucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ConnectionBitbucket {
    /// Workspace that holds the repositories.
    #[serde(default)]
    pub workspace: String,
}

/// OAuth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ConnectionOauth {
    /// Identity of the client at the provider.
    #[serde(rename = "clientID", default)]
    pub client_id: String,
}

/// Webhook settings of a connection's repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ConnectionWebhook {
    /// Whether the remotes are only polled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub disabled: bool,
}

/// The secrets of a connection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionSecureValues {
    /// Private key of the App.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub private_key: InlineSecureValue,
    /// Secret of the OAuth client.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub client_secret: InlineSecureValue,
    /// Token that was made from the others.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub token: InlineSecureValue,
}

/// What was observed of a connection.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionStatus {
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
    /// Age of the generated token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenStatus>,
}
