//! The table: one row a metric, from which its instrument and the reference are made.

use windlass_telemetry::{MetricKind as Kind, STAGE_BOUNDS, metric_rows};

/// Bounds in seconds: Grafana's, with finer ones below, since a claim here is a matter of milliseconds.
const WAIT: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
const DURATION: &[f64] = &[0.05, 0.25, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 1200.0];
/// Grafana's: eight that grow by the same factor, from 10 ms to 10 minutes.
const SYNC: &[f64] = &[0.01, 0.048_15, 0.231_8, 1.116, 5.375, 25.88, 124.6, 600.0];
const PULL_REQUEST: &[f64] = &[0.5, 1.0, 2.0, 5.0, 10.0, 30.0];
const DELIVERY: &[f64] = &[0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0];

metric_rows! {
    pub(crate) TABLE, "grafana_provisioning_";
    QUEUE_SIZE = "jobs_queue_size", Kind::Gauge, ["action"],
        "Jobs that wait; 0 for an action without any.";
    QUEUE_WAIT = "jobs_queue_wait_seconds", Kind::Histogram(WAIT), ["action"],
        "From a job's creation to its claim.";
    CLAIMED = "jobs_claimed_total", Kind::Counter, ["driver_id"],
        "Claims won.";
    CLAIM_CONFLICTS = "jobs_claim_conflicts_total", Kind::Counter, ["driver_id"],
        "Claims that another replica was quicker with.";
    CONTENDED = "jobs_claim_rounds_contended_total", Kind::Counter, ["driver_id"],
        "Tries to get a job that ended without one since another replica had it, or had another job of its repository.";
    YIELDS = "jobs_claims_yielded_total", Kind::Counter, ["driver_id"],
        "Claims given back since another job of the repository ran.";
    CLAIM_ERRORS = "jobs_claim_errors_total", Kind::Counter, ["driver_id"],
        "Claims that failed otherwise.";
    PROCESSED = "jobs_processed_total", Kind::Counter, ["action", "outcome"],
        "Jobs that ended: `success`, `warning` or `error`.";
    JOB_DURATION = "jobs_duration_seconds", Kind::Histogram(DURATION), ["action", "resources_changed_bucket", "outcome"],
        "Time that a job ran. The bucket says how many resources it changed: `0`, `1-10`, `11-50`, `51-100`, `101-500`, `501-1000`, `1000+`, and `unknown` where it failed.";
    INCREMENTAL_PHASE = "jobs_incremental_sync_phase_duration_seconds", Kind::Histogram(SYNC), ["phase"],
        "Time of a phase of an incremental pull: `compare`, `apply`, `cleanup`.";
    FULL_PHASE = "jobs_full_sync_phase_duration_seconds", Kind::Histogram(SYNC), ["phase"],
        "Time of a phase of a full pull: `compare`, `file_deletions`, `folder_creations`, `file_renames`, `folder_deletions`, `file_creations`, `old_folder_cleanup`.";
    SYNC_DURATION = "jobs_sync_duration_seconds", Kind::Histogram(SYNC), ["type"],
        "Time of a pull from its comparison to its last change, `full` or `incremental`. A pull that finds nothing to compare has none.";
    SYNC_STAGE = "sync_stage_seconds", Kind::Histogram(STAGE_BOUNDS), ["stage"],
        "From a push to the healthy repository, each stage since the one before: `delivered` (by two clocks, in whole seconds), `queued`, `claimed`, `fetched`, `applied`, `healthy`. The first two are told by whoever receives webhooks, the last by the repository operator.";
    OPERATIONS = "jobs_resource_operations_total", Kind::Counter, ["action", "operation", "outcome", "reason", "group", "kind"],
        "What jobs did, or tried to do, to resources: `created`, `updated`, `deleted`, `renamed`, `ignored`; `success`, `warning` or `error`, and of the last two the reason.";
    PULL_REQUEST_DURATION = "pullrequest_processing_duration_seconds", Kind::Histogram(PULL_REQUEST), ["outcome"],
        "Time of a look at a pull request, comment included: `success` or `error`.";
    PULL_REQUEST_COMMENTS = "pullrequest_comments_posted_total", Kind::Counter, ["outcome"],
        "Comments on pull requests, written or edited: `success` or `error`.";
    IN_FLIGHT = "jobs_in_flight", Kind::Gauge, ["driver_id", "action"],
        "Jobs that run now.";
    BUSY = "jobs_busy_seconds_total", Kind::Counter, ["driver_id", "action"],
        "Time that drivers spent on jobs, added when one ends.";
    DRIVERS = "jobs_concurrent_driver_num_drivers", Kind::Gauge, [],
        "Drivers of this process.";
    REAPED = "jobs_reaped_total", Kind::Counter, ["action"],
        "Jobs failed because their attempts were used up.";
    PRUNED = "jobs_history_pruned_total", Kind::Counter, ["reason"],
        "Records of finished jobs that were deleted, by the limit they were over: `age`, `count` or `bytes`.";
    LOKI_WAITING = "jobs_history_queue_length", Kind::Gauge, [],
        "Records of finished jobs that wait for Loki.";
    LOKI_PUSHED = "jobs_history_pushed_total", Kind::Counter, [],
        "Records of finished jobs that Loki took.";
    LOKI_DROPPED = "jobs_history_dropped_total", Kind::Counter, ["reason"],
        "Records of finished jobs that are lost: `queue_full` (as many waited as may), `refused` (Loki would not have it), `shutdown` (the process ended first).";
    EVENTS = "events_processed_total", Kind::Counter, ["resource", "source"],
        "New jobs that this process learned of: from its first list (`initial`), or since (`live`).";
    EVENT_LATENCY = "event_delivery_latency_seconds", Kind::Histogram(DELIVERY), ["resource", "source"],
        "From a job's creation to this process learning of it, by two clocks; creation times are whole seconds.";
}
