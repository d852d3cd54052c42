//! How exports go: each failure is counted, and logged when it begins.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};

use super::error::ExportError;
use super::settings::Signal;

/// Log lines of this target are not exported: a lost collector cannot be told of its loss.
pub(crate) const TARGET: &str = "windlass_telemetry::export";

/// How the exports of a process go.
#[derive(Default)]
pub(crate) struct ExportReports {
    failures: AtomicU64,
    counters: OnceLock<Counters>,
    reporters: AtomicUsize,
    /// Collectors that cannot be reached, each with the reporter that logged it.
    unreachable: Mutex<HashMap<String, usize>>,
}

struct Counters {
    failures: Counter<u64>,
    lost: Counter<u64>,
}

impl ExportReports {
    /// Counts with instruments of this meter from now on; exporters are made before the meters are.
    pub(crate) fn count_with(&self, meter: &Meter) {
        let counters = Counters {
            failures: meter
                .u64_counter("otel_export_failures_total")
                .with_description("Requests with telemetry that a collector did not take, or not whole, by signal.")
                .build(),
            lost: meter
                .u64_counter("otel_lost_items_total")
                .with_description(
                    "Spans, log records and points that are lost, by signal and by reason (queue_full, unsent, rejected).",
                )
                .build(),
        };
        // Set once, when telemetry starts.
        let _ = self.counters.set(counters);
    }

    /// Requests that a collector did not take, or not whole.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// One more reporter, of exports to an endpoint that may be shown.
    pub(crate) fn reporter(self: &Arc<Self>, signal: Signal, endpoint: String) -> Arc<ExportReporter> {
        Arc::new(ExportReporter {
            reports: Arc::clone(self),
            id: self.reporters.fetch_add(1, Ordering::Relaxed),
            signal,
            endpoint,
            refusal_logged: AtomicBool::new(false),
        })
    }

    fn unreachable(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for ExportReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExportReports").field("failures", &self.failures()).finish_non_exhaustive()
    }
}

/// Counts and logs how the exports of one exporter go.
///
/// That a collector cannot be reached is logged once for all signals, and its end by the reporter that logged it: one
/// signal that fails for ever beside others that do not is one line. What a collector refuses comes and goes with what is
/// in a request, so each reporter logs it once.
#[derive(Debug)]
pub(crate) struct ExportReporter {
    reports: Arc<ExportReports>,
    id: usize,
    signal: Signal,
    endpoint: String,
    refusal_logged: AtomicBool,
}

impl ExportReporter {
    /// Counts and logs how a request with so many items went, which is not sent again.
    pub(crate) fn report(&self, error: Option<&ExportError>, items: usize) {
        if let Some(error) = error {
            self.count(error);
            if !matches!(error, ExportError::Rejected { .. }) {
                self.count_lost(items, "unsent");
            }
        }
        self.log(error);
    }

    /// Counts a request that failed.
    pub(crate) fn count(&self, error: &ExportError) {
        self.reports.failures.fetch_add(1, Ordering::Relaxed);
        if let Some(counters) = self.reports.counters.get() {
            counters.failures.add(1, &[KeyValue::new("signal", self.signal.name())]);
        }
        if let ExportError::Rejected { items, .. } = error {
            self.count_lost(usize::try_from(*items).unwrap_or(usize::MAX), "rejected");
        }
    }

    /// Counts an item that found no room to wait.
    pub(crate) fn count_dropped(&self) {
        self.count_lost(1, "queue_full");
    }

    fn count_lost(&self, items: usize, reason: &'static str) {
        if let Some(counters) = self.reports.counters.get().filter(|_| items > 0) {
            let attributes = [KeyValue::new("signal", self.signal.name()), KeyValue::new("reason", reason)];
            counters.lost.add(items as u64, &attributes);
        }
    }

    /// Logs that items found no room to wait: so many wait at most.
    pub(crate) fn log_dropped(&self, limit: usize) {
        tracing::warn!(
            target: TARGET,
            signal = self.signal.name(),
            limit,
            "too much waits to be exported, and more is lost; this is only counted from now on, in otel_lost_items_total",
        );
    }

    /// Logs what changed: that exports fail, or do so no more.
    pub(crate) fn log(&self, error: Option<&ExportError>) {
        let (signal, endpoint) = (self.signal.name(), self.endpoint.as_str());
        let is_unavailable = matches!(error, Some(ExportError::Unavailable(_)));
        match (self.transition(is_unavailable), error) {
            (Some(Transition::Lost), Some(error)) => tracing::warn!(
                target: TARGET,
                endpoint,
                signal,
                %error,
                "failed to reach the collector; further failures are only counted, in otel_export_failures_total",
            ),
            (Some(Transition::Back), _) => {
                tracing::info!(target: TARGET, endpoint, signal, "the collector answers again");
            }
            (Some(Transition::Lost), None) | (None, _) => {}
        }
        if let Some(error) = error.filter(|_| !is_unavailable)
            && !self.refusal_logged.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                target: TARGET,
                endpoint,
                signal,
                %error,
                "the collector did not take all it was sent; this is only counted from now on, in \
                 otel_export_failures_total and otel_lost_items_total",
            );
        }
    }

    /// Notes whether the collector could be reached, and returns what is to be logged of it.
    fn transition(&self, is_unavailable: bool) -> Option<Transition> {
        let mut unreachable = self.reports.unreachable();
        match (unreachable.get(&self.endpoint), is_unavailable) {
            (None, true) => {
                unreachable.insert(self.endpoint.clone(), self.id);
                Some(Transition::Lost)
            }
            (Some(by), false) if *by == self.id => {
                unreachable.remove(&self.endpoint);
                Some(Transition::Back)
            }
            _ => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transition {
    /// The collector cannot be reached any more.
    Lost,
    /// The collector answers again.
    Back,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_is_away_is_logged_once_for_all_signals() {
        let reports = Arc::new(ExportReports::default());
        let [traces, logs] =
            [Signal::Traces, Signal::Logs].map(|signal| reports.reporter(signal, "one".into()));
        let elsewhere = reports.reporter(Signal::Metrics, "other".into());
        assert_eq!(traces.transition(true), Some(Transition::Lost));
        assert_eq!(logs.transition(true), None);
        assert_eq!(elsewhere.transition(true), Some(Transition::Lost), "another endpoint");
        assert_eq!(traces.transition(true), None);
        assert_eq!(logs.transition(false), None);
        assert_eq!(traces.transition(false), Some(Transition::Back));
        assert_eq!(traces.transition(false), None);
        assert_eq!(logs.transition(true), Some(Transition::Lost), "again");
    }

    #[test]
    fn one_signal_that_fails_for_ever_is_logged_once_beside_others_that_do_not() {
        let reports = Arc::new(ExportReports::default());
        let [traces, logs] =
            [Signal::Traces, Signal::Logs].map(|signal| reports.reporter(signal, "one".into()));
        let lines: Vec<_> =
            (0..10).flat_map(|_| [logs.transition(true), traces.transition(false)]).flatten().collect();
        assert_eq!(lines, [Transition::Lost]);
    }
}
