//! A Kustomization that kustomize-controller applies, and when a test saw what of it.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use futures::TryStreamExt as _;
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{FluxScene, Source};
use crate::eventually;

/// A Kustomization, whose status is watched for as long as this is held.
pub struct Kustomization {
    /// Its name.
    pub name: String,
    api: Api<DynamicObject>,
    observed: Arc<Mutex<Vec<Observed>>>,
    task: JoinHandle<()>,
}

/// A revision that was seen to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// `status.lastAppliedRevision`.
    pub revision: String,
    /// When the watch told it, on the test's clock.
    pub seen: Timestamp,
}

impl Kustomization {
    /// How the API server serves it.
    pub fn resource() -> ApiResource {
        let kind = GroupVersionKind::gvk("kustomize.toolkit.fluxcd.io", "v1", "Kustomization");
        ApiResource::from_gvk_with_plural(&kind, "kustomizations")
    }

    /// The document of a Kustomization of this source, with these fields of its specification besides.
    pub fn document(namespace: &str, name: &str, source: &Source, spec: &Value) -> Value {
        let mut document = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
            "kind": "Kustomization",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "interval": "10m",
                "retryInterval": "1s",
                "timeout": "30s",
                "path": "./",
                "prune": true,
                "targetNamespace": namespace,
                "sourceRef": {"kind": source.kind.name(), "name": source.name},
            },
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            document["spec"][field] = value.clone();
        }
        document
    }

    pub(super) async fn create(scene: &FluxScene, name: &str, source: &Source, spec: Value) -> Result<Self> {
        let namespace = scene.namespace.name();
        let api = Api::namespaced_with(scene.client.clone(), namespace, &Self::resource());
        let mut document = Self::document(namespace, name, source, &spec);
        let (label, value) = scene.label();
        document["metadata"]["labels"] = json!({label: value});
        api.create(&PostParams::default(), &serde_json::from_value(document)?)
            .await
            .with_context(|| format!("failed to create the Kustomization {name}"))?;
        let observed = Arc::default();
        let task = tokio::spawn(observe(api.clone(), name.to_owned(), Arc::clone(&observed)));
        Ok(Self { name: name.to_owned(), api, observed, task })
    }

    /// The object as it is now.
    pub async fn get(&self) -> Result<Value> {
        Ok(serde_json::to_value(self.api.get(&self.name).await?)?)
    }

    /// Every revision that was seen to be applied, oldest first.
    pub fn observed(&self) -> Vec<Observed> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until this revision was seen to be applied last.
    pub async fn applied(&self, revision: &str) -> Result<Observed> {
        eventually(&format!("{revision} is applied"), || async {
            match self.observed().pop() {
                Some(last) if last.revision == revision => Ok(Some(last)),
                other => bail!("applied last: {other:?}; it is {:#}", self.get().await?["status"]),
            }
        })
        .await
    }

    /// Waits until the Ready condition has this reason, and answers its status.
    pub async fn ready_for(&self, reason: &str) -> Result<Value> {
        eventually(&format!("Ready says {reason}"), || async {
            let status = self.get().await?["status"].take();
            let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
            let found = conditions.iter().any(|c| c["type"] == "Ready" && c["reason"] == reason);
            if !found {
                bail!("{status:#}");
            }
            Ok(Some(status))
        })
        .await
    }

    /// Changes the object.
    pub async fn patch(&self, patch: Value) -> Result<()> {
        self.api.patch(&self.name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Deletes it, and waits until it is gone.
    pub async fn delete(&self) -> Result<()> {
        self.api.delete(&self.name, &DeleteParams::default()).await?;
        eventually("the Kustomization is gone", || async {
            Ok(self.api.get_opt(&self.name).await?.is_none().then_some(()))
        })
        .await
    }
}

impl Drop for Kustomization {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Notes each change of the applied revision.
async fn observe(api: Api<DynamicObject>, name: String, observed: Arc<Mutex<Vec<Observed>>>) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let changes = watcher(api, config).default_backoff().applied_objects();
    // Failures are retried by the stream itself.
    let mut changes = std::pin::pin!(changes);
    loop {
        match changes.try_next().await {
            Ok(Some(object)) => {
                let seen = Timestamp::now();
                let revision = object.data["status"]["lastAppliedRevision"].as_str().unwrap_or_default();
                let mut observed = observed.lock().unwrap_or_else(PoisonError::into_inner);
                if !revision.is_empty() && observed.last().is_none_or(|last| last.revision != revision) {
                    observed.push(Observed { revision: revision.to_owned(), seen });
                }
            }
            Ok(None) => return,
            Err(_retried) => {}
        }
    }
}
