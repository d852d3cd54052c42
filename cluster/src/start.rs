//! Which cluster a test gets: the one of the test run, or one of its own.

use std::path::Path;

use anyhow::{Context as _, Result};
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::keeper::Keeper;
use crate::launch::{Options, launch};
use crate::own::OwnCluster;
use crate::programs::Programs;
use crate::state::Folder;
use crate::{VARIABLE, definitions};

/// The cluster of this process, and what keeps it when it is this process's own.
static SHARED: OnceCell<Option<(Cluster, Option<Keeper>)>> = OnceCell::const_new();

impl Cluster {
    /// The cluster of this test run: the one whose folder [`VARIABLE`] names, else one of this process, which ends with
    /// it. `None`: its programs are missing and cannot be built, and that was said; with `CI=true` it is an error.
    pub async fn shared() -> Result<Option<Self>> {
        let shared = SHARED.get_or_try_init(|| async {
            if let Some(folder) = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()) {
                return Ok(Some((Self::running(Path::new(&folder)).await?, None)));
            }
            let Some(programs) = Programs::find_or_build()? else { return Ok(None) };
            let launched = Box::pin(launch(&programs, Folder::fresh()?, Options::default())).await?;
            anyhow::Ok(Some((launched.cluster, Some(launched.keeper))))
        });
        Ok(shared.await?.as_ref().map(|(cluster, _)| cluster.clone()))
    }

    /// A control plane of the caller's own, for tests that stop and restart it. It ends when it is dropped.
    pub async fn own() -> Result<Option<OwnCluster>> {
        Self::own_with(Options::default()).await
    }

    /// The same, started in another way.
    pub async fn own_with(options: Options) -> Result<Option<OwnCluster>> {
        let Some(programs) = Programs::find_or_build()? else { return Ok(None) };
        let launched = Box::pin(launch(&programs, Folder::fresh()?, options)).await?;
        Ok(Some(OwnCluster::new(launched)))
    }

    /// The cluster that somebody keeps in this folder, with our definitions as they are now.
    async fn running(folder: &Path) -> Result<Self> {
        let folder = Folder::new(folder);
        let state = folder.read_state().with_context(|| format!("{VARIABLE} names no running cluster"))?;
        let cluster = Self::new(folder, state);
        cluster.ready().await.with_context(|| format!("{VARIABLE} names a cluster that is not ready"))?;
        definitions::establish(&cluster.admin().await?, &definitions::ours()?).await?;
        Ok(cluster)
    }
}
