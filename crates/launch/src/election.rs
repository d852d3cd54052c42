//! Which Lease the replicas of an operator stand for.

use std::sync::Arc;

use windlass_runtime::{LeaderConfig, LeaderConfigError, LeaderElection};

use crate::Context;

impl Context {
    /// This process's part in the election that the settings ask for; none when they ask for none.
    ///
    /// # Errors
    /// The times do not go together.
    pub fn election(&self) -> Result<Option<LeaderElection>, LeaderConfigError> {
        if !self.settings.leader_election() {
            return Ok(None);
        }
        let operator = self.settings.operator();
        let client = self.clients.core.clone();
        let own = self.scope.namespace().unwrap_or_else(|| client.default_namespace());
        let config = LeaderConfig {
            namespace: operator.leader_election_namespace.clone().unwrap_or_else(|| own.to_owned()),
            name: operator.leader_election_name.clone(),
            identity: format!("{}_{}", host(), self.replica),
            lease_duration: operator.leader_election_lease_duration,
            renew_deadline: operator.leader_election_renew_deadline,
            retry_period: operator.leader_election_retry_period,
        };
        LeaderElection::new(client, config, Arc::clone(&self.clock)).map(Some)
    }
}

/// The machine's or pod's name, for the people who read the Lease.
fn host() -> String {
    let named = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let name = named.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    name.map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "windlass".to_owned())
}
