//! The operator's settings, typed.

use std::time::Duration;

use windlass_launch::Context;
use windlass_lease_queue::HistoryLimits;

use crate::operator::PROVISIONING_JOBS;

/// What the operator runs with; see the configuration reference for the keys.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct JobsConfig {
    /// Tells this replica's claims apart.
    pub replica: String,
    /// Whether each new job is logged.
    pub notifications: bool,
    /// Whether jobs are claimed and run.
    pub processing: bool,
    /// Whether abandoned jobs are failed and history is pruned.
    pub clean_up: bool,
    /// Jobs run at a time.
    pub drivers: usize,
    /// Changes made at a time by one pull.
    pub sync_workers: usize,
    /// The most time that one job may take.
    pub max_job_timeout: Duration,
    /// How long requests of one change to a resource may begin. A write that is under way then has its own deadline.
    pub change_timeout: Duration,
    /// Changed files beyond which an incremental pull compares everything; 0 for no limit.
    pub max_incremental_changes: usize,
    /// Most objects that one repository may manage; 0 for no limit.
    pub max_resources: usize,
    /// How often all known jobs are looked at again.
    pub job_interval: Duration,
    /// How long a claim that does not change is respected.
    pub lease_expiry: Duration,
    /// How often a claim is renewed.
    pub lease_renewal: Duration,
    /// How often a job is claimed before it is failed.
    pub max_attempts: u32,
    /// How often abandoned jobs are looked for.
    pub cleanup_interval: Duration,
    /// How much history of a repository is kept.
    pub history: HistoryLimits,
    /// Records that wait for Loki at most, where history is there.
    pub loki_queue_size: usize,
    /// Drivers that the jobs of one namespace may take.
    pub max_jobs_per_namespace: usize,
    /// Whether `test` jobs are run.
    pub test_jobs: bool,
}

impl JobsConfig {
    /// From the process's settings, for the operator of this name.
    pub fn of(context: &Context, name: &str) -> Self {
        let whole = name == PROVISIONING_JOBS;
        let settings = context.settings.operator();
        let provisioning = context.settings.provisioning();
        let limit = |value: i64| usize::try_from(value).unwrap_or(0);
        Self {
            replica: context.replica.clone(),
            notifications: whole && settings.jobs_processing_enabled,
            processing: !whole || settings.jobs_processing_enabled,
            clean_up: whole,
            drivers: settings.concurrent_drivers,
            sync_workers: settings.max_sync_workers,
            max_job_timeout: settings.max_job_timeout,
            change_timeout: Duration::from_secs(15),
            max_incremental_changes: limit(provisioning.max_incremental_changes),
            max_resources: limit(provisioning.max_resources_per_repository),
            job_interval: settings.job_interval,
            lease_expiry: settings.lease_expiry,
            lease_renewal: settings.lease_renewal_interval,
            max_attempts: settings.max_attempts,
            cleanup_interval: settings.cleanup_interval,
            history: HistoryLimits {
                max_age: Some(settings.history_max_age).filter(|most| !most.is_zero()),
                max_count: Some(settings.history_max_count).filter(|most| *most > 0),
                max_bytes: Some(settings.history_max_bytes).filter(|most| *most > 0),
            },
            loki_queue_size: provisioning.loki_queue_size,
            max_jobs_per_namespace: settings.max_jobs_per_namespace,
            test_jobs: settings.enable_test_jobs,
        }
    }
}
