//! A real kube-apiserver with etcd, and the embedded server, in one run.
//!
//! etcd waits for the disk at each write, as the embedded store does. Controllers are the real programs, each under the
//! Roles that `deploy/` grants.

mod claims;
mod pull;
mod servers;

use std::time::Instant;

use anyhow::Result;
use windlass_cluster::{Cluster, Options, OwnCluster};
use windlass_e2e::{Operator, Remote, Scene};

use crate::api::Api;
use crate::samples::Samples;
use crate::table::{Row, Table, Target, Unit};

pub(crate) async fn measure(table: &mut Table) -> Result<()> {
    let started = Instant::now();
    let Some(cluster) = Box::pin(cluster()).await? else { return Ok(()) };
    let took = Samples::millis([started.elapsed()]);
    table.add(Row::new("kube: ready, with our definitions", Target::None, Unit::Millis, took));
    claims::one(table, &cluster).await?;
    claims::ten(table, &cluster).await?;
    pull::measure(table, &cluster).await?;
    drop(cluster);
    servers::measure(table).await
}

/// A control plane whose writes are durable. `None`: its programs are missing, and that was said.
async fn cluster() -> Result<Option<OwnCluster>> {
    Cluster::own_with(Options { durable: true, compacts: true, ..Options::default() }).await
}

/// A namespace with a healthy repository `bench` that was not pulled yet, and no jobs controller.
struct Stage {
    scene: Scene,
    /// The administrator's.
    api: Api,
    _repositories: Operator,
}

impl Stage {
    async fn start(cluster: &Cluster, remote: &Remote) -> Result<Self> {
        let scene = Scene::on(cluster, &[remote.origin()]).await?;
        let repositories = scene.repository_controller(&[]).await?;
        scene.create_repository("bench", &remote.url()).await?;
        scene.healthy("bench").await?;
        let api = Api::of_cluster(cluster, scene.namespace.name(), cluster.admin_token())?;
        Ok(Self { scene, api, _repositories: repositories })
    }
}
