//! Request bodies, written as text around specs that already are.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use windlass_api::{annotations, labels};

use super::At;
use crate::folders::Folder;
use crate::parse::{Content, ParsedResource};
use crate::{FOLDER, SyncContext};

/// A version that no object has: an apply that carries it creates the object or is refused.
const NO_VERSION: &str = "9223372036854775807";
/// The generation of an object that was just created, on kinds that count them.
const FIRST_GENERATION: i64 = 1;

/// A whole object.
pub(crate) fn create(resource: &ParsedResource, namespace: &str) -> Bytes {
    whole(resource, namespace, json!({}), Some(FIRST_GENERATION))
}

/// A whole object to be applied, refused if there is one.
pub(super) fn apply_new(resource: &ParsedResource, namespace: &str) -> Bytes {
    whole(resource, namespace, json!({ "resourceVersion": NO_VERSION }), None)
}

/// A whole object to be applied, refused if it is not the one of this UID at this version any more.
pub(super) fn apply(resource: &ParsedResource, namespace: &str, at: &At) -> Bytes {
    whole(resource, namespace, json!({ "resourceVersion": at.version, "uid": at.uid }), None)
}

/// A whole object as its file and its manager have it.
pub(super) fn document(resource: &ParsedResource, namespace: &str) -> Bytes {
    whole(resource, namespace, json!({}), None)
}

fn whole(resource: &ParsedResource, namespace: &str, mut metadata: Value, generation: Option<i64>) -> Bytes {
    metadata["name"] = json!(resource.name);
    metadata["namespace"] = json!(namespace);
    metadata["labels"] = json!(resource.labels);
    metadata["annotations"] = json!(resource.annotations);
    if let Some(generation) = generation {
        metadata["annotations"][annotations::WRITTEN_GENERATION] = json!(generation.to_string());
    }
    let api_version = match &*resource.kind.group {
        "" => resource.version.clone(),
        group => format!("{group}/{}", resource.version),
    };
    let head = json!({
        "apiVersion": api_version,
        "kind": resource.kind.kind,
        "metadata": metadata,
    });
    let mut text = head.to_string();
    text.pop();
    match &resource.content {
        Content::Spec(spec) => text.extend([",\"spec\":", spec]),
        Content::Members(members) if members.is_empty() => {}
        Content::Members(members) => text.extend([",", members]),
    }
    text.push('}');
    Bytes::from(text)
}

/// A JSON patch (RFC 6902) that replaces the spec, sets the document's and our labels and annotations, takes off those
/// that the document no longer sets, leaves all others alone, and is refused if the object is no longer at its version.
pub(super) fn patch(resource: &ParsedResource, at: &At, generation: Option<i64>) -> Bytes {
    let mut operations =
        vec![json!({ "op": "replace", "path": "/metadata/resourceVersion", "value": at.version })];
    if !at.has_labels {
        operations.push(json!({ "op": "add", "path": "/metadata/labels", "value": {} }));
    }
    if !at.has_annotations {
        operations.push(json!({ "op": "add", "path": "/metadata/annotations", "value": {} }));
    }
    let mut set = |map: &str, entries: &BTreeMap<String, String>| {
        for (key, value) in entries {
            operations.push(json!({ "op": "add", "path": pointer(map, key), "value": value }));
        }
    };
    set("labels", &resource.labels);
    set("annotations", &resource.annotations);
    if let Some(generation) = generation {
        let path = pointer("annotations", annotations::WRITTEN_GENERATION);
        operations.push(json!({ "op": "add", "path": path, "value": generation.to_string() }));
    }
    let mut dropped = [annotations::FOLDER, annotations::SOURCE_DOCUMENTS, annotations::SOURCE_DOCUMENT]
        .map(|key| ("annotations", key))
        .to_vec();
    if let Some(former) = &at.file_metadata {
        dropped.push(("annotations", annotations::FILE_METADATA));
        dropped.extend(
            former.split(' ').filter_map(|entry| entry.split_once('/')).filter(|(map, key)| {
                *map == "labels" && *key != labels::MANAGED_BY_ID || *map == "annotations"
            }),
        );
    }
    for (map, key) in dropped {
        let kept = if map == "labels" { &resource.labels } else { &resource.annotations };
        if !kept.contains_key(key) {
            // Removing needs something to remove.
            let path = pointer(map, key);
            operations.push(json!({ "op": "add", "path": path, "value": "" }));
            operations.push(json!({ "op": "remove", "path": path }));
        }
    }
    let mut text = Value::Array(operations).to_string();
    if let Content::Spec(spec) = &resource.content {
        text.pop();
        text.extend([",{\"op\":\"add\",\"path\":\"/spec\",\"value\":", spec, "}]"]);
    }
    Bytes::from(text)
}

/// A JSON pointer (RFC 6901) into a map of the metadata.
fn pointer(map: &str, key: &str) -> String {
    format!("/metadata/{map}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// A whole folder. One at the top asks for the default permissions.
pub(super) fn create_folder(folder: &Folder, context: &SyncContext) -> Bytes {
    let (label, value) = context.label();
    let mut marks = context.annotations(&folder.path, folder.checksum.as_deref(), folder.parent.as_deref());
    marks.insert(annotations::WRITTEN_GENERATION.to_owned(), FIRST_GENERATION.to_string());
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
pub(super) fn patch_folder(
    folder: &Folder,
    version: &str,
    generation: Option<i64>,
    context: &SyncContext,
) -> Bytes {
    let (label, value) = context.label();
    let mut marks = context.annotations(&folder.path, folder.checksum.as_deref(), folder.parent.as_deref());
    let recorded =
        generation.map(|generation| (annotations::WRITTEN_GENERATION.to_owned(), generation.to_string()));
    marks.extend(recorded);
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
                annotations::SOURCE_DOCUMENTS: null,
                annotations::SOURCE_DOCUMENT: null,
                annotations::FILE_METADATA: null,
                annotations::WRITTEN_GENERATION: null,
            },
        },
    });
    Bytes::from(body.to_string())
}

/// A merge patch that records the generation after our write, refused if the object is no longer at `version`.
pub(super) fn generation(version: &str, generation: i64) -> Bytes {
    let body = json!({
        "metadata": {
            "resourceVersion": version,
            "annotations": { annotations::WRITTEN_GENERATION: generation.to_string() },
        },
    });
    Bytes::from(body.to_string())
}
