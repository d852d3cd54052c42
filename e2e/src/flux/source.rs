//! A source object whose status is written as source-controller writes it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use super::{Artifacts, GitRemote};

/// Flux's kinds of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A Git repository.
    GitRepository,
    /// An artifact in a registry.
    OciRepository,
    /// A bucket of an object store.
    Bucket,
    /// An artifact that another controller makes.
    ExternalArtifact,
}

impl Kind {
    /// As `sourceRef.kind` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::GitRepository => "GitRepository",
            Self::OciRepository => "OCIRepository",
            Self::Bucket => "Bucket",
            Self::ExternalArtifact => "ExternalArtifact",
        }
    }

    /// How the API server serves it.
    pub fn resource(self) -> ApiResource {
        let kind = GroupVersionKind::gvk("source.toolkit.fluxcd.io", "v1", self.name());
        let plural = match self {
            Self::GitRepository => "gitrepositories",
            Self::OciRepository => "ocirepositories",
            Self::Bucket => "buckets",
            Self::ExternalArtifact => "externalartifacts",
        };
        ApiResource::from_gvk_with_plural(&kind, plural)
    }

    /// A specification that the definition takes.
    fn spec(self, url: &str) -> Value {
        match self {
            Self::GitRepository => {
                json!({"url": url, "interval": "1h", "ref": {"branch": super::git::BRANCH}})
            }
            Self::OciRepository => {
                json!({"url": url, "interval": "1h", "insecure": true, "ref": {"tag": "latest"}})
            }
            Self::Bucket => {
                json!({"bucketName": "fleet", "endpoint": url, "interval": "1h", "insecure": true})
            }
            Self::ExternalArtifact => json!({
                "sourceRef": {"apiVersion": "example.org/v1", "kind": "Generator", "name": "fleet"},
            }),
        }
    }
}

/// A source object, and the stand-in for who writes its status.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    api: Api<DynamicObject>,
}

/// What was published, and the test's own clock around it.
#[derive(Clone, Debug)]
pub struct Published {
    /// As the status names it.
    pub revision: String,
    /// Before the status was written.
    pub begun: Timestamp,
    /// After the API server had answered.
    pub written: Timestamp,
}

impl Source {
    /// Creates a source object.
    pub async fn create(
        client: &kube::Client,
        namespace: &str,
        kind: Kind,
        name: &str,
        url: &str,
    ) -> Result<Self> {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind.resource());
        let object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": kind.name(),
            "metadata": {"name": name, "namespace": namespace},
            "spec": kind.spec(url),
        });
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await
            .with_context(|| format!("failed to create {} {name}", kind.name()))?;
        Ok(Self { kind, namespace: namespace.to_owned(), name: name.to_owned(), api })
    }

    /// A source object that somebody else creates.
    pub fn of(client: &kube::Client, namespace: &str, kind: Kind, name: &str) -> Self {
        let api = Api::namespaced_with(client.clone(), namespace, &kind.resource());
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned(), api }
    }

    /// Packs a commit of `remote`, and says that it is the source's newest revision.
    pub async fn publish(
        &self,
        artifacts: &Artifacts,
        remote: &GitRemote,
        commit: &str,
    ) -> Result<Published> {
        let revision = format!("{}@sha1:{commit}", super::git::BRANCH);
        let bytes = remote.archive(commit).await?;
        self.publish_as(artifacts, &revision, bytes, &BTreeMap::new()).await
    }

    /// Says that this is the source's newest revision.
    pub async fn publish_as(
        &self,
        artifacts: &Artifacts,
        revision: &str,
        bytes: Vec<u8>,
        metadata: &BTreeMap<String, String>,
    ) -> Result<Published> {
        let file = revision.rsplit(':').next().unwrap_or(revision);
        let folder = self.kind.name().to_lowercase();
        let artifact =
            artifacts.put(&format!("{folder}/{}/{}/{file}.tar.gz", self.namespace, self.name), bytes);
        let begun = Timestamp::now();
        // As Kubernetes writes times: whole seconds.
        let now = begun.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let generation = self.api.get_metadata(&self.name).await?.metadata.generation.unwrap_or(1);
        let message = format!("stored artifact for revision '{revision}'");
        let condition = |kind: &str| {
            json!({
                "type": kind,
                "status": "True",
                "reason": "Succeeded",
                "message": message,
                "observedGeneration": generation,
                "lastTransitionTime": now,
            })
        };
        let mut status = json!({
            "artifact": {
                "digest": artifact.digest,
                "lastUpdateTime": now,
                "path": artifact.path,
                "revision": revision,
                "size": artifact.size,
                "url": artifact.url,
            },
            "conditions": [condition("Ready"), condition("ArtifactInStorage")],
        });
        if self.kind != Kind::ExternalArtifact {
            status["observedGeneration"] = generation.into();
        }
        if !metadata.is_empty() {
            status["artifact"]["metadata"] = json!(metadata);
        }
        let patch = Patch::Merge(json!({"status": status}));
        self.api
            .patch_status(&self.name, &PatchParams::default(), &patch)
            .await
            .with_context(|| format!("failed to publish {revision}"))?;
        Ok(Published { revision: revision.to_owned(), begun, written: Timestamp::now() })
    }

    /// Deletes the object.
    pub async fn delete(&self) -> Result<()> {
        self.api.delete(&self.name, &kube::api::DeleteParams::default()).await?;
        Ok(())
    }
}
