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
    /// CEL expression that is true of the resources that are reconciled: of each one's metadata (`res`), the delivery's body
    /// (`req`) and, with the type `generic-oidc`, the claims of the sender's token (`claims`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_filter: Option<String>,
    /// Secret of the same namespace, whose token deliveries are verified with. Not with the type `generic-oidc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Who issues the tokens that senders show, with the type `generic-oidc`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub oidc_providers: Vec<OidcProvider>,
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
    /// CEL expression that has to be true beside `resourceFilter`, of the objects that are named here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
}

/// Who issues tokens (OIDC), and which of them are good.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OidcProvider {
    /// The issuer's URL, as tokens have it in `iss`; its keys are found by discovery.
    #[serde(rename = "issuerURL")]
    pub issuer_url: String,
    /// Whom a token has to be for (`aud`); `notification-controller` without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// CEL expressions with names, in order: each sees the token's `claims` and what stands before it, as `vars.<name>`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<OidcVariable>,
    /// What has to be true of `claims` and `vars`.
    pub validations: Vec<OidcValidation>,
}

/// An expression with a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct OidcVariable {
    /// The name.
    pub name: String,
    /// The CEL expression.
    pub expression: String,
}

/// A condition of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct OidcValidation {
    /// The CEL expression.
    pub expression: String,
    /// What is said where it is false.
    pub message: String,
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
    set("spec", "required", json!(["resources", "type"]));
    let senders = [
        "generic",
        "generic-hmac",
        "generic-oidc",
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
    set("spec.oidcProviders", "x-kubernetes-list-type", json!("map"));
    set("spec.oidcProviders", "x-kubernetes-list-map-keys", json!(["issuerURL"]));
    set("spec.oidcProviders[].issuerURL", "pattern", json!("^https?://"));
    set("spec.oidcProviders[].validations", "minItems", json!(1));
    set("spec", "x-kubernetes-validations", rules());
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

fn rules() -> Value {
    json!([
        {
            "message": "generic-oidc receivers must define at least one oidcProvider",
            "rule": "self.type != 'generic-oidc' || (has(self.oidcProviders) && size(self.oidcProviders) > 0)",
        },
        {
            "message": "oidcProviders can only be set when type is generic-oidc",
            "rule": "self.type == 'generic-oidc' || !has(self.oidcProviders) || size(self.oidcProviders) == 0",
        },
        {
            "message": "secretRef cannot be set when type is generic-oidc",
            "rule": "self.type != 'generic-oidc' || !has(self.secretRef)",
        },
        {
            "message": "secretRef is required when type is not generic-oidc",
            "rule": "self.type == 'generic-oidc' || has(self.secretRef)",
        },
    ])
}

pub(crate) fn columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("Age", "date", ".metadata.creationTimestamp"),
        column("Ready", "string", &ready("status")),
        column("Status", "string", &ready("message")),
    ]
}
