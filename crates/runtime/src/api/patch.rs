//! Writes that say which version they were made from, so that they overwrite nothing newer.

use std::fmt::Debug;

use json_patch::{PatchOperation, ReplaceOperation, jsonptr::PointerBuf};
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{CallError, CallOptions};

/// Which part of an object a write changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status.
    Object,
    /// The status sub-resource.
    Status,
}

/// Sends a JSON merge patch that carries `object`'s resourceVersion: a conflict when the object has changed since.
///
/// Fields that the patch does not name survive, known to us or not. `patch` must be a JSON object. `options` may be the
/// deadline of a single try.
pub async fn merge_patch<K>(
    api: &Api<K>,
    object: &K,
    part: Part,
    mut patch: Value,
    options: impl Into<CallOptions>,
) -> Result<K, CallError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let target = Target::of(api, object, part)?;
    patch["metadata"]["resourceVersion"] = Value::String(target.version.clone());
    target.send(api, part, &Patch::Merge(patch), &options.into()).await
}

/// Sends a JSON patch that carries `object`'s resourceVersion: a conflict when the object has changed since.
pub async fn json_patch<K>(
    api: &Api<K>,
    object: &K,
    part: Part,
    mut operations: Vec<PatchOperation>,
    options: impl Into<CallOptions>,
) -> Result<K, CallError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let target = Target::of(api, object, part)?;
    // `replace` rather than `test`: a stale version is then a conflict (409), and not an invalid patch (422).
    let guard = PatchOperation::Replace(ReplaceOperation {
        path: PointerBuf::from_tokens(["metadata", "resourceVersion"]),
        value: json!(target.version),
    });
    operations.insert(0, guard);
    target.send(api, part, &Patch::Json::<()>(json_patch::Patch(operations)), &options.into()).await
}

/// Sends a JSON patch that its own `test` operations guard: writers of different fields do not get into each other's way.
/// A test that the object is still the same one (`metadata.uid`) stands before them. A test that fails is a refusal, with
/// code 422 on most servers.
pub async fn json_patch_tested<K>(
    api: &Api<K>,
    object: &K,
    part: Part,
    operations: &[Value],
    options: impl Into<CallOptions>,
) -> Result<K, CallError>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let target = Target::of(api, object, part)?;
    let same = json!({"op": "test", "path": "/metadata/uid", "value": object.meta().uid});
    let operations = Value::Array(std::iter::once(same).chain(operations.iter().cloned()).collect());
    let patch = serde_json::from_value(operations)
        .map_err(|source| CallError::Unreadable { what: target.what.clone(), source: source.into() })?;
    target.send(api, part, &Patch::Json::<()>(patch), &options.into()).await
}

struct Target {
    what: String,
    name: String,
    version: String,
}

impl Target {
    fn of<K: Resource>(api: &Api<K>, object: &K, part: Part) -> Result<Self, CallError> {
        let meta = object.meta();
        let name = meta.name.clone().unwrap_or_default();
        let what = match part {
            Part::Object => format!("patch {}/{name}", api.resource_url()),
            Part::Status => format!("patch the status of {}/{name}", api.resource_url()),
        };
        if name.is_empty() {
            return Err(CallError::Incomplete { what, missing: "name" });
        }
        match meta.resource_version.clone() {
            Some(version) => Ok(Self { what, name, version }),
            None => Err(CallError::Incomplete { what, missing: "resourceVersion" }),
        }
    }

    async fn send<K, P>(
        &self,
        api: &Api<K>,
        part: Part,
        patch: &Patch<P>,
        options: &CallOptions,
    ) -> Result<K, CallError>
    where
        K: Clone + DeserializeOwned + Debug,
        P: Serialize + Debug,
    {
        let params = PatchParams::default();
        match part {
            Part::Object => options.write(&self.what, || api.patch(&self.name, &params, patch)).await,
            Part::Status => options.write(&self.what, || api.patch_status(&self.name, &params, patch)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use std::time::Duration;

    use super::*;
    use crate::testing::{Asked, Server, config_map, config_maps};

    const LIMIT: Duration = Duration::from_secs(5);

    fn object() -> ConfigMap {
        serde_json::from_value(config_map("a", "7")).unwrap()
    }

    async fn sent(server: &mut Server, path: &str) -> Asked {
        let asked = server.next().await;
        assert_eq!((asked.method.as_str(), asked.path.as_str()), ("PATCH", path));
        asked
    }

    #[tokio::test]
    async fn a_merge_patch_carries_the_version_it_was_made_from() {
        let (mut server, client) = Server::new();
        let api = config_maps(client);
        let patch = json!({"metadata": {"labels": {"x": null}}, "data": {"k": "v"}});
        let write =
            tokio::spawn(async move { merge_patch(&api, &object(), Part::Object, patch, LIMIT).await });
        let asked = sent(&mut server, "/api/v1/namespaces/default/configmaps/a").await;
        assert_eq!(
            asked.body,
            json!({"metadata": {"labels": {"x": null}, "resourceVersion": "7"}, "data": {"k": "v"}})
        );
        asked.answer(&config_map("a", "8"));
        assert_eq!(write.await.unwrap().unwrap().metadata.resource_version.as_deref(), Some("8"));
    }

    #[tokio::test]
    async fn a_json_patch_of_the_status_begins_with_the_version_it_was_made_from() {
        let (mut server, client) = Server::new();
        let api = config_maps(client);
        let remove = json_patch::RemoveOperation { path: PointerBuf::from_tokens(["status", "old"]) };
        let operations = vec![PatchOperation::Remove(remove)];
        let write =
            tokio::spawn(async move { json_patch(&api, &object(), Part::Status, operations, LIMIT).await });
        let asked = sent(&mut server, "/api/v1/namespaces/default/configmaps/a/status").await;
        assert_eq!(
            asked.body,
            json!([
                {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
                {"op": "remove", "path": "/status/old"},
            ])
        );
        asked.refuse(409, "Conflict");
        let error = write.await.unwrap().unwrap_err();
        assert!(error.is_conflict());
        assert_eq!(
            error.to_string(),
            "failed to patch the status of /api/v1/namespaces/default/configmaps/a: refused as Conflict (409)"
        );
    }

    #[tokio::test]
    async fn a_patch_of_single_fields_begins_with_the_object_that_it_is_for() {
        let (mut server, client) = Server::new();
        let api = config_maps(client);
        let operations = [json!({"op": "add", "path": "/status/x", "value": 1})];
        let write = tokio::spawn(async move {
            json_patch_tested(&api, &object(), Part::Status, &operations, LIMIT).await
        });
        let asked = sent(&mut server, "/api/v1/namespaces/default/configmaps/a/status").await;
        assert_eq!(
            asked.body,
            json!([
                {"op": "test", "path": "/metadata/uid", "value": "uid-a"},
                {"op": "add", "path": "/status/x", "value": 1},
            ])
        );
        asked.answer(&config_map("a", "8"));
        write.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn an_object_without_a_version_is_not_written() {
        let (_server, client) = Server::new();
        let mut object = object();
        object.metadata.resource_version = None;
        let written = merge_patch(&config_maps(client), &object, Part::Status, json!({}), LIMIT).await;
        assert!(
            matches!(written, Err(CallError::Incomplete { missing: "resourceVersion", .. })),
            "{written:?}"
        );
    }
}
