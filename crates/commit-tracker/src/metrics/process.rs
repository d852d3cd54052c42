//! What a process tells of itself. Each process has series of its own, whether it leads or not. Those of reconciles and
//! their queue are in the words of controller-runtime.

use windlass_telemetry::{MetricKind, metric_rows};

/// Upper bounds of the times of reconciles, in seconds: those of controller-runtime, thinned out.
const BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];

metric_rows! { pub PROCESS_METRICS, "";
    KUSTOMIZATIONS = "flux_commit_tracker_kustomizations", MetricKind::Gauge, [],
        "Kustomizations that this process watches.";
    SOURCES_LISTED = "flux_commit_tracker_sources_listed", MetricKind::Gauge, ["kind"],
        "Whether sources of a kind that Kustomizations name are watched: 1, or 0 while they cannot be listed, and nothing is \
         measured of their Kustomizations.";
    QUESTIONS = "flux_commit_tracker_questions_total", MetricKind::Counter, ["kind", "outcome"],
        "Questions about revisions that this process asked, by kind of source and outcome: `answered`, or why not. What \
         failed is asked again.";
    RECORDS = "flux_commit_tracker_records_total", MetricKind::Counter, ["outcome"],
        "Records that this process gave to the ledger: `success`, or `error`.";
    RECONCILES = "controller_runtime_reconcile_total", MetricKind::Counter, ["controller", "result"],
        "Reconciles of this process by how they ended: `success`, `requeue_after` (a question or a source is waited for), or \
         `error`.";
    RECONCILE_ERRORS = "controller_runtime_reconcile_errors_total", MetricKind::Counter, ["controller"],
        "Reconciles of this process that failed, panics included.";
    RECONCILE_PANICS = "controller_runtime_reconcile_panics_total", MetricKind::Counter, ["controller"],
        "Reconciles of this process, and questions of theirs, that panicked: each is logged, ends nothing else, and is tried \
         again.";
    RECONCILE_TIME = "controller_runtime_reconcile_time_seconds", MetricKind::Histogram(BOUNDS), ["controller"],
        "How long reconciles of this process took, waiting for answers and for the ledger included.";
    ACTIVE_WORKERS = "controller_runtime_active_workers", MetricKind::Gauge, ["controller"],
        "Reconciles of this process that go on at this moment.";
    MAX_WORKERS = "controller_runtime_max_concurrent_reconciles", MetricKind::Gauge, ["controller"],
        "Reconciles of this process that may go on at a time.";
    QUEUE_DEPTH = "workqueue_depth", MetricKind::Gauge, ["controller", "name"],
        "Kustomizations that wait for a reconcile.";
    QUEUE_ADDS = "workqueue_adds_total", MetricKind::Counter, ["controller", "name"],
        "How often a Kustomization was put into the queue since it or its source changed.";
    QUEUE_RETRIES = "workqueue_retries_total", MetricKind::Counter, ["controller", "name"],
        "How often a Kustomization was put into the queue again since something failed or is waited for.";
}
