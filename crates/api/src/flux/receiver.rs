//! `notification.toolkit.fluxcd.io/v1 Receiver`: whom a provider's webhook wakes.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::LocalReference;
use super::definition::{CONDITION_TYPE, column, plain, ready};
use crate::rules::place_mut;
use crate::wire::is_zero;

/// The group of Flux's notifications.
pub const NOTIFICATION_GROUP: &str = "notification.toolkit.fluxcd.io";
/// Where webhooks are taken in: this, and the digest of the receiver's token, name and namespace.
pub const WEBHOOK_PATH: &str = "/hook/";

/// Something that webhooks are sent to, and what is reconciled then.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Receiver {
    /// Standard object metadata.
    #[serde(default)]
    #[schemars(schema_with = "crate::schema::object_metadata")]
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(default)]
    pub spec: ReceiverSpec,
    /// What was observed.
    #[serde(default, deserialize_with = "crate::wire::null_as_zero")]
    pub status: ReceiverStatus,
}

root_object!(Receiver {
    group: NOTIFICATION_GROUP,
    version: super::SOURCE_VERSION,
    plural: "receivers",
    always: [spec],
    unless_zero: [status]
});

/// Who sends, how that is verified, and what is reconciled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiverSpec {
    /// Who sends, which says how a delivery is verified.
    #[serde(rename = "type")]
    pub kind: String,
    /// How often the Secret is looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<String>,
    /// The events that are heeded, by the sender's names; all of them without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// What is reconciled.
    pub resources: Vec<ReceiverResource>,
    /// CEL expression of the resources that are reconciled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_filter: Option<String>,
    /// Secret of the same namespace, whose token deliveries are verified with.
    pub secret_ref: LocalReference,
    /// Whether deliveries are refused.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub suspend: bool,
}

/// Objects that are reconciled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiverResource {
    /// Group and version of the kind; Flux's own without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind.
    pub kind: String,
    /// The name; `*` for those that the labels select.
    pub name: String,
    /// The namespace; the receiver's own without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Labels that the objects have, where the name is `*`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
}

/// What was observed of a receiver.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiverStatus {
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` that was heeded last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_handled_reconcile_at: Option<String>,
    /// What holds of the receiver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The path that deliveries are sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_path: Option<String>,
    /// Generation of the specification that the status is about; -1 before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What the definition says beyond the type, as Flux's own does.
pub(crate) fn extras(schema: &mut Value) {
    plain(schema);
    let mut set = |place: &str, key: &str, value: Value| place_mut(schema, place)[key] = value;
    set("spec", "required", json!(["resources", "secretRef", "type"]));
    let senders = [
        "generic",
        "generic-hmac",
        "github",
        "gitlab",
        "bitbucket",
        "harbor",
        "dockerhub",
        "quay",
        "gcr",
        "nexus",
        "acr",
        "cdevents",
    ];
    set("spec.type", "enum", json!(senders));
    set("spec.interval", "pattern", json!(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"));
    set("spec.interval", "default", json!("10m"));
    let kinds = [
        "Bucket",
        "GitRepository",
        "Kustomization",
        "HelmRelease",
        "HelmChart",
        "HelmRepository",
        "ImageRepository",
        "ImagePolicy",
        "ImageUpdateAutomation",
        "OCIRepository",
        "ArtifactGenerator",
        "ExternalArtifact",
    ];
    set("spec.resources[].kind", "enum", json!(kinds));
    for name in ["spec.resources[].name", "spec.resources[].namespace"] {
        set(name, "minLength", json!(1));
        set(name, "maxLength", json!(253));
    }
    set("status", "default", json!({"observedGeneration": -1}));
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
    ]
}
