//! The table: one row a metric, from which its instrument and the reference are made.

use windlass_telemetry::{MetricKind as Kind, metric_rows};

/// Bounds in seconds: Grafana's, with finer ones below.
const WAIT: &[f64] = &[0.001, 0.01, 0.1, 1.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// From here on they are Grafana's.
const CHECK: &[f64] = &[0.1, 0.2, 0.5, 1.0, 2.0, 5.0];
const FINALIZE: &[f64] = &[0.5, 1.0, 2.0, 5.0, 10.0, 30.0];
const MINT: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0];
const LEFT: &[f64] = &[0.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0];
const PENDING: &[f64] =
    &[1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 1_800.0, 3_600.0, 7_200.0, 21_600.0, 86_400.0];

metric_rows! {
    pub(crate) TABLE, "grafana_provisioning_";
    INFO = "repository_info", Kind::Gauge, ["namespace", "name", "type", "target"],
        "What a repository is; always 1.";
    HEALTH = "repository_health", Kind::Gauge, ["namespace", "name"],
        "Whether a repository is healthy, 1 or 0.";
    LAST_SYNC = "repository_last_sync_timestamp_seconds", Kind::Gauge, ["namespace", "name"],
        "When a repository was last in step, in Unix seconds: its last sync ended, or there was nothing to pull, which is noted every five minutes.";
    MANAGED = "repository_managed_resources", Kind::Gauge, ["namespace", "name", "group", "resource"],
        "Objects that a repository manages, by kind.";
    QUEUE_SIZE = "repository_worker_queue_size", Kind::Gauge, [],
        "Repositories that are due and wait for a worker; absent where this process does not lead.";
    QUEUE_LAG = "repository_worker_queue_lag_seconds", Kind::Gauge, [],
        "How long the repository has been due that is not done with for the longest time, worked on or not; absent where this process does not lead.";
    QUEUE_WAIT = "repository_worker_queue_wait_seconds", Kind::Histogram(WAIT), [],
        "How long a repository was due when a worker took it.";
    ERRORS = "repository_reconcile_errors_total", Kind::Counter, ["phase", "cause"],
        "What went wrong in passes over repositories: `token`, `health` and `hook` are told in the repository's conditions; `status`, `sync`, `delete` and `panic` end the pass, which is made again. The cause is `user` where somebody has to do something about it, else `system`.";
    CHECKS = "health_checked_total", Kind::Counter, ["resource", "outcome"],
        "Health checks of repositories (`repository`) and connections (`connection`): `success` or `error`.";
    CHECK_DURATION = "health_checked_duration_seconds", Kind::Histogram(CHECK), ["resource"],
        "Time of a health check.";
    TOKENS = "repository_token_generated_total", Kind::Counter, [],
        "Tokens that connections gave to repositories.";
    TOKEN_ERRORS = "repository_token_generation_errors_total", Kind::Counter, ["cause"],
        "Tokens that connections did not give: `user` where somebody has to do something about it, else `system`.";
    TOKEN_DURATION = "repository_token_generated_duration_seconds", Kind::Histogram(MINT), [],
        "Time until a token was there that a connection gave.";
    TOKEN_REASONS = "repository_token_refresh_reason_total", Kind::Counter, ["reason"],
        "Why tokens were asked for: `missing`, `invalid` (its server refused it) or `expiring` (or its connection is another one).";
    TOKEN_LEFT = "repository_token_time_to_expiry_seconds", Kind::Histogram(LEFT), [],
        "How long a token was still good at each pass over its repository.";
    ROTATION_OVERDUE = "webhook_secret_rotation_overdue_total", Kind::Counter, ["cause"],
        "Looks at a webhook whose secret is to be changed and could not be: `user` where somebody has to do something about it, else `system`.";
    FINALIZERS = "finalizers_processed_total", Kind::Counter, ["finalizer_type", "outcome"],
        "Finalizers of repositories that were run: `success` or `error`.";
    FINALIZER_DURATION = "finalizers_duration_seconds", Kind::Histogram(FINALIZE), ["finalizer_type", "resource_count_bucket"],
        "Time of the last run of a finalizer that came to its end. The bucket says how many resources it removed or released: `0`, `1-10`, `11-50`, `51-100`, `101-500`, `501-1000`, `1000+`.";
    DELETION_PENDING = "repository_deletion_pending_seconds", Kind::Histogram(PENDING), [],
        "How long ago a repository was deleted that is still there, at each pass over it.";
    DELETIONS = "repository_deletions_total", Kind::Counter, [],
        "Repositories that nothing of ours holds any more.";
    DELETION_FAILURES = "repository_deletion_failures_total", Kind::Counter, ["stage"],
        "Passes over a deleted repository that failed: at a finalizer's work (`process_finalizers`) or at taking it off (`remove_finalizers`).";
}

metric_rows! {
    pub(crate) OWN, "windlass_";
    EVENTS_DROPPED = "repository_events_dropped_total", Kind::Counter, [],
        "Kubernetes Events about repositories that were not written.";
}
