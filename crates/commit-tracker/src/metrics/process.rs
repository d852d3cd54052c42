//! What a process tells of itself. Each process has series of its own, whether it leads or not.

use super::{Kind, OUTCOME};

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
pub const PROCESS_METRICS: &[&ProcessMetric] =
    &[&KUSTOMIZATIONS, &QUEUE_LENGTH, &SOURCES_LISTED, &QUESTIONS, &RETRIES, &RECORDS];

/// Kustomizations that are watched.
pub static KUSTOMIZATIONS: ProcessMetric = ProcessMetric {
    name: "flux_commit_tracker_kustomizations",
    kind: Kind::Gauge,
    attributes: &[],
    meaning: "Kustomizations that this process watches.",
};

/// Kustomizations that wait to be looked at.
pub static QUEUE_LENGTH: ProcessMetric = ProcessMetric {
    name: "flux_commit_tracker_queue_length",
    kind: Kind::Gauge,
    attributes: &[],
    meaning: "Kustomizations that wait to be looked at by this process.",
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

/// Looks that were put off.
pub static RETRIES: ProcessMetric = ProcessMetric {
    name: "flux_commit_tracker_retries_total",
    kind: Kind::Counter,
    attributes: &[],
    meaning: "Looks at a Kustomization that this process put off since something failed.",
};

/// Records for the ledger.
pub static RECORDS: ProcessMetric = ProcessMetric {
    name: "flux_commit_tracker_records_total",
    kind: Kind::Counter,
    attributes: &[OUTCOME],
    meaning: "Records that this process gave to the ledger: `success`, or `error`.",
};
