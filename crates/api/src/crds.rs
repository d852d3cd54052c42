//! The custom resource definitions of every kind.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// Every definition, in the order of their names.
pub fn all() -> Vec<CustomResourceDefinition> {
    Vec::new()
}

/// A definition as the YAML document that is committed; the same text for the same definition.
pub fn yaml(crd: &CustomResourceDefinition) -> String {
    crate::yaml::to_string(crd).unwrap_or_default()
}
