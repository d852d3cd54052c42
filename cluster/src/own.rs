//! A control plane that a test may stop, pause and break.

use std::ops::Deref;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::certificates::{self, ServingCertificate};
use crate::cluster::Cluster;
use crate::etcd::{self, Etcd};
use crate::identity::write_kubeconfig;
use crate::keeper::Keeper;
use crate::launch::{APISERVER, CONTROLLERS, ETCD, Launched, Plan, ready};
use crate::supervisor::{Answer, Order};

/// How long the API server may drain its requests when it is asked to end.
const DRAIN: Duration = Duration::from_secs(20);

/// A control plane of one test's own. It ends when this is dropped.
///
/// Whatever ends or kills a process waits until it is gone, so that its port is free.
pub struct OwnCluster {
    cluster: Cluster,
    keeper: Keeper,
    plan: Plan,
}

impl OwnCluster {
    pub(crate) fn new(Launched { cluster, keeper, plan }: Launched) -> Self {
        Self { cluster, keeper, plan }
    }

    /// Asks the API server to end, and waits until it has; after 20 s it is killed.
    pub async fn stop_apiserver(&self) -> Result<()> {
        self.end(APISERVER, "TERM", DRAIN).await
    }

    /// Kills the API server.
    pub async fn kill_apiserver(&self) -> Result<()> {
        self.end(APISERVER, "KILL", DRAIN).await
    }

    /// Starts the API server again on the same port, and waits until it is ready.
    pub async fn start_apiserver(&self) -> Result<()> {
        self.keeper.order(self.plan.apiserver()).await?;
        ready(&self.keeper, &self.cluster, &self.plan.folder).await
    }

    /// Stops the API server without ending it (SIGSTOP): connections stay open, and nothing answers.
    pub async fn pause_apiserver(&self) -> Result<()> {
        self.signal(APISERVER, "STOP").await
    }

    /// Lets it go on (SIGCONT).
    pub async fn resume_apiserver(&self) -> Result<()> {
        self.signal(APISERVER, "CONT").await
    }

    /// Stops garbage collection and the deletion of namespaces.
    pub async fn stop_controllers(&self) -> Result<()> {
        self.end(CONTROLLERS, "KILL", DRAIN).await
    }

    /// Starts them again.
    pub async fn start_controllers(&self) -> Result<()> {
        self.keeper.order(self.plan.controllers()).await?;
        Ok(())
    }

    /// Makes etcd forget all but the newest version of each key, and answers the revision before which nothing is known.
    pub async fn compact_etcd(&self) -> Result<u64> {
        etcd::compact(self.plan.state.etcd_port).await
    }

    /// What is beneath the API server. What is written there it takes up as if another API server had: whoever watches is
    /// told, and sooner than this one can write.
    pub fn etcd(&self) -> Result<Etcd> {
        Etcd::new(self.plan.state.etcd_port)
    }

    /// Puts another certificate where the API server reads its own from; it notices within a minute, at once when it is
    /// restarted. With [`ServingCertificate::OfNewAuthority`] the CA file and the admin's kubeconfig change too.
    pub fn replace_certificate(&self, certificate: ServingCertificate) -> Result<()> {
        certificates::replace(&self.plan.folder, certificate)?;
        let (folder, state) = (&self.plan.folder, &self.plan.state);
        write_kubeconfig(&folder.kubeconfig(), &state.url, &folder.ca(), &state.admin_token, "default")
    }

    /// Process ids of the API server and of etcd, to measure them.
    pub async fn processes(&self) -> Result<[u32; 2]> {
        Ok([self.process(APISERVER).await?, self.process(ETCD).await?])
    }

    async fn process(&self, name: &str) -> Result<u32> {
        match self.keeper.order(Order::Look { name: name.to_owned() }).await? {
            Answer::Running(id) => Ok(id),
            other => bail!("{name} does not run: {other:?}"),
        }
    }

    /// Process id of the one that keeps the others.
    pub fn supervisor(&self) -> u32 {
        self.keeper.id()
    }

    async fn end(&self, name: &str, signal: &str, timeout: Duration) -> Result<()> {
        let (name, signal) = (name.to_owned(), signal.to_owned());
        self.keeper.order(Order::End { name, signal, timeout }).await?;
        Ok(())
    }

    async fn signal(&self, name: &str, signal: &str) -> Result<()> {
        let (name, signal) = (name.to_owned(), signal.to_owned());
        self.keeper.order(Order::Signal { name, signal }).await?;
        Ok(())
    }
}

impl Deref for OwnCluster {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}
