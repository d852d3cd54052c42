//! What the tracker tells of itself, as opposed to what it measures: these numbers are one process's own.

use std::fmt::Display;
use std::hash::Hash;
use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{KeyedQueue, Requeue, Store, run_keyed};
use windlass_telemetry::MetricRow;

use super::queue::{controller, queue};
use super::sources::Sources;
use crate::SourceKind;
use crate::changes::{Problem, ResolverObserver};
use crate::metrics::{
    ACTIVE_WORKERS, KUSTOMIZATIONS, MAX_WORKERS, OUTCOME, QUESTIONS, QUEUE_RETRIES, RECONCILE_ERRORS,
    RECONCILE_PANICS, RECONCILE_TIME, RECONCILES, RECORDS, SOURCES_LISTED,
};
use crate::objects::Kustomization;

/// Kustomizations that are reconciled side by side. Most of a reconcile is waiting for an answer, or for the ledger to be
/// written, which many wait for together; each takes kilobytes meanwhile, and at the first start all are to be recorded.
const WORKERS: usize = 1024;

/// The counters of a process. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ProcessMetrics {
    questions: Counter<u64>,
    records: Counter<u64>,
    pub(crate) reconciles: ReconcileMetrics,
}

/// How reconciles go, in the words of controller-runtime. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ReconcileMetrics {
    ended: Counter<u64>,
    errors: Counter<u64>,
    panics: Counter<u64>,
    time: Histogram<f64>,
    active: UpDownCounter<i64>,
    retries: Counter<u64>,
}

/// One reconcile that goes on.
struct Active(UpDownCounter<i64>);

impl Drop for Active {
    fn drop(&mut self) {
        self.0.add(-1, &controller());
    }
}

impl ReconcileMetrics {
    pub(crate) fn new(meter: &Meter) -> Self {
        let active = &ACTIVE_WORKERS;
        let gauge = meter.u64_observable_gauge(MAX_WORKERS.name).with_description(MAX_WORKERS.meaning);
        let most = u64::try_from(WORKERS).unwrap_or(u64::MAX);
        gauge.with_callback(move |gauge| gauge.observe(most, &controller())).build();
        let metrics = Self {
            ended: RECONCILES.counter(meter),
            errors: RECONCILE_ERRORS.counter(meter),
            panics: RECONCILE_PANICS.counter(meter),
            time: RECONCILE_TIME.seconds(meter),
            active: meter.i64_up_down_counter(active.name).with_description(active.meaning).build(),
            retries: QUEUE_RETRIES.counter(meter),
        };
        // What is alerted on begins at zero.
        metrics.errors.add(0, &controller());
        metrics.panics.add(0, &controller());
        metrics
    }

    /// Works a queue off until `shutdown`. A panic ends its reconcile alone: it is logged, counted, and tried again.
    pub(crate) async fn run<T, W>(
        &self,
        queue: KeyedQueue<T>,
        shutdown: CancellationToken,
        reconcile: impl Fn(T) -> W,
    ) where
        T: Clone + Eq + Hash + Display + Send + 'static,
        W: Future<Output = Requeue> + Send + 'static,
    {
        let (metrics, panics) = (self.clone(), self.clone());
        let observed = |key| metrics.clone().observed(reconcile(key));
        let on_panic = move |_key: &T| {
            panics.panics.add(1, &controller());
            panics.errors.add(1, &controller());
            panics.retries.add(1, &self::queue());
        };
        run_keyed(queue, WORKERS, shutdown, observed, on_panic).await;
    }

    async fn observed(self, reconcile: impl Future<Output = Requeue>) -> Requeue {
        self.active.add(1, &controller());
        let _active = Active(self.active.clone());
        let began = Instant::now();
        let requeue = reconcile.await;
        self.time.record(began.elapsed().as_secs_f64(), &controller());
        let result = match requeue {
            Requeue::No => "success",
            Requeue::After(_) => "requeue_after",
            Requeue::Backoff => "error",
        };
        let [controller] = controller();
        self.ended.add(1, &[controller, KeyValue::new("result", result)]);
        if requeue == Requeue::Backoff {
            self.errors.add(1, &self::controller());
        }
        if requeue != Requeue::No {
            self.retries.add(1, &queue());
        }
        requeue
    }
}

impl ProcessMetrics {
    /// Makes the instruments; gauges are read whenever metrics are rendered.
    pub(crate) fn new(meter: &Meter, kustomizations: Store<Kustomization>, sources: Arc<Sources>) -> Self {
        let gauge =
            |metric: &MetricRow| meter.u64_observable_gauge(metric.name).with_description(metric.meaning);
        let amount = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        gauge(&KUSTOMIZATIONS)
            .with_callback(move |gauge| gauge.observe(amount(kustomizations.len()), &[]))
            .build();
        gauge(&SOURCES_LISTED)
            .with_callback(move |gauge| {
                for (kind, listed) in sources.listed() {
                    gauge.observe(u64::from(listed), &[KeyValue::new("kind", kind.name())]);
                }
            })
            .build();
        Self {
            questions: QUESTIONS.counter(meter),
            records: RECORDS.counter(meter),
            reconciles: ReconcileMetrics::new(meter),
        }
    }

    pub(crate) fn recorded(&self, works: bool) {
        self.records.add(1, &[KeyValue::new(OUTCOME, if works { "success" } else { "error" })]);
    }
}

impl ResolverObserver for ProcessMetrics {
    fn asked(&self, kind: SourceKind, problem: Option<Problem>) {
        let outcome = problem.map_or("answered", Problem::name);
        self.questions.add(1, &[KeyValue::new("kind", kind.name()), KeyValue::new(OUTCOME, outcome)]);
    }

    fn panicked(&self, kind: SourceKind) {
        tracing::error!(%kind, "a question about a revision panicked; it is asked again after a back-off");
        self.reconciles.panics.add(1, &controller());
    }
}

#[cfg(test)]
mod tests {
    use windlass_runtime::BackoffPolicy;
    use windlass_telemetry::Metrics;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reconcile_that_panics_is_counted_and_the_others_go_on() {
        let metrics = Metrics::new().unwrap();
        let reconciles = ReconcileMetrics::new(&metrics.meter("test"));
        let queue = KeyedQueue::new(BackoffPolicy::OBJECT);
        queue.add("odd");
        queue.add("even");
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let work = move |key| {
            let stop = stop.clone();
            async move {
                assert_ne!(key, "odd", "a defect");
                stop.cancel();
                Requeue::No
            }
        };
        reconciles.run(queue, shutdown, work).await;
        let text = metrics.render().unwrap();
        let own = r#"controller="kustomization""#;
        for line in [
            format!("controller_runtime_reconcile_panics_total{{{own}}} 1"),
            format!("controller_runtime_reconcile_errors_total{{{own}}} 1"),
            format!("controller_runtime_reconcile_total{{{own},result=\"success\"}} 1"),
            format!("controller_runtime_active_workers{{{own}}} 0"),
        ] {
            assert!(text.lines().any(|shown| shown == line), "no {line} in {text}");
        }
    }
}
