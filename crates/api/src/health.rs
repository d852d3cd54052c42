//! Health and errors, as repositories and connections carry them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire::is_zero;

/// Whether the last check passed, and what was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HealthStatus {
    /// Whether the last check passed.
    #[serde(default)]
    pub healthy: bool,
    /// What failed: the webhook's set-up or the check itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<HealthErrorKind>,
    /// When the last check ended, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checked: i64,
    /// Until when its server is not asked, since it wants to be left alone, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retry_at: i64,
    /// What was wrong, for a reader.
    #[serde(default, skip_serializing_if = "is_zero", deserialize_with = "crate::wire::null_as_zero")]
    pub message: Vec<String>,
}

/// What a failing health is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum HealthErrorKind {
    /// The provider's webhook could not be set up.
    Hook,
    /// The repository or connection cannot be used.
    Health,
}

/// One error of a check, with the field that causes it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorDetails {
    /// Kind of the error, as a field error's reason (`FieldValueInvalid`, …).
    #[serde(rename = "type", default)]
    pub kind: String,
    /// Path of the field, for example `spec.git.branch`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub field: String,
    /// What is wrong, for a reader.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub detail: String,
    /// What found the error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub origin: String,
    /// The value that was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_value")]
    pub bad_value: Option<Value>,
}

/// Age of a generated token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenStatus {
    /// When the token was made, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last_updated: i64,
    /// When the token ends, in Unix milliseconds; 0 for never.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub expiration: i64,
}
