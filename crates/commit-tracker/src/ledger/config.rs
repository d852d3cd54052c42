//! Where a ledger is, and how long it waits.

use std::sync::Arc;
use std::time::Duration;

use windlass_runtime::Clock;

/// Where the ledger is, and how long it waits.
#[derive(Clone, Debug)]
pub struct LedgerConfig {
    /// The name of its head; shards append `-00` to `-7f`.
    pub name: String,
    /// How long one request may take.
    pub call_deadline: Duration,
    /// How long a write is tried, while its outcome is not known or the server is not there, before the ledger is lost.
    pub write_deadline: Duration,
    /// How long a write waits for further records. The only delay of a record when there is no other.
    pub gather: Duration,
    /// How long what nobody waits for (`Ledger::note`) waits for a record of its shard that somebody does.
    pub linger: Duration,
    /// How long what is forgotten is shown when nobody takes it. Prometheus looks back as long for a series that ended.
    pub show_deleted_for: Duration,
    /// Tells when the ledger and its entries begin.
    pub clock: Arc<dyn Clock>,
}

impl LedgerConfig {
    /// The ledger `flux-commit-tracker-ledger`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            name: "flux-commit-tracker-ledger".to_owned(),
            call_deadline: Duration::from_secs(5),
            write_deadline: Duration::from_secs(30),
            gather: Duration::from_millis(10),
            linger: Duration::from_millis(50),
            show_deleted_for: Duration::from_mins(5),
            clock,
        }
    }
    /// The name of a shard's `ConfigMap`.
    pub(super) fn shard_name(&self, shard: u8) -> String {
        format!("{}-{shard:02x}", self.name)
    }
}
