//! The queue's settings.

use std::time::Duration;

/// Settings of a [`crate::Queue`]. Start from [`QueueConfig::new`].
#[derive(Clone, Debug)]
pub struct QueueConfig {
    /// Names this replica: any text that differs between replicas. It only spreads them, nothing depends on it.
    pub replica: String,
    /// A claim that was not seen to change for this long is taken to be abandoned.
    pub lease_expiry: Duration,
    /// The lease is renewed this often; at most a third of `lease_expiry`.
    pub renewal: Duration,
    /// So many claims of one job may lapse before it is failed.
    pub max_attempts: u32,
    /// How long this replica leaves a job alone that failed after it was claimed.
    pub cool_down: Duration,
    /// Pause after the first failed claim of a job; doubles with each further one.
    pub claim_backoff: Duration,
    /// So many failed claims in a row, and the job is left until the next [`crate::Queue::tick`] or change.
    pub claim_tries: u32,
    /// The widest window over which replicas spread their claims of one job.
    pub widest_window: Duration,
    /// How long to wait for the watch to explain a conflict before the job is read again.
    pub conflict_grace: Duration,
    /// So many jobs of one namespace this replica runs at a time; 0 for no limit.
    pub max_jobs_per_namespace: usize,
    /// For how long ending a job is tried again while the store is out of reach and the lease holds.
    pub complete_for: Duration,
}

impl QueueConfig {
    /// The defaults: leases of 60 s renewed every 20 s, three attempts.
    pub fn new(replica: impl Into<String>) -> Self {
        Self {
            replica: replica.into(),
            lease_expiry: Duration::from_mins(1),
            renewal: Duration::from_secs(20),
            max_attempts: 3,
            cool_down: Duration::from_secs(30),
            claim_backoff: Duration::from_millis(200),
            claim_tries: 3,
            widest_window: Duration::from_secs(2),
            conflict_grace: Duration::from_millis(500),
            max_jobs_per_namespace: 0,
            complete_for: Duration::from_mins(5),
        }
    }

    /// Refuses settings under which two workers could run one job.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.lease_expiry.is_zero() || self.renewal.is_zero() {
            return Err(ConfigError::Zero);
        }
        if self.renewal > self.lease_expiry / 3 {
            return Err(ConfigError::RenewalTooSlow { renewal: self.renewal, expiry: self.lease_expiry });
        }
        if self.max_attempts == 0 {
            return Err(ConfigError::NoAttempts);
        }
        Ok(())
    }

    /// How long a lease may be relied on after the request that last renewed it was *sent*: less than `lease_expiry` by a
    /// tenth, which covers the difference in speed between two machines' clocks.
    pub(crate) fn lease_valid_for(&self) -> Duration {
        self.lease_expiry / 10 * 9
    }
}

/// Settings that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A time is zero.
    #[error("lease_expiry and lease_renewal_interval must be longer than zero")]
    Zero,
    /// A lease could lapse while its owner is alive.
    #[error(
        "lease_renewal_interval ({renewal:?}) is more than a third of lease_expiry ({expiry:?}): a job could be run twice; \
         lower the first to {:?} or raise the second to {:?}",
        *expiry / 3,
        *renewal * 3
    )]
    RenewalTooSlow {
        /// The renewal interval.
        renewal: Duration,
        /// The lease's expiry.
        expiry: Duration,
    },
    /// No job would ever run.
    #[error("max_attempts must be at least 1")]
    NoAttempts,
}
