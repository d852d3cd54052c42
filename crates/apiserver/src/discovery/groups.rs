//! Which groups, versions and resources there are, in the older form (one request each) and in the aggregated one.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::kinds::{Builtin, Registry, Served, ServedKind};

/// The paths that are served.
pub(super) fn paths(registry: &Registry) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups() {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(
        ["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned),
    );
    paths
}

/// `APIGroupList`
pub(super) fn list(registry: &Registry) -> Value {
    let groups: Vec<Value> =
        registry.groups().into_iter().map(|(group, versions)| api_group(group, &versions)).collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// `APIGroup`, if the group is served.
pub(super) fn one(registry: &Registry, name: &str) -> Option<Value> {
    let (group, versions) = registry.groups().into_iter().find(|(group, _)| *group == name)?;
    let mut document = api_group(group, &versions);
    document["kind"] = json!("APIGroup");
    document["apiVersion"] = json!("v1");
    Some(document)
}

fn api_group(group: &str, versions: &[&str]) -> Value {
    let version =
        |version: &&str| json!({ "groupVersion": format!("{group}/{version}"), "version": version });
    json!({
        "name": group,
        "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(version),
    })
}

/// `APIResourceList`, if the group and version are served.
pub(super) fn resources(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for entry in registry.resources(group, version)?.values() {
        let kind = &entry.kind;
        let mut resource = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": kind.verbs(),
        });
        if !kind.is_review() {
            resource["storageVersionHash"] = storage_version_hash(entry).into();
        }
        add_names(entry, &mut resource);
        resources.push(resource);
        for (part, verbs) in parts(entry) {
            let mut resource = json!({
                "name": format!("{}/{part}", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": verbs,
            });
            if part == "scale" {
                resource["group"] = json!("autoscaling");
                resource["version"] = json!("v1");
                resource["kind"] = json!("Scale");
            }
            resources.push(resource);
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources }))
}

/// The sub-resources of a kind, with their verbs.
fn parts(entry: &ServedKind) -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    const STATUS: &[&str] = &["get", "patch", "update"];
    let (kind, served) = (&entry.kind, entry.served());
    [
        (kind.builtin == Some(Builtin::Namespace)).then_some(("finalize", &["update"][..])),
        served.status_subresource.then_some(("status", STATUS)),
        served.scale.is_some().then_some(("scale", STATUS)),
    ]
    .into_iter()
    .flatten()
}

fn add_names(entry: &ServedKind, resource: &mut Value) {
    let kind = &entry.kind;
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
}

/// Tells clients whether the storage version is the one that they know.
fn storage_version_hash(entry: &ServedKind) -> String {
    let stored = entry.kind.stored();
    // A real server still keeps definitions in the version that came before.
    let version =
        if entry.kind.builtin == Some(Builtin::Definition) { "v1beta1" } else { stored.version.as_str() };
    let text = format!("{}/{version}/{}", stored.group, entry.kind.kind);
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    STANDARD.encode(&hash.as_ref()[..8])
}

/// `APIGroupDiscoveryList`: everything in one answer. `core`: of the core group only, else of the others.
pub(super) fn aggregated(registry: &Registry, core: bool) -> Value {
    let groups: Vec<Value> = if core {
        vec![aggregated_group(registry, "", &["v1"])]
    } else {
        let groups = registry.groups().into_iter();
        groups.map(|(group, versions)| aggregated_group(registry, group, &versions)).collect()
    };
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {},
        "items": groups })
}

fn aggregated_group(registry: &Registry, group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> = registry
                .resources(group, version)
                .into_iter()
                .flat_map(|resources| resources.values())
                .map(aggregated_resource)
                .collect();
            json!({ "version": version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    let metadata = if group.is_empty() { json!({}) } else { json!({ "name": group }) };
    json!({ "metadata": metadata, "versions": versions })
}

fn aggregated_resource(entry: &ServedKind) -> Value {
    let (kind, served) = (&entry.kind, entry.served());
    let response = response_kind(entry, served);
    let mut resource = json!({
        "resource": kind.plural, "responseKind": response,
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": kind.verbs(),
    });
    add_names(entry, &mut resource);
    let scale = json!({ "group": "autoscaling", "version": "v1", "kind": "Scale" });
    let parts: Vec<Value> = parts(entry)
        .map(|(part, verbs)| {
            let response = if part == "scale" { &scale } else { &response };
            json!({ "subresource": part, "responseKind": response, "verbs": verbs })
        })
        .collect();
    if !parts.is_empty() {
        resource["subresources"] = json!(parts);
    }
    resource
}

/// Built-in kinds leave out what the group and version say already.
fn response_kind(entry: &ServedKind, served: &Served) -> Value {
    let kind = &entry.kind.kind;
    if entry.kind.builtin.is_some() {
        return json!({ "group": "", "version": "", "kind": kind });
    }
    json!({ "group": served.group, "version": served.version, "kind": kind })
}
