//! `cargo xtask kube`: a real Kubernetes control plane on this machine, to develop against.

use anyhow::{Result, bail};
use windlass_cluster::Standing;

use crate::shell::{cargo, run as run_command};

/// Options of `cargo xtask kube`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Start etcd, kube-apiserver and kube-controller-manager, and apply our definitions.
    ///
    /// The programs come from the folder that `KUBEBUILDER_ASSETS` names, or from the user's cache folder, where Go
    /// builds them the first time (about seven minutes on two processors). Ports are free ones, certificates are
    /// fresh. Of the controllers, garbage collection and the deletion of namespaces run; there are no nodes.
    /// A cluster that is up already is left as it is.
    Up {
        /// Apply Flux's definitions too, and run its kustomize-controller.
        #[arg(long)]
        flux: bool,
    },
    /// End what `up` started, and forget what was in it.
    Down,
    /// Say whether the cluster is up, and how to reach it.
    Status,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match args.what {
            What::Up { flux } => {
                build_supervisor()?;
                match Box::pin(windlass_cluster::up(flux)).await? {
                    Some(standing) => print(&standing),
                    None => bail!("there is nothing to start"),
                }
            }
            What::Down => {
                let was_up = windlass_cluster::down().await?;
                println!(
                    "{}",
                    if was_up {
                        "the cluster is down, and every process of it is gone"
                    } else {
                        "no cluster was up"
                    }
                );
            }
            What::Status => match windlass_cluster::status().await? {
                Some(standing) => print(&standing),
                None => bail!("no cluster is up; `cargo xtask kube up` starts one"),
            },
        }
        Ok(())
    })
}

/// Builds what keeps the processes.
fn build_supervisor() -> Result<()> {
    run_command(cargo().args(["build", "--quiet", "--locked", "--package", "windlass-cluster"]))
}

fn print(standing: &Standing) {
    let Standing { cluster, was_up, version, flux } = standing;
    let (state, flux) = (if *was_up { "is up" } else { "is ready" }, if *flux { " with Flux" } else { "" });
    println!(
        "Kubernetes {version}{flux} {state} at {}; logs are in {}\n",
        cluster.url(),
        cluster.folder().display()
    );
    println!("  export KUBECONFIG={}", cluster.admin_kubeconfig().display());
    println!("  export {}={}    # for tests\n", windlass_cluster::VARIABLE, cluster.folder().display());
    println!("`cargo xtask kube down` ends it.");
}
