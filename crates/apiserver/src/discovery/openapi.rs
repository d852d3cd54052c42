//! `OpenAPI` v3 documents, one for each group and version: what `kubectl explain` prints, and what `kubectl` and other
//! clients validate, diff and patch by. Each is made when it is first asked for.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use aws_lc_rs::digest;
use bytes::Bytes;
use http::{HeaderMap, header};
use serde_json::{Map, Value, json};

use super::openapi_v2;
use super::types::{META, Types, reference};
use crate::kinds::{Registry, ServedKind};

/// The documents of one state of what is served.
#[derive(Debug)]
pub(crate) struct OpenApi {
    /// By path: `api/v1`, `apis/{group}/{version}`.
    documents: BTreeMap<String, OnceLock<Document>>,
    /// All of them in one of v2, as JSON and as protobuf.
    second: OnceLock<[Document; 2]>,
}

/// A document with the hash that names it.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) json: Bytes,
    pub(super) hash: String,
}

impl Document {
    pub(super) fn new(json: Bytes) -> Self {
        let hash = digest::digest(&digest::SHA512, &json);
        Self { json, hash: hex::encode_upper(hash) }
    }
}

/// The path of a group and version below `/openapi/v3/`.
fn path_of(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The group and version of a path of [`path_of`].
fn group_version(path: &str) -> Option<(&str, &str)> {
    Some(path.split_once('/')?.1.rsplit_once('/').unwrap_or(("", "v1")))
}

impl OpenApi {
    pub(crate) fn new(registry: &Registry) -> Self {
        let versions = registry.groups().into_iter().flat_map(|(group, versions)| {
            versions.into_iter().map(move |version| path_of(group, version)).collect::<Vec<_>>()
        });
        let paths = versions.chain(["api/v1".to_owned()]);
        Self { documents: paths.map(|path| (path, OnceLock::new())).collect(), second: OnceLock::new() }
    }

    /// `/openapi/v3`: where each document is. Its hash is part of its address, so that clients may keep it.
    pub(super) fn index(&self, registry: &Registry) -> Value {
        let paths: Map<String, Value> = self
            .documents
            .keys()
            .filter_map(|path| {
                let (group, version) = group_version(path)?;
                let document = self.document(registry, group, version)?;
                let url = format!("/openapi/v3/{path}?hash={}", document.hash);
                Some((path.clone(), json!({ "serverRelativeURL": url })))
            })
            .collect();
        json!({ "paths": paths })
    }

    /// The document of v2 in the form that the client asks for, and what that form is called. Go's clients ask for protobuf.
    pub(super) fn second(&self, registry: &Registry, headers: &HeaderMap) -> (&'static str, &Document) {
        let [json, protobuf] = self.second.get_or_init(|| {
            let parts = self.documents.keys().filter_map(|path| {
                let (group, version) = group_version(path)?;
                serde_json::from_slice(&self.document(registry, group, version)?.json).ok()
            });
            let document = openapi_v2::document(parts);
            let protobuf = openapi_v2::encode(&document);
            [Document::new(Bytes::from(document.to_string())), Document::new(Bytes::from(protobuf))]
        });
        let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let asks = |accept: &str| accept.contains("application/com.github.proto-openapi.spec.v2");
        if accepts.into_iter().any(asks) {
            ("application/com.github.proto-openapi.spec.v2.v1.0+protobuf", protobuf)
        } else {
            ("application/json", json)
        }
    }

    /// The document of a group and version, if it is served.
    pub(super) fn document(&self, registry: &Registry, group: &str, version: &str) -> Option<&Document> {
        let document = self.documents.get(&path_of(group, version))?;
        let resources = registry.resources(group, version)?;
        Some(document.get_or_init(|| {
            let document = document_of(group, version, resources.values());
            Document::new(Bytes::from(document.to_string()))
        }))
    }
}

fn document_of<'a>(group: &str, version: &str, kinds: impl Iterator<Item = &'a ServedKind>) -> Value {
    let mut types = Types::new();
    let mut own = Map::new();
    let mut paths = Map::new();
    let mut named = Vec::new();
    for entry in kinds {
        let name = match types.core(entry) {
            Some(name) => name,
            None => {
                let name = schema_name(group, version, &entry.kind.kind);
                own.insert(name.clone(), custom_schema(entry));
                name
            }
        };
        if !entry.kind.is_review() {
            own.insert(format!("{name}List"), list_schema(entry, &name));
        }
        Paths { entry, name: &name }.insert(&mut paths);
        named.push((name, gvk(entry, &entry.kind.kind)));
    }
    let mut schemas = types.schemas(group, version);
    schemas.extend(own);
    for (name, gvk) in named {
        if let Some(schema) = schemas.get_mut(&name) {
            schema["x-kubernetes-group-version-kind"] = json!([gvk]);
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Windlass", "version": env!("CARGO_PKG_VERSION") },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

fn gvk(entry: &ServedKind, kind: &str) -> Value {
    json!({ "group": entry.served().group, "version": entry.served().version, "kind": kind })
}

/// `app.grafana.provisioning.v0alpha1.Job`: the group's labels in reverse, as the real server names them.
fn schema_name(group: &str, version: &str, kind: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([version, kind]);
    parts.join(".")
}

const API_VERSION: &str =
    "The group and version of the schema that this object is written in, such as example.com/v1.";
const KIND: &str = "What kind of object this is, in CamelCase. It cannot be changed.";

fn custom_schema(entry: &ServedKind) -> Value {
    let served = entry.served();
    let mut schema = served.openapi.clone();
    let metadata = json!({ "description": "What every object carries: its name, its labels and its life.",
        "allOf": [reference(&format!("{META}ObjectMeta"))] });
    for (field, property) in [
        ("apiVersion", json!({ "type": "string", "description": API_VERSION })),
        ("kind", json!({ "type": "string", "description": KIND })),
        ("metadata", metadata),
    ] {
        schema["properties"][field] = property;
    }
    if !served.selectable.is_empty() {
        let fields: Vec<Value> = served.selectable.iter().map(|path| json!({ "fieldPath": path })).collect();
        schema["x-kubernetes-selectable-fields"] = json!(fields);
    }
    schema
}

fn list_schema(entry: &ServedKind, name: &str) -> Value {
    let kind = &entry.kind;
    json!({
        "type": "object",
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": { "type": "string", "description": API_VERSION },
            "kind": { "type": "string", "description": KIND },
            "metadata": { "description": "What the list carries: its version, and how to go on reading it.",
                "allOf": [reference(&format!("{META}ListMeta"))] },
            "items": { "type": "array", "description": format!("The {} of the list.", kind.plural),
                "items": reference(name) },
        },
        "x-kubernetes-group-version-kind": [gvk(entry, &kind.list_kind)],
    })
}

/// The paths of one kind.
struct Paths<'a> {
    entry: &'a ServedKind,
    /// The name of the kind's schema.
    name: &'a str,
}

const DOCUMENTS: [&str; 2] = ["application/json", "application/yaml"];

impl Paths<'_> {
    fn insert(&self, paths: &mut Map<String, Value>) {
        let (kind, served) = (&self.entry.kind, self.entry.served());
        let base = if served.group.is_empty() {
            format!("/api/{}", served.version)
        } else {
            format!("/apis/{}/{}", served.group, served.version)
        };
        let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{base}{scope}/{}", kind.plural);
        if kind.namespaced {
            let mut all = json!({ "get": self.operation("list", "ForAllNamespaces") });
            all["parameters"] = json!([query("pretty")]);
            paths.insert(format!("{base}/{}", kind.plural), all);
        }
        let mut every = vec![query("pretty")];
        if kind.is_review() {
            paths.insert(collection, json!({ "post": self.operation("post", ""), "parameters": every }));
            return;
        }
        if kind.namespaced {
            every.insert(0, in_path("namespace"));
        }
        let mut methods = json!({ "get": self.operation("list", ""), "post": self.operation("post", "") });
        if kind.verbs().contains(&"deletecollection") {
            methods["delete"] = self.operation("deletecollection", "");
        }
        methods["parameters"] = json!(every);
        paths.insert(collection.clone(), methods);
        every.insert(0, in_path("name"));
        let mut item = json!({ "get": self.operation("get", ""), "put": self.operation("put", ""),
            "patch": self.operation("patch", ""), "delete": self.operation("delete", "") });
        item["parameters"] = json!(every);
        if served.status_subresource {
            let mut status = json!({ "get": self.operation("get", "Status"),
                "put": self.operation("put", "Status"), "patch": self.operation("patch", "Status") });
            status["parameters"] = json!(every);
            paths.insert(format!("{collection}/{{name}}/status"), status);
        }
        paths.insert(format!("{collection}/{{name}}"), item);
    }

    /// One method of a path. `suffix` tells it from others of the same action.
    fn operation(&self, action: &str, suffix: &str) -> Value {
        const LIST: &[&str] = &[
            "allowWatchBookmarks:boolean",
            "continue",
            "fieldSelector",
            "labelSelector",
            "limit:integer",
            "resourceVersion",
            "resourceVersionMatch",
            "sendInitialEvents:boolean",
            "timeoutSeconds:integer",
            "watch:boolean",
        ];
        const DELETE: &[&str] =
            &["dryRun", "gracePeriodSeconds:integer", "orphanDependents:boolean", "propagationPolicy"];
        let kind = &self.entry.kind;
        let object = reference(self.name);
        let (verb, body, answer) = match action {
            "list" => ("list", None, reference(&format!("{}List", self.name))),
            "post" => ("create", Some((object.clone(), true, DOCUMENTS.to_vec())), object),
            "put" => ("replace", Some((object.clone(), true, DOCUMENTS.to_vec())), object),
            "patch" => {
                let patch = reference(&format!("{META}Patch"));
                ("patch", Some((patch, true, self.patch_types())), object)
            }
            "delete" | "deletecollection" => {
                let verb = if action == "delete" { action } else { "deleteCollection" };
                let options = reference(&format!("{META}DeleteOptions"));
                let status = reference(&format!("{META}Status"));
                (verb, Some((options, false, DOCUMENTS.to_vec())), status)
            }
            _ => ("read", None, object),
        };
        let parameters: &[&str] = match action {
            "list" | "deletecollection" => LIST,
            "post" | "put" => &["dryRun", "fieldManager", "fieldValidation"],
            "patch" => &["dryRun", "fieldManager", "fieldValidation", "force:boolean"],
            "delete" => DELETE,
            _ => &["resourceVersion"],
        };
        let parameters: Vec<Value> = parameters.iter().map(|parameter| query(parameter)).collect();
        let ok = json!({ "description": "OK", "content": content(&answer, &DOCUMENTS) });
        let mut responses = json!({ "200": ok, "401": { "description": "Unauthorized" } });
        if matches!(action, "post" | "put") {
            responses["201"] = json!({ "description": "Created", "content": content(&answer, &DOCUMENTS) });
        }
        let namespaced = if kind.namespaced && suffix != "ForAllNamespaces" { "Namespaced" } else { "" };
        let mut operation = json!({
            "description": format!("{verb} {}", kind.plural),
            "operationId": format!("{verb}{}{namespaced}{}{suffix}", self.camel_group(), kind.kind),
            "parameters": parameters,
            "responses": responses,
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk(self.entry, &kind.kind),
        });
        if let Some((schema, required, types)) = body {
            operation["requestBody"] = json!({ "content": content(&schema, &types) });
            if required {
                operation["requestBody"]["required"] = json!(true);
            }
        }
        operation
    }

    fn patch_types(&self) -> Vec<&'static str> {
        let mut types = vec![
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ];
        if self.entry.kind.builtin.is_some_and(|builtin| builtin != crate::kinds::Builtin::Definition) {
            types.push("application/strategic-merge-patch+json");
        }
        types
    }

    /// `ExampleOrgV1`
    fn camel_group(&self) -> String {
        let served = self.entry.served();
        let group = if served.group.is_empty() { "core" } else { &served.group };
        group.split(['.', '-']).chain([served.version.as_str()]).map(capital).collect()
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}", first.to_ascii_uppercase(), chars.as_str()))
}

fn content(schema: &Value, types: &[&str]) -> Value {
    types.iter().map(|kind| ((*kind).to_owned(), json!({ "schema": schema }))).collect::<Map<_, _>>().into()
}

/// A parameter with the type that follows its name; text without one.
fn query(parameter: &str) -> Value {
    let (name, kind) = parameter.split_once(':').unwrap_or((parameter, "string"));
    json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } })
}

fn in_path(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true,
        "schema": { "type": "string", "uniqueItems": true } })
}
