//! Flux's kustomize-controller beside a cluster, for what one process of tests asks it to apply.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use tokio::sync::OnceCell;

use crate::cluster::Cluster;
use crate::definitions;
use crate::keeper::Keeper;
use crate::ports::free_ports;
use crate::programs::Program;
use crate::state::Folder;
use crate::supervisor::{Answer, Order};

pub(crate) const KUSTOMIZE: &str = "kustomize-controller";
/// The label that says whose Kustomization it is: Flux's own, by which it shards.
const LABEL: &str = "sharding.fluxcd.io/key";
/// How long the controller may take to become ready, on a machine that is busy with other things.
const START: Duration = Duration::from_mins(1);

/// A kustomize-controller that applies the Kustomizations of this process, in whichever namespace, and no others'.
///
/// So tests that write the status of a Kustomization themselves are left alone, and so is what other processes left
/// behind.
#[derive(Debug)]
pub struct Flux {
    shard: String,
    /// The process that keeps it, and where its log is.
    kept: Option<(Keeper, Folder)>,
}

/// The one of this process.
static SHARED: OnceCell<Option<Flux>> = OnceCell::const_new();

impl Flux {
    /// The one of this process on the cluster of this test run. It is started at the first call, and ends with the
    /// process. `None`: it is not there and cannot be built, and that was said; with `CI=true` it is an error.
    pub async fn shared(cluster: &Cluster) -> Result<Option<&'static Self>> {
        Ok(SHARED.get_or_try_init(|| Self::start(cluster)).await?.as_ref())
    }

    /// Label and value that a Kustomization has to carry to be applied.
    pub fn label(&self) -> (&'static str, &str) {
        (LABEL, &self.shard)
    }

    /// The last lines that the controller said.
    pub fn said(&self) -> String {
        self.kept.as_ref().map(|(_, folder)| folder.tail(KUSTOMIZE)).unwrap_or_default()
    }

    async fn start(cluster: &Cluster) -> Result<Option<Self>> {
        let shard = uuid::Uuid::new_v4().simple().to_string();
        if cluster.state().flux {
            // Somebody keeps a cluster whose controller applies everything.
            return Ok(Some(Self { shard, kept: None }));
        }
        let Some(program) = Program::KustomizeController.find_or_build()? else { return Ok(None) };
        cluster.establish_flux().await?;
        let folder = Folder::fresh()?;
        let keeper = Keeper::start(&folder)?;
        let [metrics, health] = free_ports()?;
        let more = [
            format!("--watch-label-selector={LABEL}={shard}"),
            // Tests of failing applies wait for the next attempt.
            "--requeue-dependency=1s".to_owned(),
            "--feature-gates=ExternalArtifact=true".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        let order = kustomize(program, [metrics, health], cluster.admin_kubeconfig(), folder.path(), &more);
        keeper.order(order).await?;
        ready(&keeper, health, &folder).await?;
        Ok(Some(Self { shard, kept: Some((keeper, folder)) }))
    }
}

impl Cluster {
    /// Serves Flux's kinds on this cluster, without anybody who applies them.
    pub async fn establish_flux(&self) -> Result<()> {
        definitions::establish(&self.admin().await?, &definitions::flux()?).await
    }
}

/// The order that starts kustomize-controller, with its files in `folder`.
pub(crate) fn kustomize(
    program: PathBuf,
    [metrics, health]: [u16; 2],
    kubeconfig: &Path,
    folder: &Path,
    more: &[String],
) -> Order {
    let mut arguments = vec![
        "--watch-all-namespaces".to_owned(),
        "--enable-leader-election=false".to_owned(),
        format!("--metrics-addr=127.0.0.1:{metrics}"),
        format!("--health-addr=127.0.0.1:{health}"),
        "--events-addr=".to_owned(),
    ];
    arguments.extend(more.iter().cloned());
    let environment = vec![
        ("KUBECONFIG".to_owned(), kubeconfig.display().to_string()),
        ("TMPDIR".to_owned(), folder.display().to_string()),
    ];
    Order::Start { name: KUSTOMIZE.to_owned(), program, arguments, environment }
}

async fn ready(keeper: &Keeper, port: u16, folder: &Folder) -> Result<()> {
    let http = reqwest::Client::builder().no_proxy().build()?;
    let until = Instant::now() + START;
    let mut interval = tokio::time::interval(Duration::from_millis(50));
    while Instant::now() < until {
        interval.tick().await;
        if let Answer::Gone(how) = keeper.order(Order::Look { name: KUSTOMIZE.to_owned() }).await? {
            bail!("{KUSTOMIZE} ended at its start ({how}); {}", folder.tail(KUSTOMIZE));
        }
        let asked = http.get(format!("http://127.0.0.1:{port}/readyz")).send().await;
        if asked.context("no answer").is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
    }
    bail!("{KUSTOMIZE} is not ready after {START:?}; {}", folder.tail(KUSTOMIZE))
}
