//! `source.toolkit.fluxcd.io/v1 ExternalArtifact`: an artifact that somebody else than Flux's source controller made.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::definition::{CONDITION_TYPE, DIGEST, column, plain, ready};
use super::{Artifact, SOURCE_GROUP, SOURCE_VERSION};
use crate::rules::place_mut;

/// An artifact, and the object that it was made of.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalArtifact {
    /// Standard object metadata.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::object_metadata")]
    pub metadata: ObjectMeta,
    /// Whose it is.
    #[serde(default)]
    pub spec: ExternalArtifactSpec,
    /// The artifact.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub status: ExternalArtifactStatus,
}

root_object!(ExternalArtifact {
    group: SOURCE_GROUP,
    version: SOURCE_VERSION,
    plural: "externalartifacts",
    always: [spec],
    unless_zero: [status]
});

/// Whose an artifact is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalArtifactSpec {
    /// The object that it is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_ref: Option<SourceReference>,
}

/// An object of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceReference {
    /// Group and version of the kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; the artifact's own without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What there is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalArtifactStatus {
    /// The artifact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Artifact>,
    /// What holds of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// What the definition says beyond the type, as Flux's own does.
pub(crate) fn extras(schema: &mut Value) {
    plain(schema);
    let mut set = |place: &str, key: &str, value: Value| place_mut(schema, place)[key] = value;
    set("status.artifact.digest", "pattern", json!(DIGEST));
    set("status.conditions[].type", "pattern", json!(CONDITION_TYPE));
    if let Some(root) = schema.as_object_mut() {
        root.remove("required");
    }
}

pub(crate) fn columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Age", "date", ".metadata.creationTimestamp"),
        column("Ready", "string", &ready("status")),
        column("Status", "string", &ready("message")),
        column("Source", "string", ".spec.sourceRef.name"),
    ]
}
