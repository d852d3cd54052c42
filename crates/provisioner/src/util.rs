//! Small things that trees need.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Namespace, Toleration};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;

use crate::{ProvisionError, Reason, Scope};

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

/// Tolerates nodes of the control plane.
pub fn control_plane_tolerations() -> Vec<Toleration> {
    vec![toleration(CONTROL_PLANE, "NoSchedule")]
}

/// Selects nodes of the control plane.
pub fn control_plane_selector() -> BTreeMap<String, String> {
    BTreeMap::from([(CONTROL_PLANE.to_owned(), String::new())])
}

/// Tolerates nodes that are not ready since their cloud provider or network is not: for what makes them so.
pub fn bootstrap_tolerations() -> Vec<Toleration> {
    vec![
        toleration("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"),
        toleration("node.cilium.io/agent-not-ready", "NoSchedule"),
    ]
}

fn toleration(key: &str, effect: &str) -> Toleration {
    Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    }
}

/// The one namespace of the target cluster with these labels.
pub async fn namespace_by_labels(
    scope: &Scope,
    labels: &BTreeMap<String, String>,
) -> Result<String, ProvisionError> {
    let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let selector = selector.join(",");
    let api: Api<Namespace> = Api::all(scope.target.client().clone());
    let params = ListParams::default().labels(&selector);
    let found = scope.calls().read("list namespaces", || api.list(&params)).await;
    let found = found.map_err(|error| scope.target.failed("list namespaces", error))?;
    match found.items.as_slice() {
        [one] => Ok(one.name_any()),
        others => {
            let message = format!("{} namespaces have the labels {selector}, and not one", others.len());
            Err(ProvisionError::retry(Reason::DependencyNotFound, message))
        }
    }
}

/// SHA-256 of a configuration, hexadecimal: as an annotation of a pod template it restarts pods when it changes. The
/// order of fields does not count.
pub fn configuration_hash(configuration: &impl Serialize) -> Result<String, ProvisionError> {
    let document: Value = serde_json::to_value(configuration).map_err(|error| {
        ProvisionError::terminal(Reason::Failed, "a configuration cannot be written as JSON").caused_by(error)
    })?;
    Ok(crate::resource::hash(&document))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_hash_changes_with_what_it_says_alone() {
        let one = configuration_hash(&json!({"a": 1, "b": [2]})).unwrap();
        assert_eq!(one, configuration_hash(&json!({"b": [2], "a": 1})).unwrap());
        assert_ne!(one, configuration_hash(&json!({"a": 1, "b": [3]})).unwrap());
    }
}
