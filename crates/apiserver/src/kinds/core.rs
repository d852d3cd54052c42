//! The core kinds, as a table. Their schemas are in `core.yaml`.

use std::sync::Arc;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::kind::{Builtin, Kind, KindError, Review, Served};
use windlass_apimachinery::schema::Schema;
use windlass_apimachinery::table::Column;

/// Fields of Events: core/v1 and events.k8s.io/v1 are one storage, and have these under names of their own.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("count", "deprecatedCount"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("source", "deprecatedSource"),
    ("reportingComponent", "reportingController"),
];

/// The kinds that are built in.
pub(crate) fn kinds() -> Result<Vec<Arc<Kind>>, KindError> {
    let schemas = schemas()?;
    let plain = |builtin, group, name, short_names, namespaced, columns| -> Result<Kind, KindError> {
        let mut v1 = served(group, name, &schemas[name])?;
        v1.columns = columns;
        Ok(kind(builtin, name, short_names, namespaced, vec![v1]))
    };
    let columns =
        vec![Column::name(), column("Type", ".type")?, Column::count("Data", "data"), Column::age()];
    let mut secret = plain(Builtin::Secret, "", "Secret", &[], true, columns)?;
    secret.versions[0].selectable = vec!["type".to_owned()];
    let columns = vec![Column::name(), Column::count("Data", "data"), Column::age()];
    let config_map = plain(Builtin::ConfigMap, "", "ConfigMap", &["cm"], true, columns)?;
    let columns = vec![Column::name(), column("Status", ".status.phase")?, Column::age()];
    let mut namespace = plain(Builtin::Namespace, "", "Namespace", &["ns"], false, columns)?;
    namespace.versions[0].status_subresource = true;
    namespace.versions[0].selectable = vec!["status.phase".to_owned()];
    let columns = vec![Column::name(), column("Holder", ".spec.holderIdentity")?, Column::age()];
    let lease = plain(Builtin::Lease, "coordination.k8s.io", "Lease", &[], true, columns)?;
    let columns = vec![Column::name(), column("Created At", ".metadata.creationTimestamp")?];
    let (group, name) = ("apiextensions.k8s.io", "CustomResourceDefinition");
    let mut definition = plain(Builtin::Definition, group, name, &["crd", "crds"], false, columns)?;
    definition.versions[0].status_subresource = true;
    definition.categories = vec!["api-extensions".to_owned()];
    let mut all = vec![secret, config_map, event(&schemas)?, namespace, lease, definition];
    for (review, group, name) in [
        (Review::Subject, "authentication.k8s.io", "SelfSubjectReview"),
        (Review::Access, "authorization.k8s.io", "SelfSubjectAccessReview"),
        (Review::Rules, "authorization.k8s.io", "SelfSubjectRulesReview"),
    ] {
        all.push(plain(Builtin::Review(review), group, name, &[], false, Vec::new())?);
    }
    Ok(all.into_iter().map(Arc::new).collect())
}

fn event(schemas: &Value) -> Result<Kind, KindError> {
    let mut renamed = schemas["Event"].clone();
    for (stored, served) in RENAMED {
        renamed[*served] = renamed[*stored].take();
    }
    if let Value::Object(fields) = &mut renamed {
        fields.retain(|_, schema| !schema.is_null());
    }
    let mut v1 = served("", "Event", &schemas["Event"])?;
    let mut grouped = served("events.k8s.io", "Event", &renamed)?;
    for version in [&mut v1, &mut grouped] {
        version.columns = vec![
            Column::last_seen(),
            column("Type", ".type")?,
            column("Reason", ".reason")?,
            Column::involved_object(),
            column("Subobject", ".involvedObject.fieldPath")?.priority(1),
            Column::event_source().priority(1),
            column("Message", ".message")?,
            Column::first_seen().priority(1),
            Column::times().priority(1),
            Column::name().priority(1),
        ];
    }
    let involved = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
    v1.selectable = involved.iter().map(|field| format!("involvedObject.{field}")).collect();
    v1.selectable.extend(["reason", "reportingComponent", "type"].map(str::to_owned));
    let renamed = |path: &String| {
        let mut names = RENAMED.iter();
        names
            .find_map(|(stored, served)| Some(format!("{served}{}", path.strip_prefix(stored)?)))
            .unwrap_or_else(|| path.clone())
    };
    grouped.selectable = v1.selectable.iter().map(renamed).collect();
    v1.selectable.push("source".to_owned());
    grouped.omits = &["reportingController", "reportingInstance"];
    grouped.renames = RENAMED;
    Ok(kind(Builtin::Event, "Event", &["ev"], true, vec![v1, grouped]))
}

/// A core kind, which goes by its name in small letters.
pub(super) fn kind(
    builtin: Builtin,
    kind: &str,
    short_names: &[&str],
    namespaced: bool,
    versions: Vec<Served>,
) -> Kind {
    let singular = kind.to_lowercase();
    Kind {
        group: versions.first().map(|version| version.group.clone()).unwrap_or_default(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: format!("{singular}s"),
        singular,
        short_names: short_names.iter().map(|name| (*name).to_owned()).collect(),
        categories: Vec::new(),
        namespaced,
        builtin: Some(builtin),
        versions,
        storage: 0,
        terminating: false,
        gone: CancellationToken::new(),
    }
}

/// The properties of core kinds, by their names.
pub(super) fn schemas() -> Result<Value, KindError> {
    windlass_api::yaml::parse(include_str!("core.yaml")).map_err(|error| problem("core.yaml", &error))
}

/// Version v1 of a core kind.
pub(super) fn served(group: &str, kind: &str, properties: &Value) -> Result<Served, KindError> {
    let mut openapi = json!({ "type": "object", "properties": properties });
    for field in ["apiVersion", "kind"] {
        openapi["properties"][field] = json!({ "type": "string" });
    }
    openapi["properties"]["metadata"] = json!({ "type": "object" });
    let document: JSONSchemaProps =
        serde_json::from_value(openapi.clone()).map_err(|error| problem(kind, &error))?;
    let schema = Schema::root(&document).map_err(|error| problem(kind, &error))?;
    Ok(Served::new(group, "v1", kind, schema, openapi))
}

fn column(name: &str, path: &str) -> Result<Column, KindError> {
    Column::path(name, path).map_err(|error| problem(name, &error))
}

/// What is wrong with what is built in.
pub(super) fn problem(what: &str, problem: &impl ToString) -> KindError {
    KindError::ReadDefinition { crd: what.to_owned(), problem: problem.to_string() }
}
