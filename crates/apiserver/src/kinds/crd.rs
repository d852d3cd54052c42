//! A kind from a `CustomResourceDefinition` document.

use std::cmp::Reverse;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionVersion,
};
use kube::core::Version;
use tokio_util::sync::CancellationToken;

use super::kind::{Kind, KindError, ScalePaths, Served};
use windlass_apimachinery::schema::Schema;
use windlass_apimachinery::table::Column;

/// The kind that a definition defines.
pub(crate) fn kind(document: &CustomResourceDefinition) -> Result<Kind, KindError> {
    let problem = |problem: String| KindError::ReadDefinition {
        crd: document.metadata.name.clone().unwrap_or_default(),
        problem,
    };
    let spec = &document.spec;
    let status = document.status.as_ref();
    // The names that no other definition has; a document that was never stored has those that it asks for.
    let names = status.and_then(|status| status.accepted_names.as_ref()).unwrap_or(&spec.names);
    let terminating = document.metadata.deletion_timestamp.is_some();
    let stored = spec
        .versions
        .iter()
        .find(|version| version.storage)
        .ok_or_else(|| problem("no version has storage: true".to_owned()))?;
    let mut versions = Vec::new();
    for version in spec.versions.iter().filter(|version| version.served || version.storage) {
        let mut one = served(&spec.group, &names.kind, version).map_err(&problem)?;
        one.deprecation = deprecation(document, version);
        versions.push(one);
    }
    versions.sort_by_key(|version| Reverse(version_priority(&version.version)));
    let storage = versions.iter().position(|version| version.version == stored.name).unwrap_or_default();
    let shared = versions.get(storage).map(|version| version.openapi.clone()).unwrap_or_default();
    for version in &mut versions {
        version.prunes = version.openapi != shared;
    }
    Ok(Kind {
        group: spec.group.clone(),
        kind: names.kind.clone(),
        list_kind: names.list_kind.clone().unwrap_or_else(|| format!("{}List", names.kind)),
        plural: spec.names.plural.clone(),
        singular: names.singular.clone().unwrap_or_else(|| names.kind.to_lowercase()),
        short_names: names.short_names.clone().unwrap_or_default(),
        categories: names.categories.clone().unwrap_or_default(),
        namespaced: spec.scope == "Namespaced",
        builtin: None,
        versions,
        storage,
        terminating,
        gone: CancellationToken::new(),
    })
}

/// The warning of a deprecated version: its own, or the name of a better one.
fn deprecation(
    document: &CustomResourceDefinition,
    version: &CustomResourceDefinitionVersion,
) -> Option<String> {
    if version.deprecated != Some(true) {
        return None;
    }
    if let Some(warning) = &version.deprecation_warning {
        return Some(warning.clone());
    }
    let spec = &document.spec;
    let warning = format!("{}/{} {} is deprecated", spec.group, version.name, spec.names.kind);
    let better = spec
        .versions
        .iter()
        .filter(|other| other.served && other.deprecated != Some(true))
        .map(|other| other.name.as_str())
        .filter(|other| version_priority(other) > version_priority(&version.name))
        .max_by_key(|other| version_priority(other));
    Some(match better {
        Some(better) => format!("{warning}; use {}/{better} {}", spec.group, spec.names.kind),
        None => warning,
    })
}

fn served(group: &str, kind: &str, version: &CustomResourceDefinitionVersion) -> Result<Served, String> {
    let properties = version
        .schema
        .as_ref()
        .and_then(|validation| validation.open_api_v3_schema.as_ref())
        .ok_or_else(|| format!("version {} has no schema", version.name))?;
    let schema = Schema::root(properties).map_err(|error| format!("version {}: {error}", version.name))?;
    let openapi = serde_json::to_value(properties).map_err(|error| error.to_string())?;
    let mut served = Served::new(group, &version.name, kind, schema, openapi);
    served.offered = version.served;
    served.status_subresource =
        version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some());
    let scale = version.subresources.as_ref().and_then(|subresources| subresources.scale.as_ref());
    if let Some(scale) = scale {
        served.scale = Some(ScalePaths {
            spec: fields_of(&scale.spec_replicas_path),
            status: fields_of(&scale.status_replicas_path),
            selector: scale.label_selector_path.as_deref().filter(|path| !path.is_empty()).map(fields_of),
            scale: super::scale::scale().map_err(|error| error.to_string())?,
        });
    }
    served.selectable = version
        .selectable_fields
        .iter()
        .flatten()
        .map(|field| field.json_path.trim_start_matches('.').to_owned())
        .collect();
    served.columns = columns(version.additional_printer_columns.as_deref().unwrap_or_default())?;
    Ok(served)
}

/// `.spec.size` as the names of fields.
fn fields_of(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').map(str::to_owned).collect()
}

fn columns(definitions: &[CustomResourceColumnDefinition]) -> Result<Vec<Column>, String> {
    let mut columns = vec![Column::name()];
    if definitions.is_empty() {
        columns.push(Column::custom_age());
    }
    for definition in definitions {
        columns.push(
            Column::json_path(&definition.name, &definition.type_, &definition.json_path)
                .map_err(|error| format!("column {}: {error}", definition.name))?
                .format(definition.format.as_deref().unwrap_or_default())
                .description(definition.description.as_deref().unwrap_or_default())
                .priority(definition.priority.unwrap_or_default()),
        );
    }
    Ok(columns)
}

/// Kubernetes' order of versions, the greatest first: v2, v1, v1beta2, v1beta1, v1alpha1, then any other name.
pub(super) fn version_priority(version: &str) -> impl Ord + use<> {
    Version::parse(version).priority()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_number() {
        let mut versions = vec!["v1alpha1", "v0alpha1", "v1beta1", "foo", "v2", "v1", "v1beta2"];
        versions.sort_by_key(|version| Reverse(version_priority(version)));
        assert_eq!(versions, ["v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "v0alpha1", "foo"]);
    }
}
