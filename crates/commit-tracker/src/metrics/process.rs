//! What a process tells of itself. Each process has series of its own, whether it leads or not.

use super::{Kind, OUTCOME};

/// The attribute that names the controller, as controller-runtime has it.
pub const CONTROLLER: &str = "controller";
/// The attribute that names the queue, likewise.
pub const QUEUE_NAME: &str = "name";
/// The attribute that says how a reconcile ended, likewise: `success`, `error`, or `requeue_after`.
pub const RESULT: &str = "result";

/// The attribute of a kind of source.
pub const KIND: &str = "kind";

/// A row of the table of a process's own metrics.
#[derive(Debug, PartialEq, Eq)]
pub struct ProcessMetric {
    /// The whole name, the same in OTLP and in Prometheus.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// Its attributes.
    pub attributes: &'static [&'static str],
    /// What it means; the description that is exported with it.
    pub meaning: &'static str,
}

/// Every metric of a process, in the order of the reference.
pub const PROCESS_METRICS: &[&ProcessMetric] = &[
    &KUSTOMIZATIONS,
    &SOURCES_LISTED,
    &QUESTIONS,
    &RECORDS,
    &RECONCILES,
    &RECONCILE_ERRORS,
    &RECONCILE_PANICS,
    &RECONCILE_TIME,
    &ACTIVE_WORKERS,
    &MAX_WORKERS,
    &QUEUE_DEPTH,
    &QUEUE_ADDS,
    &QUEUE_RETRIES,
];

/// Kustomizations that are watched.
pub static KUSTOMIZATIONS: ProcessMetric = ProcessMetric {
    name: "flux_commit_tracker_kustomizations",
    kind: Kind::Gauge,
    attributes: &[],
    meaning: "Kustomizations that this process watches.",
};

/// Whether sources can be listed.
pub static SOURCES_LISTED: ProcessMetric = ProcessMetric {
    name: "flux_commit_tracker_sources_listed",
    kind: Kind::Gauge,
    attributes: &[KIND],
    meaning: "Whether sources of a kind that Kustomizations name are watched: 1, or 0 while they cannot be listed, and \
              nothing is measured of their Kustomizations.",
};

/// Questions that were asked.
pub static QUESTIONS: ProcessMetric = ProcessMetric {
    name: "flux_commit_tracker_questions_total",
    kind: Kind::Counter,
    attributes: &[KIND, OUTCOME],
    meaning: "Questions about revisions that this process asked, by kind of source and outcome: `answered`, or why not. \
              What is `unavailable` or `rate_limited` is asked again.",
};

/// Records for the ledger.
pub static RECORDS: ProcessMetric = ProcessMetric {
    name: "flux_commit_tracker_records_total",
    kind: Kind::Counter,
    attributes: &[OUTCOME],
    meaning: "Records that this process gave to the ledger: `success`, or `error`.",
};

/// A row in the words of controller-runtime.
const fn row(
    name: &'static str,
    kind: Kind,
    attributes: &'static [&'static str],
    meaning: &'static str,
) -> ProcessMetric {
    ProcessMetric { name, kind, attributes, meaning }
}

/// Reconciles by how they ended.
pub static RECONCILES: ProcessMetric = row(
    "controller_runtime_reconcile_total",
    Kind::Counter,
    &[CONTROLLER, RESULT],
    "Reconciles of this process by how they ended: `success`, `requeue_after` (a question or a source is waited for), or \
     `error`.",
);

/// Reconciles that failed.
pub static RECONCILE_ERRORS: ProcessMetric = row(
    "controller_runtime_reconcile_errors_total",
    Kind::Counter,
    &[CONTROLLER],
    "Reconciles of this process that failed, panics included.",
);

/// Reconciles that panicked.
pub static RECONCILE_PANICS: ProcessMetric = row(
    "controller_runtime_reconcile_panics_total",
    Kind::Counter,
    &[CONTROLLER],
    "Reconciles of this process, and questions of theirs, that panicked: each is logged, ends nothing else, and is tried \
     again.",
);

/// How long reconciles took.
pub static RECONCILE_TIME: ProcessMetric = row(
    "controller_runtime_reconcile_time_seconds",
    Kind::Histogram,
    &[CONTROLLER],
    "How long reconciles of this process took, waiting for answers and for the ledger included.",
);

/// Reconciles that go on.
pub static ACTIVE_WORKERS: ProcessMetric = row(
    "controller_runtime_active_workers",
    Kind::Gauge,
    &[CONTROLLER],
    "Reconciles of this process that go on at this moment.",
);

/// How many reconciles may go on.
pub static MAX_WORKERS: ProcessMetric = row(
    "controller_runtime_max_concurrent_reconciles",
    Kind::Gauge,
    &[CONTROLLER],
    "Reconciles of this process that may go on at a time.",
);

/// Kustomizations that wait for a reconcile.
pub static QUEUE_DEPTH: ProcessMetric = row(
    "workqueue_depth",
    Kind::Gauge,
    &[CONTROLLER, QUEUE_NAME],
    "Kustomizations that wait for a reconcile.",
);

/// What was put into the queue.
pub static QUEUE_ADDS: ProcessMetric = row(
    "workqueue_adds_total",
    Kind::Counter,
    &[CONTROLLER, QUEUE_NAME],
    "How often a Kustomization was put into the queue since it or its source changed.",
);

/// What was put into the queue again.
pub static QUEUE_RETRIES: ProcessMetric = row(
    "workqueue_retries_total",
    Kind::Counter,
    &[CONTROLLER, QUEUE_NAME],
    "How often a Kustomization was put into the queue again since something failed or is waited for.",
);
