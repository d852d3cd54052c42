//! The core kinds, as a table.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::kind::{Builtin, Kind, KindError, Served};
use super::reviews;
use windlass_apimachinery::schema::Schema;
use windlass_apimachinery::table::Column;

pub(super) fn kinds() -> Result<Vec<Kind>, KindError> {
    let mut all = vec![secret()?, config_map()?, event()?, namespace()?, lease()?, definition()?];
    all.extend(reviews::kinds()?);
    Ok(all)
}

fn secret() -> Result<Kind, KindError> {
    let mut v1 = served(
        "",
        "v1",
        "Secret",
        &json!({
            "immutable": { "type": "boolean", "description": "If true, the data cannot be changed any more." },
            "data": { "type": "object", "additionalProperties": { "type": "string", "format": "byte" },
                "description": "The values, each in base64." },
            "stringData": { "type": "object", "additionalProperties": { "type": "string" },
                "description": "Values in the clear, for writing only; they win over data." },
            "type": { "type": "string", "description": "What the Secret is for; cannot be changed." },
        }),
    )?;
    v1.columns = vec![Column::name(), column("Type", ".type")?, Column::count("Data", "data"), Column::age()];
    v1.selectable = vec!["type".to_owned()];
    Ok(kind(Builtin::Secret, "Secret", "secrets", "secret", &[], true, vec![v1]))
}

fn config_map() -> Result<Kind, KindError> {
    let mut v1 = served(
        "",
        "v1",
        "ConfigMap",
        &json!({
            "immutable": { "type": "boolean", "description": "If true, the data cannot be changed any more." },
            "data": { "type": "object", "additionalProperties": { "type": "string" },
                "description": "The values, as text." },
            "binaryData": { "type": "object", "additionalProperties": { "type": "string", "format": "byte" },
                "description": "The values, each in base64." },
        }),
    )?;
    v1.columns = vec![Column::name(), Column::count("Data", "data"), Column::age()];
    Ok(kind(Builtin::ConfigMap, "ConfigMap", "configmaps", "configmap", &["cm"], true, vec![v1]))
}

fn namespace() -> Result<Kind, KindError> {
    let mut v1 = served(
        "",
        "v1",
        "Namespace",
        &json!({
            "spec": { "type": "object", "description": "How the namespace behaves.", "properties": {
                "finalizers": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "atomic" } } },
            "status": { "type": "object", "description": "Where the namespace is in its life.", "properties": {
                "phase": { "type": "string" },
                "conditions": { "type": "array", "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"], "items": { "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true } } } },
        }),
    )?;
    v1.status_subresource = true;
    v1.columns = vec![Column::name(), column("Status", ".status.phase")?, Column::age()];
    v1.selectable = vec!["status.phase".to_owned()];
    Ok(kind(Builtin::Namespace, "Namespace", "namespaces", "namespace", &["ns"], false, vec![v1]))
}

fn lease() -> Result<Kind, KindError> {
    let mut v1 = served(
        "coordination.k8s.io",
        "v1",
        "Lease",
        &json!({
            "spec": { "type": "object", "description": "Who holds the lease, and until when.", "properties": {
                "acquireTime": { "type": "string", "format": "date-time" },
                "holderIdentity": { "type": "string" },
                "leaseDurationSeconds": { "type": "integer", "format": "int32" },
                "leaseTransitions": { "type": "integer", "format": "int32" },
                "preferredHolder": { "type": "string" },
                "renewTime": { "type": "string", "format": "date-time" },
                "strategy": { "type": "string" } } },
        }),
    )?;
    v1.columns = vec![Column::name(), column("Holder", ".spec.holderIdentity")?, Column::age()];
    Ok(kind(Builtin::Lease, "Lease", "leases", "lease", &[], true, vec![v1]))
}

fn definition() -> Result<Kind, KindError> {
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let properties = json!({ "spec": any, "status": any });
    let mut v1 = served("apiextensions.k8s.io", "v1", "CustomResourceDefinition", &properties)?;
    v1.status_subresource = true;
    v1.columns = vec![Column::name(), column("Created At", ".metadata.creationTimestamp")?];
    let mut definition = kind(
        Builtin::Definition,
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
        &["crd", "crds"],
        false,
        vec![v1],
    );
    definition.categories = vec!["api-extensions".to_owned()];
    Ok(definition)
}

/// core/v1 and events.k8s.io/v1 are one storage; five fields have another name in each.
fn event() -> Result<Kind, KindError> {
    let reference = json!({ "type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "apiVersion": { "type": "string" }, "fieldPath": { "type": "string" }, "kind": { "type": "string" },
        "name": { "type": "string" }, "namespace": { "type": "string" },
        "resourceVersion": { "type": "string" }, "uid": { "type": "string" } } });
    let source = json!({ "type": "object", "properties": {
        "component": { "type": "string" }, "host": { "type": "string" } } });
    let common = json!({
        "action": { "type": "string" }, "eventTime": { "type": "string", "nullable": true, "format": "date-time" },
        "reason": { "type": "string" }, "related": reference.clone(), "type": { "type": "string" },
        "reportingInstance": { "type": "string" },
        "series": { "type": "object", "properties": {
            "count": { "type": "integer", "format": "int32" },
            "lastObservedTime": { "type": "string", "format": "date-time" } } },
    });
    let mut core = common.clone();
    let mut events = common;
    let time = json!({ "type": "string", "nullable": true, "format": "date-time" });
    for (stored, renamed, schema) in [
        ("involvedObject", "regarding", reference),
        ("message", "note", json!({ "type": "string" })),
        ("count", "deprecatedCount", json!({ "type": "integer", "format": "int32" })),
        ("firstTimestamp", "deprecatedFirstTimestamp", time.clone()),
        ("lastTimestamp", "deprecatedLastTimestamp", time),
        ("source", "deprecatedSource", source),
        ("reportingComponent", "reportingController", json!({ "type": "string" })),
    ] {
        core[stored] = schema.clone();
        events[renamed] = schema;
    }
    let columns = || -> Result<Vec<Column>, KindError> {
        Ok(vec![
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
        ])
    };
    let mut v1 = served("", "v1", "Event", &core)?;
    let mut grouped = served("events.k8s.io", "v1", "Event", &events)?;
    v1.columns = columns()?;
    grouped.columns = columns()?;
    v1.selectable = [
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ]
    .map(str::to_owned)
    .to_vec();
    grouped.selectable = [
        "regarding.kind",
        "regarding.namespace",
        "regarding.name",
        "regarding.uid",
        "regarding.apiVersion",
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
    ]
    .map(str::to_owned)
    .to_vec();
    grouped.omits = &["reportingController", "reportingInstance"];
    grouped.renames = &[
        ("involvedObject", "regarding"),
        ("message", "note"),
        ("count", "deprecatedCount"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
        ("source", "deprecatedSource"),
        ("reportingComponent", "reportingController"),
    ];
    Ok(kind(Builtin::Event, "Event", "events", "event", &["ev"], true, vec![v1, grouped]))
}

pub(super) fn kind(
    builtin: Builtin,
    kind: &str,
    plural: &str,
    singular: &str,
    short_names: &[&str],
    namespaced: bool,
    versions: Vec<Served>,
) -> Kind {
    Kind {
        group: versions.first().map(|version| version.group.clone()).unwrap_or_default(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        plural: plural.to_owned(),
        singular: singular.to_owned(),
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

pub(super) fn served(
    group: &str,
    version: &str,
    kind: &str,
    properties: &Value,
) -> Result<Served, KindError> {
    let problem = |problem: String| KindError::ReadDefinition { crd: kind.to_owned(), problem };
    let mut openapi = json!({ "type": "object", "properties": properties });
    for field in ["apiVersion", "kind"] {
        openapi["properties"][field] = json!({ "type": "string" });
    }
    openapi["properties"]["metadata"] = json!({ "type": "object" });
    let document: JSONSchemaProps =
        serde_json::from_value(openapi.clone()).map_err(|error| problem(error.to_string()))?;
    let schema = Schema::root(&document).map_err(problem)?;
    Ok(Served::new(group, version, kind, schema, openapi))
}

fn column(name: &str, path: &str) -> Result<Column, KindError> {
    Column::path(name, path)
        .map_err(|problem| KindError::ReadDefinition { crd: format!("column {name}"), problem })
}
