//! Small things that trees need.
//!
//! Where the pods of a tree run is said by fragments that its objects share:
//!
//! ```
//! # use k8s_openapi::api::core::v1::PodSpec;
//! # use windlass_provisioner::util;
//! let labels = [("app".to_owned(), "network".to_owned())].into();
//! let network = PodSpec {
//!     node_selector: Some(util::control_plane_selector()),
//!     tolerations: Some([util::control_plane_tolerations(), util::bootstrap_tolerations()].concat()),
//!     affinity: Some(util::one_a_node(&labels)),
//!     topology_spread_constraints: Some(vec![util::spread_over(util::ZONE, &labels)]),
//!     ..PodSpec::default()
//! };
//! assert_eq!(network.tolerations.map(|tolerations| tolerations.len()), Some(3));
//! ```

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Namespace, PodAffinityTerm, PodAntiAffinity, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use serde::Serialize;
use serde_json::Value;

use crate::{ProvisionError, Reason, Scope};

/// The label of a node with its zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The label of a node with its name.
pub const HOST: &str = "kubernetes.io/hostname";
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

/// Never puts two pods with these labels on one node.
pub fn one_a_node(labels: &BTreeMap<String, String>) -> Affinity {
    let term = PodAffinityTerm {
        label_selector: Some(selecting(labels)),
        topology_key: HOST.to_owned(),
        ..PodAffinityTerm::default()
    };
    Affinity {
        pod_anti_affinity: Some(PodAntiAffinity {
            required_during_scheduling_ignored_during_execution: Some(vec![term]),
            ..PodAntiAffinity::default()
        }),
        ..Affinity::default()
    }
}

/// Spreads the pods with these labels evenly over the values of a node's label, such as [`ZONE`], as far as there is room:
/// a pod that would make it uneven runs all the same.
pub fn spread_over(topology_key: &str, labels: &BTreeMap<String, String>) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        label_selector: Some(selecting(labels)),
        max_skew: 1,
        topology_key: topology_key.to_owned(),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        ..TopologySpreadConstraint::default()
    }
}

fn selecting(labels: &BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels.clone()), ..LabelSelector::default() }
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
    fn scheduling_fragments_are_a_pods_fields_as_kubernetes_writes_them() {
        let labels = BTreeMap::from([("app".to_owned(), "network".to_owned())]);
        let selector = json!({"matchLabels": {"app": "network"}});
        assert_eq!(
            json!(control_plane_selector()),
            json!({"node-role.kubernetes.io/control-plane": ""}),
            "the label of its nodes has no value"
        );
        let taint = |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoSchedule"});
        assert_eq!(
            json!([control_plane_tolerations(), bootstrap_tolerations()].concat()),
            json!([
                taint("node-role.kubernetes.io/control-plane"),
                taint("node.cloudprovider.kubernetes.io/uninitialized"),
                taint("node.cilium.io/agent-not-ready"),
            ])
        );
        let apart = json!([{"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}]);
        assert_eq!(
            json!(one_a_node(&labels)),
            json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}})
        );
        assert_eq!(
            json!(spread_over(ZONE, &labels)),
            json!({
                "labelSelector": selector, "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
            })
        );
    }

    #[test]
    fn a_configuration_hash_changes_with_what_it_says_alone() {
        let one = configuration_hash(&json!({"a": 1, "b": [2]})).unwrap();
        assert_eq!(one, configuration_hash(&json!({"b": [2], "a": 1})).unwrap());
        assert_ne!(one, configuration_hash(&json!({"a": 1, "b": [3]})).unwrap());
    }
}
