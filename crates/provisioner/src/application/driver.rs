//! Who deploys applications.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::catalogue::Parameter;
use crate::provisioner::Provisioner;
use crate::remote::{RemoteCluster, RemoteConfig};
use crate::{Outcome, ProvisionError, Scope, Visited};

/// The label with the hash of an identity.
pub const IDENTITY: &str = "provisioner.windlass.dev/identity";

/// Which application of whom, on which cluster: the same whatever the catalogue and the owner's labels say later.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The application's name.
    pub name: String,
    /// SHA-256 over its name and the sorted pairs that it is told apart by, 16 hexadecimal digits of it.
    pub key: String,
}

impl Identity {
    /// The identity of an application with these pairs. No two different lists of pairs are the same identity.
    pub fn new<'a>(name: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let pairs: BTreeMap<&str, &str> = pairs.into_iter().collect();
        let text = serde_json::json!([name, pairs]).to_string();
        let key = hex::encode(&Sha256::digest(text)[..8]);
        Self { name: name.to_owned(), key }
    }

    /// The name of objects that belong to it.
    pub fn object_name(&self) -> String {
        format!("{}-{}", self.name, self.key)
    }
}

/// Where an application comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A chart in a Helm repository.
    Chart {
        /// The repository's URL.
        repo: String,
        /// The chart's name.
        chart: String,
        /// Its version, exactly as it is written.
        version: String,
    },
    /// A folder in a Git repository.
    Git {
        /// The repository's URL.
        repo: String,
        /// The branch.
        branch: String,
        /// The folder.
        path: String,
        /// Whether it is a kustomization, and no chart.
        kustomize: bool,
    },
}

/// What a driver is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// Where it comes from.
    pub source: Source,
    /// The release's name.
    pub release: Option<String>,
    /// Parameters, each name once, in order.
    pub parameters: Vec<Parameter>,
    /// Values of the chart.
    pub values: Option<Value>,
    /// The namespace that it goes to.
    pub namespace: String,
    /// That namespace's labels.
    pub namespace_labels: BTreeMap<String, String>,
    /// Whether it is created.
    pub create_namespace: bool,
    /// Whether objects are applied on the server's side.
    pub server_side_apply: bool,
    /// Whether it is up although it works badly.
    pub allow_degraded: bool,
}

/// Deploys applications to the scope's target cluster, by objects on the local one.
#[async_trait]
pub trait Driver: Send + Sync {
    /// Brings an application up, or finds that it is.
    async fn apply(&self, scope: &Scope, identity: &Identity, desired: &Desired) -> Visited;

    /// Removes an application, or finds that it is gone.
    async fn delete(&self, scope: &Scope, identity: &Identity) -> Visited;

    /// Makes a cluster known.
    async fn register(&self, scope: &Scope, cluster: &str, kubeconfig: &SecretString) -> Visited;

    /// Forgets a cluster.
    async fn unregister(&self, scope: &Scope, cluster: &str) -> Visited;
}

/// A cluster's registration with a driver, for [`RemoteOptions`](crate::RemoteOptions).
pub struct Registration {
    driver: Arc<dyn Driver>,
    remote: Box<dyn RemoteCluster>,
}

impl Registration {
    /// The registration of this cluster.
    pub fn new(driver: Arc<dyn Driver>, remote: impl RemoteCluster + 'static) -> Self {
        Self { driver, remote: Box::new(remote) }
    }
}

#[async_trait]
impl Provisioner<Scope> for Registration {
    #[expect(clippy::unnecessary_literal_bound, reason = "the trait's signature")]
    fn name(&self) -> &str {
        "registration"
    }

    fn kind(&self) -> &'static str {
        "registration"
    }

    async fn provision(&self, scope: &Scope) -> Visited {
        let kubeconfig = match self.remote.config(scope).await? {
            RemoteConfig::Kubeconfig(kubeconfig) => kubeconfig,
            RemoteConfig::Wait(outcome) => return Ok(outcome),
        };
        self.driver.register(scope, &self.remote.id(), &kubeconfig).await
    }

    async fn deprovision(&self, scope: &Scope) -> Visited {
        self.driver.unregister(scope, &self.remote.id()).await
    }
}

/// One visit to each, while they are ready.
pub(super) async fn each_provisioned<'a>(
    scope: &Scope,
    nodes: impl IntoIterator<Item = &'a dyn Provisioner<Scope>>,
) -> Visited {
    for node in nodes {
        let outcome = node.provision(scope).await?;
        if !outcome.is_ready() {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Ready)
}

/// A failure whose reason is that an identity is not unique.
pub(super) fn ambiguous(identity: &Identity, names: &[String]) -> ProvisionError {
    let message = format!("{} has more than one application: {}", identity.name, names.join(", "));
    ProvisionError::user_action(crate::Reason::AmbiguousIdentity, message)
}

/// The name of the objects that stand for a cluster.
pub(super) fn cluster_name(cluster: &str) -> String {
    format!("cluster-{}", &hex::encode(Sha256::digest(cluster))[..16])
}
