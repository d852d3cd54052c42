//! Request bodies, written as text around specs that already are.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use windlass_api::{annotations, labels};

use crate::folders::Folder;
use crate::parse::ParsedResource;
use crate::{Context, FOLDER};

/// A whole object.
pub(super) fn create(resource: &ParsedResource, namespace: &str) -> Bytes {
    let metadata = json!({
        "name": resource.name,
        "namespace": namespace,
        "labels": resource.labels,
        "annotations": resource.annotations,
    });
    let head = json!({
        "apiVersion": format!("{}/{}", resource.kind.group, resource.version),
        "kind": resource.kind.kind,
        "metadata": metadata,
    });
    let mut text = head.to_string();
    text.reserve(resource.spec.len() + 10);
    text.pop();
    text.push_str(",\"spec\":");
    text.push_str(&resource.spec);
    text.push('}');
    Bytes::from(text)
}

/// A JSON patch (RFC 6902) that replaces the spec, sets the document's and our labels and annotations, leaves all
/// others alone, and is refused if the object is no longer at `version`.
pub(super) fn patch(resource: &ParsedResource, version: &str, has_labels: bool) -> Bytes {
    let mut operations =
        vec![json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": version })];
    if !has_labels {
        operations.push(json!({ "op": "add", "path": "/metadata/labels", "value": {} }));
    }
    let mut set = |map: &str, entries: &BTreeMap<String, String>| {
        for (key, value) in entries {
            operations.push(json!({ "op": "add", "path": pointer(map, key), "value": value }));
        }
    };
    set("labels", &resource.labels);
    set("annotations", &resource.annotations);
    if !resource.annotations.contains_key(annotations::FOLDER) {
        // Removing needs something to remove.
        let path = pointer("annotations", annotations::FOLDER);
        operations.push(json!({ "op": "add", "path": path, "value": "" }));
        operations.push(json!({ "op": "remove", "path": path }));
    }
    let mut text = Value::Array(operations).to_string();
    text.reserve(resource.spec.len() + 48);
    text.pop();
    text.push_str(",{\"op\":\"add\",\"path\":\"/spec\",\"value\":");
    text.push_str(&resource.spec);
    text.push_str("}]");
    Bytes::from(text)
}

/// A JSON pointer (RFC 6901) into a map of the metadata.
fn pointer(map: &str, key: &str) -> String {
    format!("/metadata/{map}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// A whole folder. One at the top asks for the default permissions.
pub(super) fn create_folder(folder: &Folder, context: &Context) -> Bytes {
    let (label, value) = context.label();
    let mut marks = context.annotations(&folder.path, folder.checksum.as_deref(), folder.parent.as_deref());
    if folder.parent.is_none() {
        marks.insert(annotations::GRANT_PERMISSIONS.to_owned(), "default".to_owned());
    }
    let body = json!({
        "apiVersion": format!("{}/{}", FOLDER.group, FOLDER.version),
        "kind": FOLDER.kind,
        "metadata": {
            "name": folder.id,
            "namespace": context.namespace,
            "labels": { label: value },
            "annotations": marks,
        },
        "spec": { "title": folder.title.as_deref().unwrap_or(&folder.id) },
    });
    Bytes::from(body.to_string())
}

/// A merge patch (RFC 7386) that makes a folder what it should be, refused if it is no longer at `version`.
pub(super) fn patch_folder(folder: &Folder, version: &str, context: &Context) -> Bytes {
    let (label, value) = context.label();
    let marks = context.annotations(&folder.path, folder.checksum.as_deref(), folder.parent.as_deref());
    let mut set: Map<String, Value> =
        [annotations::SOURCE_PATH, annotations::SOURCE_CHECKSUM, annotations::FOLDER]
            .map(|key| (key.to_owned(), Value::Null))
            .into_iter()
            .collect();
    set.extend(marks.into_iter().map(|(key, value)| (key, Value::String(value))));
    let mut body = json!({
        "metadata": { "resourceVersion": version, "labels": { label: value }, "annotations": set },
    });
    if let Some(title) = &folder.title {
        body["spec"] = json!({ "title": title });
    }
    Bytes::from(body.to_string())
}

/// A merge patch that takes the manager's marks off, refused if the object is no longer at `version`.
pub(super) fn release(version: &str) -> Bytes {
    let body = json!({
        "metadata": {
            "resourceVersion": version,
            "labels": { labels::MANAGED_BY_ID: null },
            "annotations": {
                annotations::MANAGED_BY: null,
                annotations::MANAGER_ID: null,
                annotations::SOURCE_PATH: null,
                annotations::SOURCE_CHECKSUM: null,
            },
        },
    });
    Bytes::from(body.to_string())
}
