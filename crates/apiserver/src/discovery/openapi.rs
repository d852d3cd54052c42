//! `OpenAPI` v3 documents, one for each group and version: what `kubectl explain` prints, and what `kubectl` and other
//! clients validate, diff and patch by. They are made when the first is asked for.

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
    documents: BTreeMap<String, Document>,
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

impl OpenApi {
    pub(crate) fn new(registry: &Registry) -> Self {
        let mut documents = BTreeMap::new();
        let groups = registry.groups().into_iter().chain([("", vec!["v1"])]);
        for (group, version) in groups.flat_map(|(group, all)| all.into_iter().map(move |one| (group, one))) {
            let Some(kinds) = registry.resources(group, version) else { continue };
            let document = document_of(group, version, kinds.values()).to_string();
            let path = base_path(group, version).trim_start_matches('/').to_owned();
            documents.insert(path, Document::new(Bytes::from(document)));
        }
        Self { documents, second: OnceLock::new() }
    }

    /// `/openapi/v3`: where each document is. Its hash is part of its address, so that clients may keep it.
    pub(super) fn index(&self) -> Value {
        let entry = |(path, document): (&String, &Document)| {
            let url = format!("/openapi/v3/{path}?hash={}", document.hash);
            (path.clone(), json!({ "serverRelativeURL": url }))
        };
        json!({ "paths": self.documents.iter().map(entry).collect::<Map<_, _>>() })
    }

    /// The document of v2 in the form that the client asks for, and what that form is called. Go's clients ask for protobuf.
    pub(super) fn second(&self, headers: &HeaderMap) -> (&'static str, &Document) {
        let [json, protobuf] = self.second.get_or_init(|| {
            let parts = self.documents.values();
            let parts = parts.filter_map(|document| serde_json::from_slice(&document.json).ok());
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

    /// The document at a path, if its group and version are served.
    pub(super) fn document(&self, path: &str) -> Option<&Document> {
        self.documents.get(path)
    }
}

/// Where a group and version is served.
fn base_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
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
        let base = base_path(&served.group, &served.version);
        let scope = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
        let collection = format!("{base}{scope}/{}", kind.plural);
        if kind.namespaced {
            self.add(paths, format!("{base}/{}", kind.plural), "ForAllNamespaces", &[("get", "list")], &[]);
        }
        if kind.is_review() {
            self.add(paths, collection, "", &[("post", "post")], &[]);
            return;
        }
        let mut all = vec![("get", "list"), ("post", "post")];
        if kind.verbs().contains(&"deletecollection") {
            all.push(("delete", "deletecollection"));
        }
        let namespace = if kind.namespaced { &["namespace"][..] } else { &[] };
        self.add(paths, collection.clone(), "", &all, namespace);
        let one = [("get", "get"), ("put", "put"), ("patch", "patch"), ("delete", "delete")];
        let name = [&["name"], namespace].concat();
        self.add(paths, format!("{collection}/{{name}}"), "", &one, &name);
        if served.status_subresource {
            self.add(paths, format!("{collection}/{{name}}/status"), "Status", &one[..3], &name);
        }
    }

    /// Adds a path with its methods, each with its action, and its parameters.
    fn add(
        &self,
        paths: &mut Map<String, Value>,
        path: String,
        suffix: &str,
        methods: &[(&str, &str)],
        parameters: &[&str],
    ) {
        let operation =
            |(method, action): &(&str, &str)| ((*method).to_owned(), self.operation(action, suffix));
        let mut item: Map<String, Value> = methods.iter().map(operation).collect();
        let parameters = parameters.iter().map(|name| in_path(name)).chain([query("pretty")]);
        item.insert("parameters".to_owned(), parameters.collect());
        paths.insert(path, Value::Object(item));
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
