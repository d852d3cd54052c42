//! What is served, for clients that ask: groups, versions, resources, the server's version, `OpenAPI`.

mod openapi;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Value, json};

pub(crate) use openapi::OpenApi;

use crate::catalog::Snapshot;
use crate::failure::{Failure, Result};
use crate::kinds::{Registry, Served, ServedKind};
use crate::request::Route;

/// The Kubernetes version whose API machinery this server follows. Clients compare it with their own.
const KUBERNETES: (&str, &str) = ("1", "34");

/// Answers a path that is no resource.
pub(crate) fn answer(registry: &Snapshot, route: &Route, headers: &HeaderMap) -> Result<Response> {
    let aggregated = wants_aggregated(headers);
    match route {
        Route::Root => Ok(json_response(&json!({ "paths": paths(registry) }))),
        Route::Health => Ok(Response::new(Body::from("ok"))),
        Route::Version => Ok(json_response(&version())),
        Route::CoreVersions if aggregated => Ok(aggregated_response(&[core_group(registry)])),
        Route::CoreVersions => Ok(json_response(&json!({
            "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }))),
        Route::Groups if aggregated => {
            let groups: Vec<Value> = registry
                .groups()
                .into_iter()
                .map(|(group, versions)| aggregated_group(registry, group, &versions))
                .collect();
            Ok(aggregated_response(&groups))
        }
        Route::Groups => {
            let groups: Vec<Value> =
                registry.groups().into_iter().map(|(group, versions)| api_group(group, &versions)).collect();
            Ok(json_response(&json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })))
        }
        Route::Group(name) => {
            let (group, versions) = registry
                .groups()
                .into_iter()
                .find(|(group, _)| group == name)
                .ok_or_else(Failure::unknown_path)?;
            let mut document = api_group(group, &versions);
            document["kind"] = json!("APIGroup");
            document["apiVersion"] = json!("v1");
            Ok(json_response(&document))
        }
        Route::GroupVersion { group, version } => resources(registry, group, version),
        Route::OpenApiIndex => Ok(json_response(registry.openapi().index())),
        Route::OpenApi { group, version } => {
            let document = registry.openapi().document(group, version).ok_or_else(Failure::unknown_path)?;
            Ok(bytes_response("application/json", document))
        }
        Route::OpenApiV2 => Ok(openapi::v2(headers)),
        Route::Resource(_) => Err(Failure::unknown_path()),
    }
}

fn json_response(value: &Value) -> Response {
    bytes_response("application/json", bytes::Bytes::from(value.to_string()))
}

fn bytes_response(kind: &'static str, bytes: bytes::Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn version() -> Value {
    let (major, minor) = KUBERNETES;
    json!({
        "major": major,
        "minor": minor,
        "gitVersion": format!("v{major}.{minor}.0+windlass-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn paths(registry: &Registry) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in registry.groups() {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    paths
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

/// The verbs of the main resource and of its status.
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

fn resources(registry: &Registry, group: &str, version: &str) -> Result<Response> {
    let served = registry.resources(group, version).ok_or_else(Failure::unknown_path)?;
    let mut resources = Vec::new();
    for entry in served.values() {
        let kind = &entry.kind;
        let mut resource = json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced,
            "kind": kind.kind, "verbs": kind.verbs(),
        });
        if !kind.short_names.is_empty() {
            resource["shortNames"] = json!(kind.short_names);
        }
        if !kind.categories.is_empty() {
            resource["categories"] = json!(kind.categories);
        }
        resources.push(resource);
        if entry.served().status_subresource {
            resources.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": STATUS_VERBS,
            }));
        }
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(json_response(&json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources })))
}

/// `application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList`
fn wants_aggregated(headers: &HeaderMap) -> bool {
    headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|clause| {
            let has = |part: &str| clause.split(';').any(|found| found.trim() == part);
            has("application/json")
                && has("g=apidiscovery.k8s.io")
                && has("v=v2")
                && has("as=APIGroupDiscoveryList")
        })
}

fn aggregated_response(groups: &[Value]) -> Response {
    let document = json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": groups });
    let kind = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    bytes_response(kind, bytes::Bytes::from(document.to_string()))
}

fn core_group(registry: &Registry) -> Value {
    aggregated_group(registry, "", &["v1"])
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
    let mut resource = json!({
        "resource": kind.plural, "responseKind": response_kind(served, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular, "verbs": kind.verbs(),
    });
    if !kind.short_names.is_empty() {
        resource["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        resource["categories"] = json!(kind.categories);
    }
    if served.status_subresource {
        resource["subresources"] = json!([{ "subresource": "status",
            "responseKind": response_kind(served, &kind.kind), "verbs": STATUS_VERBS }]);
    }
    resource
}

fn response_kind(served: &Served, kind: &str) -> Value {
    json!({ "group": served.group, "version": served.version, "kind": kind })
}
