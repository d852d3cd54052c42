//! Questions that are put as objects: they are answered at once and never stored.

use serde_json::{Value, json};

use super::core::{kind, served};
use super::kind::{Builtin, Kind, KindError, Review};

pub(super) fn kinds() -> Result<Vec<Kind>, KindError> {
    let text = || json!({ "type": "string" });
    let texts = || json!({ "type": "array", "items": text(), "x-kubernetes-list-type": "atomic" });
    let object = |properties: Value| json!({ "type": "object", "properties": properties });
    let user = json!({ "username": text(), "uid": text(), "groups": texts(),
        "extra": { "type": "object", "additionalProperties": texts() } });
    let subject = json!({ "status": object(json!({ "userInfo": object(user) })) });
    let any = || json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let resource = json!({ "namespace": text(), "verb": text(), "group": text(), "version": text(), "resource": text(),
        "subresource": text(), "name": text(), "fieldSelector": any(), "labelSelector": any() });
    let access = json!({
        "spec": object(json!({ "resourceAttributes": object(resource),
            "nonResourceAttributes": object(json!({ "path": text(), "verb": text() })) })),
        "status": any(),
    });
    let rules = json!({ "spec": object(json!({ "namespace": text() })), "status": any() });
    [
        (Review::Subject, "authentication.k8s.io", "SelfSubjectReview", subject),
        (Review::Access, "authorization.k8s.io", "SelfSubjectAccessReview", access),
        (Review::Rules, "authorization.k8s.io", "SelfSubjectRulesReview", rules),
    ]
    .into_iter()
    .map(|(review, group, name, properties)| {
        let singular = name.to_lowercase();
        let v1 = served(group, "v1", name, &properties)?;
        Ok(kind(Builtin::Review(review), name, &format!("{singular}s"), &singular, &[], false, vec![v1]))
    })
    .collect()
}
