//! The definitions of custom kinds as objects to read: `kubectl get crd`.
//!
//! They are what the server was built with and cannot be written. Definitions of users' own have their room in
//! the store, under the same kind.

use bytes::Bytes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Kind;
use crate::document;
use crate::store::{Key, Object};

/// The revision under which they are served: that of an empty store.
const REVISION: u64 = 1;

/// The definitions as stored objects, by name.
pub(crate) fn objects(kind: &Kind, crds: &[CustomResourceDefinition], now: &str) -> Vec<Object> {
    let mut objects: Vec<Object> = crds.iter().filter_map(|crd| object(kind, crd, now)).collect();
    objects.sort_by(|a, b| a.key.cmp(&b.key));
    objects
}

fn object(kind: &Kind, crd: &CustomResourceDefinition, now: &str) -> Option<Object> {
    let mut document = serde_json::to_value(crd).ok()?;
    document["metadata"]["uid"] = json!(Uuid::new_v4().to_string());
    document["metadata"]["creationTimestamp"] = json!(now);
    document["metadata"]["generation"] = json!(1);
    let stored: Vec<&str> = crd
        .spec
        .versions
        .iter()
        .filter(|version| version.storage)
        .map(|version| version.name.as_str())
        .collect();
    let condition = |kind: &str, reason: &str, message: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message });
    document["status"] = json!({
        "acceptedNames": document["spec"]["names"],
        "storedVersions": stored,
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
    });
    let key = Key::new(&kind.group, &kind.plural, "", crd.metadata.name.as_deref()?).ok()?;
    let Value::Object(document) = document else { return None };
    let value = Bytes::from(document::encode(&kind.stored().head, &document));
    Some(Object { key, revision: REVISION, value })
}
