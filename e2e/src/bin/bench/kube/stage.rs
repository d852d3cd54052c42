//! The cluster and the repository that everything is measured with.

use anyhow::Result;
use windlass_cluster::{Cluster, Options, OwnCluster};
use windlass_e2e::{Operator, Remote, Scene};

use crate::api::Api;

/// A control plane whose writes are durable. `None`: its programs are missing, and that was said.
pub(super) async fn cluster() -> Result<Option<OwnCluster>> {
    Cluster::own_with(Options { durable: true, compacts: true, ..Options::default() }).await
}

/// A namespace with a healthy repository `bench` that was not pulled yet, and no jobs controller.
pub(super) struct Stage {
    pub(super) scene: Scene,
    /// The administrator's.
    pub(super) api: Api,
    _repositories: Operator,
}

impl Stage {
    pub(super) async fn start(cluster: &Cluster, remote: &Remote) -> Result<Self> {
        let scene = Scene::on(cluster, &[remote.origin()]).await?;
        let repositories = scene.repository_controller(&[]).await?;
        scene.create_repository("bench", &remote.url()).await?;
        scene.healthy("bench").await?;
        let api = Api::of_cluster(cluster, scene.namespace.name(), cluster.admin_token())?;
        Ok(Self { scene, api, _repositories: repositories })
    }
}
