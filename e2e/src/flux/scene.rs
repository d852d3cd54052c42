//! A namespace in which a real kustomize-controller applies what sources publish.

use std::ops::Deref;

use anyhow::Result;
use serde_json::Value;
use windlass_cluster::{Cluster, Flux, Identity, Namespace};

use super::{Artifacts, GitRemote, Kind, Kustomization, Source, Tracker};
use crate::{Kubectl, deployed};

/// One test's namespace. kubectl and `client` are the administrator's.
pub struct FluxScene {
    /// The cluster.
    pub cluster: Cluster,
    /// The namespace of the test.
    pub namespace: Namespace,
    /// A client that may do everything.
    pub client: kube::Client,
    /// What sources publish.
    pub artifacts: Artifacts,
    /// Logs, caches and settings of everything that belongs to the scene.
    pub folder: tempfile::TempDir,
    /// Who the tracker is.
    pub tracker: Identity,
    flux: &'static Flux,
    kubectl: Kubectl,
}

impl Deref for FluxScene {
    type Target = Kubectl;

    fn deref(&self) -> &Kubectl {
        &self.kubectl
    }
}

impl FluxScene {
    /// A scene on the cluster of this test run. `None`: the programs are missing, and that was said.
    pub async fn shared() -> Result<Option<Self>> {
        let Some(cluster) = Cluster::shared().await? else { return Ok(None) };
        let Some(flux) = Flux::shared(&cluster).await? else { return Ok(None) };
        let namespace = cluster.namespace("flux").await?;
        let tracker = namespace.service_account(&deployed("commit-tracker/rbac.yaml")).await?;
        let folder = tempfile::tempdir()?;
        let kubectl = Kubectl::administrator(&cluster, &namespace, folder.path())?;
        let (client, artifacts) = (cluster.admin().await?, Artifacts::start().await?);
        Ok(Some(Self { cluster, namespace, client, artifacts, folder, tracker, flux, kubectl }))
    }

    /// Creates a source of this kind.
    pub async fn source(&self, kind: Kind, name: &str, url: &str) -> Result<Source> {
        Source::create(&self.client, self.namespace.name(), kind, name, url).await
    }

    /// Creates a `GitRepository` of this remote.
    pub async fn git_repository(&self, name: &str, remote: &GitRemote) -> Result<Source> {
        self.source(Kind::GitRepository, name, &remote.url()).await
    }

    /// Creates a Kustomization of this source that is applied, with these fields of its specification besides.
    pub async fn kustomization(&self, name: &str, source: &Source, spec: Value) -> Result<Kustomization> {
        Kustomization::create(self, name, source, spec).await
    }

    /// Starts a tracker of every Kustomization of the namespace, which need not become ready. `origin` is the Git server
    /// that it may use although it is local.
    pub fn spawn_tracker(
        &self,
        origin: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Tracker> {
        let (namespace, origin) =
            (format!("--namespace={}", self.namespace.name()), format!("--allow-git-origin={origin}"));
        let arguments = [&["--all", &namespace, &origin], arguments].concat();
        Tracker::spawn(self.folder.path(), &self.tracker.kubeconfig, &arguments, environment)
    }

    /// Starts one and waits until it is ready.
    pub async fn start_tracker(
        &self,
        origin: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Tracker> {
        let tracker = self.spawn_tracker(origin, arguments, environment)?;
        tracker.ready().await?;
        Ok(tracker)
    }

    /// Label and value by which kustomize-controller knows what it is to apply.
    pub fn label(&self) -> (&'static str, &str) {
        self.flux.label()
    }

    /// The last lines that kustomize-controller said.
    pub fn flux_said(&self) -> String {
        self.flux.said()
    }
}
