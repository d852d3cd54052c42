//! The custom resource definitions of every kind.
//!
//! They are what an API server knows of a kind: the embedded one and a real kube-apiserver take the same
//! documents. Schemas come from the types and their doc comments.

mod columns;
mod extras;
mod structural;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition,
    CustomResourceDefinitionNames, CustomResourceDefinitionSpec, CustomResourceDefinitionVersion,
    CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
    SelectableField,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use schemars::JsonSchema;
use serde_json::Value;

use crate::{Connection, Dashboard, Folder, HistoricJob, Job, Repository, SERVED_VERSIONS, flux};

/// Every definition, in the order of their names.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut definitions = vec![
        define::<Repository>(Definition {
            served: &SERVED_VERSIONS,
            short_names: &["repo"],
            status: true,
            columns: columns::repository(),
            extras: extras::repository,
            selectable: &[".spec.connection.name", ".spec.type"],
            ..Definition::default()
        }),
        define::<Connection>(Definition {
            served: &SERVED_VERSIONS,
            status: true,
            columns: columns::connection(),
            extras: extras::connection,
            selectable: &[".spec.type"],
            ..Definition::default()
        }),
        define::<Job>(Definition {
            served: &SERVED_VERSIONS,
            short_names: &["pjob"],
            columns: columns::job(),
            extras: extras::job,
            selectable: &[".spec.action", ".spec.repository", ".status.state"],
            ..Definition::default()
        }),
        define::<HistoricJob>(Definition {
            served: &SERVED_VERSIONS,
            short_names: &["hjob"],
            columns: columns::job(),
            extras: extras::historic_job,
            selectable: &[".spec.action", ".spec.repository", ".status.state"],
            ..Definition::default()
        }),
        define::<Folder>(Definition { columns: columns::folder(), ..Definition::default() }),
        define::<Dashboard>(Definition {
            columns: columns::dashboard(),
            served: &Dashboard::VERSIONS,
            ..Definition::default()
        }),
    ];
    definitions.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    definitions
}

/// The definitions of Flux's kinds: for servers that nobody gave Flux's own.
pub fn flux() -> Vec<CustomResourceDefinition> {
    vec![
        define::<flux::GitRepository>(Definition {
            short_names: &["gitrepo"],
            categories: &["all", "fluxcd", "fluxcd-sources"],
            status: true,
            columns: flux::columns(),
            extras: flux::extras,
            ..Definition::default()
        }),
        define::<flux::ExternalArtifact>(Definition {
            categories: &["all", "fluxcd"],
            status: true,
            columns: flux::external_artifact::columns(),
            extras: flux::external_artifact::extras,
            ..Definition::default()
        }),
        define::<flux::Receiver>(Definition {
            categories: &["all", "fluxcd", "fluxcd-notifications"],
            status: true,
            columns: flux::receiver::columns(),
            extras: flux::receiver::extras,
            ..Definition::default()
        }),
    ]
}

/// Name of the file that a definition is committed as.
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

/// A definition as the YAML document that is committed; the same text for the same definition.
pub fn yaml(crd: &CustomResourceDefinition) -> Result<String, crate::yaml::Error> {
    crate::yaml::to_string(crd)
}

/// What a kind has beside its type.
struct Definition {
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    status: bool,
    columns: Vec<CustomResourceColumnDefinition>,
    selectable: &'static [&'static str],
    /// Versions that are served, all of one shape; the type's own when empty.
    served: &'static [&'static str],
    /// What the schema has beyond the type.
    extras: fn(&mut Value),
}

impl Default for Definition {
    fn default() -> Self {
        Self {
            short_names: &[],
            categories: &["windlass"],
            status: false,
            columns: Vec::new(),
            selectable: &[],
            served: &[],
            extras: extras::none,
        }
    }
}

fn define<K>(definition: Definition) -> CustomResourceDefinition
where
    K: Resource<DynamicType = ()> + JsonSchema,
{
    let kind = K::kind(&()).into_owned();
    let plural = K::plural(&()).into_owned();
    let storage = K::version(&()).into_owned();
    let schema = structural::schema_of::<K>(definition.extras);
    let own = [storage.as_str()];
    let served = if definition.served.is_empty() { &own } else { definition.served };
    let versions = served
        .iter()
        .map(|version| version_of(version, *version == storage, &definition, schema.clone()))
        .collect();
    CustomResourceDefinition {
        metadata: ObjectMeta { name: Some(format!("{plural}.{}", K::group(&()))), ..ObjectMeta::default() },
        spec: CustomResourceDefinitionSpec {
            group: K::group(&()).into_owned(),
            names: CustomResourceDefinitionNames {
                categories: Some(definition.categories.iter().map(ToString::to_string).collect()),
                singular: Some(kind.to_ascii_lowercase()),
                list_kind: Some(format!("{kind}List")),
                short_names: (!definition.short_names.is_empty())
                    .then(|| definition.short_names.iter().map(ToString::to_string).collect()),
                kind,
                plural,
            },
            scope: "Namespaced".to_owned(),
            conversion: Some(CustomResourceConversion { strategy: "None".to_owned(), webhook: None }),
            preserve_unknown_fields: None,
            versions,
        },
        status: None,
    }
}

fn version_of(
    name: &str,
    storage: bool,
    definition: &Definition,
    schema: JSONSchemaProps,
) -> CustomResourceDefinitionVersion {
    let selectable: Vec<SelectableField> =
        definition.selectable.iter().map(|path| SelectableField { json_path: (*path).to_owned() }).collect();
    CustomResourceDefinitionVersion {
        name: name.to_owned(),
        served: true,
        storage,
        additional_printer_columns: Some(definition.columns.clone()),
        selectable_fields: (!selectable.is_empty()).then_some(selectable),
        schema: Some(CustomResourceValidation { open_api_v3_schema: Some(schema) }),
        subresources: definition.status.then(|| CustomResourceSubresources {
            status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
            scale: None,
        }),
        ..CustomResourceDefinitionVersion::default()
    }
}

#[cfg(test)]
mod tests;
