//! Nodes on another cluster.
//!
//! [`remote_cluster`] owns its child: the registration, if there is one, comes before it and goes once all of it is gone,
//! by the order of a series and without anybody counting.

mod kubeconfig;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use windlass_runtime::{Accept, CallOptions};

use crate::provisioner::{Enter, Entered};
use crate::resource::shown;
use crate::{
    Cluster, DeletionPolicy, Direction, Node, Outcome, ProvisionError, Reason, Scope, Visited, WakeOn,
    scoped, serial,
};

/// Another cluster.
#[async_trait]
pub trait RemoteCluster: Send + Sync {
    /// Unique among all clusters that the process knows: with the UID of what it belongs to in it, so that a cluster that
    /// is made again is another one.
    fn id(&self) -> String;

    /// How it is reached, asked for before every visit. A kubeconfig holds a token or a client certificate in itself: it
    /// names no program and no file.
    async fn config(&self, scope: &Scope) -> Result<RemoteConfig, ProvisionError>;
}

/// How a cluster is reached, if it is known yet.
pub enum RemoteConfig {
    /// By this kubeconfig.
    Kubeconfig(SecretString),
    /// It is not up yet.
    Wait(Outcome),
}

/// A cluster whose kubeconfig stands in a Secret of the cluster that the node is on.
#[derive(Clone, Debug)]
pub struct KubeconfigSecret {
    /// The cluster's identifier.
    pub id: String,
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// The key in it, such as `value` or `kubeconfig`.
    pub key: String,
}

impl KubeconfigSecret {
    /// The cluster `id`, whose kubeconfig stands under `key` in the Secret `name` of `namespace`.
    pub fn new(
        id: impl Into<String>,
        namespace: impl Into<String>,
        name: impl Into<String>,
        key: impl Into<String>,
    ) -> Self {
        Self { id: id.into(), namespace: namespace.into(), name: name.into(), key: key.into() }
    }
}

#[async_trait]
impl RemoteCluster for KubeconfigSecret {
    fn id(&self) -> String {
        self.id.clone()
    }

    async fn config(&self, scope: &Scope) -> Result<RemoteConfig, ProvisionError> {
        let secret = WakeOn {
            cluster: scope.target.id().to_owned(),
            version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            plural: "secrets".to_owned(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..WakeOn::default()
        };
        let shown = shown(&secret);
        let wait =
            |message: String| Outcome::wait(Reason::DependencyNotReady, message).wake_on(secret.clone());
        let Some(found) = scope.memory.read(&scope.target, &secret).await? else {
            return Ok(RemoteConfig::Wait(wait(format!("{shown} is not there yet"))));
        };
        let Some(encoded) = found["data"][&self.key].as_str() else {
            return Ok(RemoteConfig::Wait(wait(format!("{shown} has no key {} yet", self.key))));
        };
        let text = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let invalid = || {
            ProvisionError::user_action(
                Reason::InvalidKubeconfig,
                format!("the key {} of {shown} is no text", self.key),
            )
        };
        text.map(|text| RemoteConfig::Kubeconfig(text.into())).ok_or_else(invalid)
    }
}

/// Clients of other clusters, shared by all trees of a process. A client is made again when the kubeconfig changes, and
/// when the cluster has refused its credentials.
pub struct RemoteClusters {
    calls: CallOptions,
    clients: Mutex<HashMap<String, (String, Cluster)>>,
}

impl RemoteClusters {
    /// No clients yet; their calls are made with these options.
    pub fn new(calls: CallOptions) -> Self {
        Self { calls, clients: Mutex::default() }
    }

    /// The cluster of that identifier, reached by this kubeconfig.
    pub async fn cluster(&self, id: &str, kubeconfig: &SecretString) -> Result<Cluster, ProvisionError> {
        let hash = hex::encode(Sha256::digest(kubeconfig.expose_secret()));
        if let Some((known, cluster)) = self.lock().get(id)
            && *known == hash
        {
            return Ok(cluster.clone());
        }
        let client = kubeconfig::client(kubeconfig).await?;
        let cluster = Cluster::remote(id, client, self.calls.clone());
        self.lock().insert(id.to_owned(), (hash, cluster.clone()));
        Ok(cluster)
    }

    /// Drops the client of a cluster; the next visit makes another.
    pub fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (String, Cluster)>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What becomes of a child on its way down while its cluster cannot be reached.
pub enum Unreachable {
    /// It waits, and says why (`RemoteUnreachable`).
    Wait,
    /// It counts as gone if this says that the cluster itself is being destroyed, and waits otherwise.
    AbandonIf(Box<dyn Fn(&Scope) -> bool + Send + Sync>),
}

/// How a remote cluster's node works.
pub struct RemoteOptions {
    /// Makes the cluster known to whoever deploys to it. Runs where the node is, not on the cluster.
    pub registration: Option<Node<Scope>>,
    /// What becomes of the child while the cluster cannot be reached.
    pub unreachable: Unreachable,
    /// What becomes of objects on the cluster, where that is not the scope's policy.
    pub deletion: Option<DeletionPolicy>,
}

impl Default for RemoteOptions {
    /// No registration; wait for the cluster; the scope's policy.
    fn default() -> Self {
        Self { registration: None, unreachable: Unreachable::Wait, deletion: None }
    }
}

/// A child on another cluster.
pub fn remote_cluster(
    name: impl Into<String>,
    remote: impl RemoteCluster + 'static,
    clusters: Arc<RemoteClusters>,
    options: RemoteOptions,
    child: Node<Scope>,
) -> Node<Scope> {
    let RemoteOptions { registration, unreachable, deletion } = options;
    let enter = EnterRemote { remote: Box::new(remote), clusters, unreachable, deletion };
    let inside = scoped("on", enter, child);
    serial(name, registration.into_iter().chain([inside]))
}

struct EnterRemote {
    remote: Box<dyn RemoteCluster>,
    clusters: Arc<RemoteClusters>,
    unreachable: Unreachable,
    deletion: Option<DeletionPolicy>,
}

impl EnterRemote {
    /// What a visit comes to that does not reach the cluster.
    fn unreached(&self, scope: &Scope, direction: Direction, outcome: Outcome) -> Entered<Scope> {
        match &self.unreachable {
            Unreachable::AbandonIf(destroyed) if direction == Direction::Deprovision && destroyed(scope) => {
                let id = self.remote.id();
                self.clusters.forget(&id);
                Entered::Abandoned(format!("cluster {id} is being destroyed and cannot be reached any more"))
            }
            _ => Entered::Wait(outcome),
        }
    }
}

#[async_trait]
impl Enter<Scope> for EnterRemote {
    async fn enter(&self, scope: &Scope, direction: Direction) -> Result<Entered<Scope>, ProvisionError> {
        let id = self.remote.id();
        let kubeconfig = match self.remote.config(scope).await? {
            RemoteConfig::Kubeconfig(kubeconfig) => kubeconfig,
            RemoteConfig::Wait(outcome) => return Ok(self.unreached(scope, direction, outcome)),
        };
        let cluster = self.clusters.cluster(&id, &kubeconfig).await?;
        if direction == Direction::Deprovision {
            let version = cluster.rest().get::<Value>("ask for its version", "/version", Accept::Whole).await;
            if let Err(error) = version.map_err(|error| cluster.failed("ask for its version", error))
                && error.reason == Reason::RemoteUnreachable
            {
                let outcome = Outcome::wait(Reason::RemoteUnreachable, error.message);
                return Ok(self.unreached(scope, direction, outcome));
            }
        }
        let mut inner = scope.on(cluster);
        inner.deletion = self.deletion.unwrap_or(scope.deletion);
        Ok(Entered::Scope(inner))
    }

    fn left(&self, scope: &Scope, _visited: &Visited) {
        if scope.target.has_refused_us() {
            self.clusters.forget(scope.target.id());
        }
    }
}
