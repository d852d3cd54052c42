//! The cluster that a developer keeps: `cargo xtask kube up`, `down` and `status`.

use std::fs::{File, TryLockError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::cluster::Cluster;
use crate::folders::cache_dir;
use crate::launch::{Options, launch};
use crate::programs::Programs;
use crate::state::Folder;
use crate::supervisor::LOCK;

/// How long the end of a cluster may take.
const END: Duration = Duration::from_secs(30);

/// A developer's cluster.
pub struct Standing {
    /// The cluster.
    pub cluster: Cluster,
    /// Whether it was there before.
    pub was_up: bool,
    /// Version of Kubernetes.
    pub version: String,
    /// Whether Flux's definitions and controller are there.
    pub flux: bool,
}

/// Starts the cluster, unless it runs. `None`: its programs are missing and cannot be built, and that was said.
pub async fn up(flux: bool) -> Result<Option<Standing>> {
    if let Some(standing) = status().await? {
        if flux && !standing.flux {
            bail!("a cluster without Flux is up: `cargo xtask kube down` first");
        }
        return Ok(Some(standing));
    }
    let Some(programs) = Programs::find_or_build()? else { return Ok(None) };
    let folder = folder();
    // Of a cluster that a restart of the machine ended.
    let _ = std::fs::remove_dir_all(folder.path());
    std::fs::create_dir_all(folder.path())?;
    let options = Options { flux, compacts: true, ..Options::default() };
    let launched = Box::pin(launch(&programs, folder, options)).await?;
    let cluster = launched.detach().await?;
    Ok(Some(standing(cluster, false)))
}

/// The cluster, if it runs.
pub async fn status() -> Result<Option<Standing>> {
    let folder = folder();
    if !is_kept(&folder)? {
        return Ok(None);
    }
    let state = folder.read_state().context("a cluster is being started or ended")?;
    let cluster = Cluster::new(folder, state);
    cluster.ready().await.context("the cluster does not answer: `cargo xtask kube down` ends it")?;
    Ok(Some(standing(cluster, true)))
}

/// Ends the cluster, and waits until every process of it is gone. Answers whether there was one.
pub async fn down() -> Result<bool> {
    let folder = folder();
    if !is_kept(&folder)? {
        let _ = std::fs::remove_dir_all(folder.path());
        return Ok(false);
    }
    // While the lock is held the number is the supervisor's.
    let supervisor = folder.read_state()?.supervisor.to_string();
    let status = tokio::process::Command::new("kill").arg(&supervisor).status().await?;
    if !status.success() {
        bail!("failed to end the process {supervisor}");
    }
    let until = Instant::now() + END;
    let mut interval = tokio::time::interval(Duration::from_millis(20));
    while Instant::now() < until {
        interval.tick().await;
        if !is_kept(&folder)? {
            return Ok(true);
        }
    }
    bail!("the process {supervisor} still runs after {END:?}")
}

fn standing(cluster: Cluster, was_up: bool) -> Standing {
    let state = cluster.state();
    Standing { was_up, version: state.version.clone(), flux: state.flux, cluster }
}

/// One for each user.
fn folder() -> Folder {
    Folder::new(cache_dir().join("kube"))
}

/// Whether a supervisor lives: it holds a lock for as long as it does.
fn is_kept(folder: &Folder) -> Result<bool> {
    let Ok(lock) = File::open(folder.path().join(LOCK)) else { return Ok(false) };
    match lock.try_lock() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error).context("failed to look at the supervisor's lock"),
    }
}
