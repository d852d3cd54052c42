//! What the tracker tells of itself, as opposed to what it measures: these numbers are one process's own.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};
use windlass_runtime::Store;

use super::Sources;
use super::lead::Current;
use crate::SourceKind;
use crate::changes::{Problem, ResolverObserver};
use crate::metrics::{
    KIND, KUSTOMIZATIONS, OUTCOME, ProcessMetric, QUESTIONS, QUEUE_LENGTH, RECORDS, RETRIES, SOURCES_LISTED,
};
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
    pub(crate) fn new(
        meter: &Meter,
        kustomizations: Store<Kustomization>,
        current: Current,
        sources: Sources,
    ) -> Self {
        let gauge =
            |metric: &ProcessMetric| meter.u64_observable_gauge(metric.name).with_description(metric.meaning);
        let amount = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        gauge(&KUSTOMIZATIONS)
            .with_callback(move |gauge| gauge.observe(amount(kustomizations.len()), &[]))
            .build();
        gauge(&QUEUE_LENGTH)
            .with_callback(move |gauge| gauge.observe(amount(current.waiting()), &[]))
            .build();
        gauge(&SOURCES_LISTED)
            .with_callback(move |gauge| {
                for (kind, listed) in sources.listed() {
                    gauge.observe(u64::from(listed), &[KeyValue::new(KIND, kind.name())]);
                }
            })
            .build();
        let counter =
            |metric: &ProcessMetric| meter.u64_counter(metric.name).with_description(metric.meaning).build();
        Self { questions: counter(&QUESTIONS), retries: counter(&RETRIES), records: counter(&RECORDS) }
    }

    pub(crate) fn put_off(&self) {
        self.retries.add(1, &[]);
    }

    pub(crate) fn recorded(&self, works: bool) {
        self.records.add(1, &[KeyValue::new(OUTCOME, if works { "success" } else { "error" })]);
    }
}

impl ResolverObserver for ProcessMetrics {
    fn asked(&self, kind: SourceKind, problem: Option<Problem>) {
        let outcome = problem.map_or("answered", Problem::name);
        self.questions.add(1, &[KeyValue::new(KIND, kind.name()), KeyValue::new(OUTCOME, outcome)]);
    }
}
