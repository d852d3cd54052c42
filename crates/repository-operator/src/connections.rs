//! Connections: a GitHub App whose tokens several repositories share. Grafana: `controller/connection.go`.
//!
//! A connection is checked on change and in intervals: whether its key signs for the App, whether the App is installed,
//! and what it was granted. Conditions, health and field errors say how that went, and what to do. While repositories
//! refer to a connection a finalizer keeps it.
//!
//! The token of a repository is the repository's own business: see `token.rs`. No claim to be the App is stored: it is
//! signed anew for each request, and good for minutes.
//!
//! Start reading at `reconcile.rs`; `check.rs` names what is wrong, `lead.rs` has the queue.

mod check;
mod lead;
mod reconcile;

use std::sync::Arc;

use async_trait::async_trait;
use kube::Api;
use tokio_util::sync::CancellationToken;
use windlass_api::{Connection, Repository};
use windlass_launch::observe_leadership;
use windlass_runtime::{BoxError, LeaderElection, Leadership, Operator, Term, Watch, WatchConfig};

pub(crate) use self::check::{Asked, explain, needed};
pub(crate) use self::lead::{Connections, referred_to};
use crate::secrets::{self, SecretChange};

/// Health of connections, apart from the repositories that use them.
pub const PROVISIONING_CONNECTION: &str = "provisioning-connection";

/// The Lease of processes that look after connections alone.
const LEASE: &str = "windlass-provisioning-connection";

/// The operator that looks after connections alone. The operator of repositories does so, too.
pub struct ConnectionsOperator;

#[async_trait]
impl Operator<windlass_launch::Context> for ConnectionsOperator {
    fn name(&self) -> &'static str {
        PROVISIONING_CONNECTION
    }

    async fn run(self: Box<Self>, process: Arc<windlass_launch::Context>) -> Result<(), BoxError> {
        let shutdown = process.supervisor.token().clone();
        let repositories: Api<Repository> = process.scope.api(process.clients.provisioning.clone());
        let repositories = Watch::new(repositories, WatchConfig::new("repositories"));
        let watch = watch(&process);
        let connections = Arc::new(Connections::new(&process, watch.store(), repositories.store()));
        let election = election(&process)?;
        let leadership = election.as_ref().map_or_else(Leadership::always, LeaderElection::leadership);
        if election.is_some() {
            observe_leadership(&process.metrics.meter("connections"), LEASE, &leadership);
        }
        let (forward, references) = (Arc::clone(&connections), Arc::clone(&connections));
        let follow = watch.run(process.health.clone(), shutdown.clone(), move |event| {
            forward.connection_seen(&event);
        });
        let follow_repositories = repositories.run(process.health.clone(), shutdown.clone(), move |event| {
            references.repository_seen(&event);
        });
        let (secrets, of_secrets) = (secrets::watch(&process), Arc::clone(&connections));
        let known = secrets.store();
        let follow_secrets = secrets.run(process.health.clone(), shutdown.clone(), move |event| {
            if let Some(change) = SecretChange::of(&event, &known) {
                of_secrets.secret_changed(&change);
            }
        });
        tracing::info!(scope = %process.scope, leader_election = election.is_some(), "connection operator started");
        let finished = CancellationToken::new();
        let stand = async {
            if let Some(election) = election {
                election.run(process.health.clone(), finished.clone()).await;
            }
        };
        let lead = async {
            let work =
                |term: Term| connections.lead(process.clients.map(|client| term.guard(client)), &shutdown);
            leadership.lead(&shutdown, work).await;
            finished.cancel();
        };
        tokio::join!(follow, follow_repositories, follow_secrets, stand, lead);
        Ok(())
    }
}

/// A watch of the connections that the process works on.
pub(crate) fn watch(process: &windlass_launch::Context) -> Watch<Connection> {
    let config = WatchConfig {
        resync: Some(process.settings.operator().resync_interval),
        ..WatchConfig::new("connections")
    };
    Watch::new(process.scope.api(process.clients.provisioning.clone()), config)
}

fn election(process: &windlass_launch::Context) -> Result<Option<LeaderElection>, BoxError> {
    if !process.settings.leader_election() {
        return Ok(None);
    }
    let own = process.scope.namespace().unwrap_or_else(|| process.clients.core.default_namespace());
    let named = process.settings.operator().leader_election_namespace.clone();
    Ok(Some(process.election_for(named.as_deref().unwrap_or(own), LEASE)?))
}
