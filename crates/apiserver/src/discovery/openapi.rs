//! `OpenAPI` v3 documents, made once from the schemas: enough for `kubectl` to validate, patch and explain.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
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
