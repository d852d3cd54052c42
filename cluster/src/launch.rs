//! Starting a control plane: what each program is told, and when it is ready.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::certificates::{self, write_secret};
use crate::cluster::Cluster;
use crate::definitions;
use crate::flux;
use crate::identity::write_kubeconfig;
use crate::keeper::Keeper;
use crate::ports::free_ports;
use crate::programs::{Program, Programs};
use crate::state::{Folder, State};
use crate::supervisor::{Answer, Order};

pub(crate) const ETCD: &str = "etcd";
pub(crate) const APISERVER: &str = "kube-apiserver";
pub(crate) const CONTROLLERS: &str = "kube-controller-manager";

/// How long the API server may take to become ready, on a machine that is busy with other things.
const START: Duration = Duration::from_mins(2);
/// How often is looked.
const LOOK: Duration = Duration::from_millis(30);

/// How a control plane is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lets etcd wait for the disk at each write, as in production. Tests do not need it.
    pub durable: bool,
    /// Lets the API server compact etcd every five minutes, as in production. Otherwise only
    /// [`OwnCluster::compact_etcd`](crate::OwnCluster::compact_etcd) does.
    pub compacts: bool,
    /// Applies Flux's definitions too, and starts kustomize-controller.
    pub flux: bool,
    /// Further flags of kube-apiserver.
    pub apiserver_flags: Vec<String>,
}

/// A control plane that runs for as long as `keeper` is held.
pub(crate) struct Launched {
    pub(crate) cluster: Cluster,
    pub(crate) keeper: Keeper,
    pub(crate) plan: Plan,
}

impl Launched {
    /// Lets the cluster outlive this process.
    pub(crate) async fn detach(self) -> Result<Cluster> {
        self.keeper.detach().await?;
        Ok(self.cluster)
    }
}

/// What is started, and with which arguments.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) programs: Programs,
    pub(crate) folder: Folder,
    pub(crate) options: Options,
    pub(crate) state: State,
}

/// Starts everything and waits until our definitions are served.
pub(crate) async fn launch(programs: &Programs, folder: Folder, options: Options) -> Result<Launched> {
    let kustomize = if options.flux {
        Some(Program::KustomizeController.find_or_build()?.context("Flux needs kustomize-controller")?)
    } else {
        None
    };
    let mut definitions = definitions::ours()?;
    if options.flux {
        definitions.extend(definitions::flux()?);
    }

    certificates::make_all(&folder)?;
    let admin_token = uuid::Uuid::new_v4().simple().to_string();
    write_secret(&folder.tokens(), &format!("{admin_token},admin,admin,system:masters\n"))?;
    let [port, etcd_port, etcd_peer_port] = free_ports()?;
    let keeper = Keeper::start(&folder)?;
    let state = State {
        url: format!("https://127.0.0.1:{port}"),
        port,
        admin_token,
        etcd_port,
        etcd_peer_port,
        supervisor: keeper.id(),
        kubectl: programs.kubectl.clone(),
        version: Program::KubeApiserver.version()?,
        flux: options.flux,
    };
    write_kubeconfig(&folder.kubeconfig(), &state.url, &folder.ca(), &state.admin_token, "default")?;
    let plan = Plan { programs: programs.clone(), folder: folder.clone(), options, state };
    let cluster = Cluster::new(folder.clone(), plan.state.clone());

    keeper.order(plan.etcd()).await?;
    keeper.order(plan.apiserver()).await?;
    ready(&keeper, &cluster, &folder).await?;
    definitions::establish(&cluster.admin().await?, &definitions).await?;
    // They look for what there is when they start, and then only every half minute.
    keeper.order(plan.controllers()).await?;
    if let Some(program) = kustomize {
        let order = flux::kustomize(program, free_ports()?, &folder.kubeconfig(), folder.path(), &[]);
        keeper.order(order).await?;
    }
    folder.write_state(&plan.state)?;
    Ok(Launched { cluster, keeper, plan })
}

/// Waits until the API server says that it is ready.
pub(crate) async fn ready(keeper: &Keeper, cluster: &Cluster, folder: &Folder) -> Result<()> {
    let until = Instant::now() + START;
    let mut interval = tokio::time::interval(LOOK);
    let mut last = String::new();
    while Instant::now() < until {
        interval.tick().await;
        for name in [ETCD, APISERVER] {
            if let Answer::Gone(how) = keeper.order(Order::Look { name: name.to_owned() }).await? {
                bail!("{name} ended at its start ({how}); {}", folder.tail(name));
            }
        }
        match cluster.ready().await {
            Ok(()) => return Ok(()),
            Err(error) => last = format!("{error:#}"),
        }
    }
    bail!(
        "kube-apiserver is not ready after {START:?}: {last}\n{}\n{}",
        folder.tail(APISERVER),
        folder.tail(ETCD)
    )
}

impl Plan {
    pub(crate) fn etcd(&self) -> Order {
        let client = format!("http://127.0.0.1:{}", self.state.etcd_port);
        let peer = format!("http://127.0.0.1:{}", self.state.etcd_peer_port);
        let mut arguments = vec![
            format!("--data-dir={}", self.folder.path().join("etcd").display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            "--log-level=warn".to_owned(),
        ];
        if !self.options.durable {
            arguments.push("--unsafe-no-fsync".to_owned());
        }
        start(ETCD, &self.programs.etcd, arguments)
    }

    pub(crate) fn apiserver(&self) -> Order {
        let folder = &self.folder;
        let mut arguments = vec![
            format!("--etcd-servers=http://127.0.0.1:{}", self.state.etcd_port),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={}", self.state.port),
            format!("--cert-dir={}", folder.path().join("certificates").display()),
            format!("--tls-cert-file={}", folder.certificate().display()),
            format!("--tls-private-key-file={}", folder.certificate_key().display()),
            format!("--client-ca-file={}", folder.ca().display()),
            format!("--service-account-issuer={ISSUER}"),
            format!("--service-account-key-file={}", folder.account_public_key().display()),
            format!("--service-account-signing-key-file={}", folder.account_key().display()),
            format!("--token-auth-file={}", folder.tokens().display()),
            "--authorization-mode=RBAC".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            // Nothing here makes the default accounts that it waits for.
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            // There is no service network whose end points it would have to keep.
            "--endpoint-reconciler-type=none".to_owned(),
        ];
        if !self.options.compacts {
            arguments.push("--etcd-compaction-interval=0".to_owned());
        }
        arguments.extend(self.options.apiserver_flags.iter().cloned());
        start(APISERVER, &self.programs.apiserver, arguments)
    }

    pub(crate) fn controllers(&self) -> Order {
        let arguments = vec![
            format!("--kubeconfig={}", self.folder.kubeconfig().display()),
            "--controllers=garbage-collector-controller,namespace-controller".to_owned(),
            "--leader-elect=false".to_owned(),
            "--secure-port=0".to_owned(),
            "--kube-api-qps=200".to_owned(),
            "--kube-api-burst=400".to_owned(),
        ];
        start(CONTROLLERS, &self.programs.controller_manager, arguments)
    }
}

/// Who issues tokens of service accounts.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

fn start(name: &str, program: &std::path::Path, arguments: Vec<String>) -> Order {
    Order::Start { name: name.to_owned(), program: program.to_owned(), arguments, environment: Vec::new() }
}
