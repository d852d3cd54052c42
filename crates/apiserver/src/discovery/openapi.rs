//! `OpenAPI` v3 documents, made once from the schemas: enough for `kubectl` to validate, patch and explain.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::{Map, Value, json};

use crate::kinds::{Registry, ServedKind};

/// The index and one document for each group and version.
#[derive(Debug)]
pub(crate) struct OpenApi {
    index: Value,
    documents: HashMap<(String, String), Bytes>,
}

/// The name of the metadata's schema in every document.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

impl OpenApi {
    pub(crate) fn new(registry: &Registry) -> Self {
        let mut paths = Map::new();
        let mut documents = HashMap::new();
        let mut versions = vec![(String::new(), "v1".to_owned())];
        for (group, served) in registry.groups() {
            versions.extend(served.into_iter().map(|version| (group.to_owned(), version.to_owned())));
        }
        for (group, version) in versions {
            let Some(resources) = registry.resources(&group, &version) else { continue };
            let document = document(resources.values()).to_string();
            let mut hasher = DefaultHasher::new();
            document.hash(&mut hasher);
            let path =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let url = format!("/openapi/v3/{path}?hash={:016X}", hasher.finish());
            paths.insert(path, json!({ "serverRelativeURL": url }));
            documents.insert((group, version), Bytes::from(document));
        }
        Self { index: json!({ "paths": paths }), documents }
    }

    pub(crate) fn index(&self) -> &Value {
        &self.index
    }

    pub(crate) fn document(&self, group: &str, version: &str) -> Option<Bytes> {
        self.documents.get(&(group.to_owned(), version.to_owned())).cloned()
    }
}

/// An `OpenAPI` v2 document that names nothing. `kubectl` reads it, always as protobuf, for kinds that it does not
/// find in v3 (`kind: List`), and does not validate what it does not find here either.
pub(super) fn v2(headers: &HeaderMap) -> Response {
    let protobuf = headers
        .get_all(header::ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|accept| accept.contains("application/com.github.proto-openapi.spec.v2"));
    if !protobuf {
        let document = json!({ "swagger": "2.0", "info": { "title": "Windlass", "version": env!("CARGO_PKG_VERSION") },
            "paths": {}, "definitions": {} });
        return super::bytes_response("application/json", Bytes::from(document.to_string()));
    }
    // Of the message openapi.v2.Document: swagger (1), info (2) with title (1) and version (2), paths (8),
    // definitions (9).
    let info = [field(1, b"Windlass"), field(2, env!("CARGO_PKG_VERSION").as_bytes())].concat();
    let document = [field(1, b"2.0"), field(2, &info), field(8, b""), field(9, b"")].concat();
    super::bytes_response("application/com.github.proto-openapi.spec.v2.v1.0+protobuf", Bytes::from(document))
}

/// A field of a protobuf message; short enough that its length is one byte.
fn field(number: u8, value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap_or_default() & 0x7f;
    [&[number << 3 | 2, length], value].concat()
}

fn document<'a>(kinds: impl Iterator<Item = &'a ServedKind>) -> Value {
    let mut schemas = Map::new();
    let mut paths = Map::new();
    schemas.insert(OBJECT_META.to_owned(), object_meta());
    for entry in kinds {
        let (kind, served) = (&entry.kind, entry.served());
        let gvk = json!({ "group": served.group, "version": served.version, "kind": kind.kind });
        let name = schema_name(&served.group, &served.version, &kind.kind);
        let mut schema = served.openapi.clone();
        schema["properties"]["metadata"] = json!({ "allOf": [{ "$ref": format!("#/components/schemas/{OBJECT_META}") }],
                "description": "Standard object's metadata.", "default": {} });
        schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        schemas.insert(name.clone(), schema);
        let base = if served.group.is_empty() {
            format!("/api/{}", served.version)
        } else {
            format!("/apis/{}/{}", served.group, served.version)
        };
        let scoped = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{base}{scoped}/{}", kind.plural);
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        let operation = |action: &str, body: Option<&[&str]>| {
            let content = |types: &[&str]| -> Value {
                types
                    .iter()
                    .map(|kind| ((*kind).to_owned(), json!({ "schema": reference })))
                    .collect::<Map<_, _>>()
                    .into()
            };
            let mut operation = json!({
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": gvk,
                "responses": { "200": { "description": "OK", "content": content(&["application/json"]) } },
            });
            if let Some(types) = body {
                operation["requestBody"] = json!({ "required": true, "content": content(types) });
                operation["parameters"] = ["dryRun", "fieldManager", "fieldValidation"]
                    .map(|name| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } }))
                    .as_slice()
                    .into();
            }
            operation
        };
        let mut patches = vec!["application/json-patch+json", "application/merge-patch+json"];
        if kind.builtin.is_some() {
            patches.push("application/strategic-merge-patch+json");
        }
        let documents: &[&str] = &["application/json", "application/yaml"];
        let item = json!({
            "get": operation("get", None),
            "put": operation("put", Some(documents)),
            "patch": operation("patch", Some(&patches)),
            "delete": operation("delete", None),
        });
        paths.insert(
            collection.clone(),
            json!({
                "get": operation("list", None),
                "post": operation("post", Some(documents)),
                "delete": operation("deletecollection", None),
            }),
        );
        if served.status_subresource {
            let mut status = item.clone();
            if let Value::Object(status) = &mut status {
                status.remove("delete");
            }
            paths.insert(format!("{collection}/{{name}}/status"), status);
        }
        paths.insert(format!("{collection}/{{name}}"), item);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Windlass", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// `app.grafana.provisioning.v0alpha1.Job`: the group's labels in reverse, as the real server names them.
fn schema_name(group: &str, version: &str, kind: &str) -> String {
    if group.is_empty() {
        return format!("io.k8s.api.core.{version}.{kind}");
    }
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

fn object_meta() -> Value {
    let text = |description: &str| json!({ "type": "string", "description": description });
    let map = |description: &str| json!({ "type": "object", "additionalProperties": { "type": "string" }, "description": description });
    let time =
        |description: &str| json!({ "type": "string", "format": "date-time", "description": description });
    json!({
        "type": "object",
        "description": "What every stored object carries: its identity, its labels and its life.",
        "properties": {
            "name": text("Name of the object, unique among the objects of its kind in its namespace."),
            "generateName": text("Prefix of a name that the server completes, when no name is given."),
            "namespace": text("Namespace of the object."),
            "uid": text("Identity of this incarnation of the object, set by the server."),
            "resourceVersion": text("Version of the object, opaque to clients; an update that carries an older one fails."),
            "generation": json!({ "type": "integer", "format": "int64",
                "description": "Counts changes of the desired state." }),
            "creationTimestamp": time("When the object was created."),
            "deletionTimestamp": time("When deletion was asked for; the object stays until its finalizers are gone."),
            "deletionGracePeriodSeconds": json!({ "type": "integer", "format": "int64",
                "description": "How long deletion may take." }),
            "labels": map("Labels, for selecting objects."),
            "annotations": map("Annotations, for any other notes."),
            "finalizers": json!({ "type": "array", "items": { "type": "string" },
                "description": "Who has to act before the object is removed." }),
            "ownerReferences": json!({ "type": "array", "description": "The objects that this one belongs to.",
                "items": { "type": "object", "required": ["apiVersion", "kind", "name", "uid"], "properties": {
                    "apiVersion": { "type": "string" }, "kind": { "type": "string" },
                    "name": { "type": "string" }, "uid": { "type": "string" },
                    "controller": { "type": "boolean" }, "blockOwnerDeletion": { "type": "boolean" } } } }),
        },
    })
}
