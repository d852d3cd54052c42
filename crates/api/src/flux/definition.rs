//! What the definition of `GitRepository` says beyond the type: as Flux's own does.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;
use serde_json::{Value, json};

use crate::rules::place_mut;

pub(super) const DIGEST: &str = "^[a-z0-9]+(?:[.+_-][a-z0-9]+)*:[a-zA-Z0-9=_-]+$";
pub(super) const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

pub(crate) fn extras(schema: &mut Value) {
    plain(schema);
    let mut set = |place: &str, key: &str, value: Value| place_mut(schema, place)[key] = value;
    set("spec", "required", json!(["interval", "url"]));
    set("spec.url", "pattern", json!("^(http|https|ssh)://.*$"));
    set("spec.interval", "pattern", json!(r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"));
    set("spec.timeout", "pattern", json!(r"^([0-9]+(\.[0-9]+)?(ms|s|m))+$"));
    set("spec.timeout", "default", json!("60s"));
    set("spec.provider", "enum", json!(["generic", "aws", "azure", "github"]));
    set("spec.verify.mode", "enum", json!(["head", "HEAD", "Tag", "TagAndHEAD"]));
    set("spec.verify.mode", "default", json!("HEAD"));
    let rule = json!([{
        "message": "serviceAccountName can only be set when provider is 'azure' or 'aws'",
        "rule": "!has(self.serviceAccountName) || (has(self.provider) && (self.provider == 'azure' || self.provider \
                 == 'aws'))",
    }]);
    set("spec", "x-kubernetes-validations", rule);
    set("status", "default", json!({"observedGeneration": -1}));
    set("status.conditions[].type", "pattern", json!(CONDITION_TYPE));
    for artifact in ["status.artifact", "status.includedArtifacts[]"] {
        set(&format!("{artifact}.digest"), "pattern", json!(DIGEST));
    }
    if let Some(root) = schema.as_object_mut() {
        root.remove("required");
    }
}

/// Without `nullable` and types of lists, which Flux's definitions do not say.
pub(super) fn plain(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for key in ["nullable", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"] {
                object.remove(key);
            }
            object.values_mut().for_each(plain);
        }
        Value::Array(items) => items.iter_mut().for_each(plain),
        _ => {}
    }
}

pub(crate) fn columns() -> Vec<CustomResourceColumnDefinition> {
    vec![
        column("URL", "string", ".spec.url"),
        column("Age", "date", ".metadata.creationTimestamp"),
        column("Ready", "string", &ready("status")),
        column("Status", "string", &ready("message")),
    ]
}

/// A field of the condition `Ready`.
pub(super) fn ready(field: &str) -> String {
    format!(".status.conditions[?(@.type==\"Ready\")].{field}")
}

pub(super) fn column(name: &str, kind: &str, json_path: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: kind.to_owned(),
        json_path: json_path.to_owned(),
        ..CustomResourceColumnDefinition::default()
    }
}
