//! Which Lease the replicas of an operator stand for.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use windlass_runtime::{LeaderConfig, LeaderConfigError, LeaderElection, Leadership};

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
        let own = self.scope.namespace().unwrap_or_else(|| self.clients.core.default_namespace());
        let namespace = operator.leader_election_namespace.as_deref().unwrap_or(own);
        self.election_for(namespace, &operator.leader_election_name).map(Some)
    }

    /// This process's part in the election for a Lease, with the times that the settings have.
    ///
    /// # Errors
    /// The times do not go together.
    pub fn election_for(&self, namespace: &str, name: &str) -> Result<LeaderElection, LeaderConfigError> {
        let operator = self.settings.operator();
        let config = LeaderConfig {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: format!("{}_{}", host(), self.replica),
            lease_duration: operator.leader_election_lease_duration,
            renew_deadline: operator.leader_election_renew_deadline,
            retry_period: operator.leader_election_retry_period,
        };
        LeaderElection::new(self.clients.core.clone(), config, Arc::clone(&self.clock))
    }
}

/// Whether this process leads, as controllers of Kubernetes say it.
pub fn observe_leadership(meter: &Meter, lease: &str, leadership: &Leadership) {
    let (lease, leadership) = (lease.to_owned(), leadership.clone());
    meter
        .u64_observable_gauge("leader_election_master_status")
        .with_description("Whether this process leads, 1 or 0, by the name of the Lease.")
        .with_callback(move |gauge| {
            gauge.observe(u64::from(leadership.is_leading()), &[KeyValue::new("name", lease.clone())]);
        })
        .build();
}

/// The machine's or pod's name, for the people who read the Lease.
fn host() -> String {
    let named = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let name = named.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    name.map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "windlass".to_owned())
}
