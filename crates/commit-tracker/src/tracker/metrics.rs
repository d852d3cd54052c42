//! What the tracker tells of itself, as opposed to what it measures: these numbers are one process's own.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use windlass_runtime::Store;

use super::lead::Current;
use crate::SourceKind;
use crate::changes::{Asked, Problem};
use crate::objects::Kustomization;

/// The counters of a process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ProcessMetrics {
    questions: Counter<u64>,
    retries: Counter<u64>,
    records: Counter<u64>,
}

impl ProcessMetrics {
    /// Makes the instruments; gauges are read whenever metrics are rendered.
    pub(crate) fn new(meter: &Meter, kustomizations: Store<Kustomization>, current: Current) -> Self {
        meter
            .u64_observable_gauge("flux_commit_tracker_kustomizations")
            .with_description("Kustomizations that this process watches.")
            .with_callback(move |gauge| {
                gauge.observe(u64::try_from(kustomizations.len()).unwrap_or(u64::MAX), &[]);
            })
            .build();
        meter
            .u64_observable_gauge("flux_commit_tracker_queue_length")
            .with_description("Kustomizations that wait to be looked at by this process.")
            .with_callback(move |gauge| {
                gauge.observe(u64::try_from(current.waiting()).unwrap_or(u64::MAX), &[]);
            })
            .build();
        Self {
            questions: meter
                .u64_counter("flux_commit_tracker_questions_total")
                .with_description(
                    "Questions about revisions that this process asked, by kind of source and outcome.",
                )
                .build(),
            retries: meter
                .u64_counter("flux_commit_tracker_retries_total")
                .with_description(
                    "Looks at a Kustomization that this process put off since something failed.",
                )
                .build(),
            records: meter
                .u64_counter("flux_commit_tracker_records_total")
                .with_description("Records that this process gave to the ledger, by outcome.")
                .build(),
        }
    }

    pub(crate) fn put_off(&self) {
        self.retries.add(1, &[]);
    }

    pub(crate) fn recorded(&self, works: bool) {
        self.records.add(1, &[KeyValue::new("outcome", if works { "success" } else { "error" })]);
    }
}

impl Asked for ProcessMetrics {
    fn asked(&self, kind: SourceKind, problem: Option<Problem>) {
        let outcome = problem.map_or("answered", Problem::name);
        self.questions.add(1, &[KeyValue::new("kind", kind.name()), KeyValue::new("outcome", outcome)]);
    }
}
