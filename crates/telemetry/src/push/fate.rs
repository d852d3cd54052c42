//! How exports go: counted each time, said once.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter};

use super::client::Failed;
use super::settings::Signal;

/// Log lines of this target are not exported: a lost collector cannot be told of its loss.
pub(crate) const TARGET: &str = "windlass_telemetry::export";

/// How the exports of a process go.
#[derive(Default)]
pub(crate) struct Outcomes {
    failures: AtomicU64,
    counters: OnceLock<Counters>,
    /// One an exporter.
    exporters: Mutex<Vec<Exporter>>,
}

struct Counters {
    failures: Counter<u64>,
    lost: Counter<u64>,
}

struct Exporter {
    endpoint: String,
    trouble: Option<Trouble>,
}

/// Why an exporter fails since its last success.
#[derive(Clone, Copy)]
struct Trouble {
    /// Of the first failure.
    kind: Kind,
    /// It was said by this exporter.
    said: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Nobody answers.
    Away,
    /// What is sent is refused.
    Refused,
}

/// Why items never reach whom they were for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Too many were waiting.
    QueueFull,
    /// The collector could not be reached, or did not take their request.
    Unsent,
    /// The collector did not take them out of their request.
    Rejected,
}

impl Outcomes {
    /// Where is counted from now on; exporters are made before the meters are.
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

    /// One more exporter, to an endpoint that may be shown.
    pub(crate) fn exporter(self: &Arc<Self>, signal: Signal, endpoint: String) -> Fate {
        let mut exporters = self.exporters();
        exporters.push(Exporter { endpoint, trouble: None });
        Fate {
            outcomes: Arc::clone(self),
            place: exporters.len() - 1,
            signal,
            rejection_said: AtomicBool::new(false),
        }
    }

    /// Counts what is lost.
    pub(crate) fn lost(&self, signal: Signal, items: u64, why: Loss) {
        let reason = match why {
            Loss::QueueFull => "queue_full",
            Loss::Unsent => "unsent",
            Loss::Rejected => "rejected",
        };
        if let Some(counters) = self.counters.get().filter(|_| items > 0) {
            let attributes = [KeyValue::new("signal", signal.name()), KeyValue::new("reason", reason)];
            counters.lost.add(items, &attributes);
        }
    }

    fn exporters(&self) -> MutexGuard<'_, Vec<Exporter>> {
        self.exporters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcomes").field("failures", &self.failures()).finish_non_exhaustive()
    }
}

/// How the exports of one exporter go.
///
/// A failure is said when it begins, once for all exporters to one endpoint that fail for one kind of reason; its end is
/// said by the exporter that said it. Exporters whose fates differ do not speak for each other.
pub(crate) struct Fate {
    outcomes: Arc<Outcomes>,
    place: usize,
    signal: Signal,
    rejection_said: AtomicBool,
}

impl Fate {
    /// Counts how the request with a batch of so many items went, which is not sent again; and says so.
    pub(crate) fn note(&self, result: &Result<(), Failed>, items: usize) {
        if let Err(failed) = result {
            self.count(failed);
            if !matches!(failed, Failed::Rejected(..)) {
                let items = u64::try_from(items).unwrap_or(u64::MAX);
                self.outcomes.lost(self.signal, items, Loss::Unsent);
            }
        }
        self.tell(result.as_ref().err());
    }

    /// Counts a failure.
    pub(crate) fn count(&self, failed: &Failed) {
        self.outcomes.failures.fetch_add(1, Ordering::Relaxed);
        if let Some(counters) = self.outcomes.counters.get() {
            counters.failures.add(1, &[KeyValue::new("signal", self.signal.name())]);
        }
        if let Failed::Rejected(items, _) = failed {
            self.outcomes.lost(self.signal, *items, Loss::Rejected);
        }
    }

    /// Says what changed: that exports fail, or do so no more.
    pub(crate) fn tell(&self, failed: Option<&Failed>) {
        let kind = match failed {
            Some(Failed::Passing { .. }) => Some(Kind::Away),
            Some(Failed::Unwanted(_)) => Some(Kind::Refused),
            Some(Failed::Refused(_) | Failed::Rejected(..)) | None => None,
        };
        let (signal, endpoint, change) = (self.signal.name(), self.endpoint(), self.change(kind));
        let error = failed.map(Failed::error);
        match (change, error) {
            (Some(Change::Begins(Kind::Away)), Some(error)) => tracing::warn!(
                target: TARGET,
                endpoint,
                signal,
                %error,
                "failed to reach the collector; further failures are only counted, in otel_export_failures_total",
            ),
            (Some(Change::Begins(Kind::Refused)), Some(error)) => tracing::warn!(
                target: TARGET,
                endpoint,
                signal,
                %error,
                "the collector does not want what it is sent; further failures are only counted, in \
                 otel_export_failures_total",
            ),
            (Some(Change::Ends), _) => {
                tracing::info!(target: TARGET, endpoint, signal, "the collector answers again");
            }
            (Some(Change::Begins(_)), None) | (None, _) => {}
        }
        // It answers, and takes other things: this comes and goes with what is in a request.
        if let Some(error) = error.filter(|_| kind.is_none())
            && !self.rejection_said.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(
                target: TARGET,
                endpoint,
                signal,
                %error,
                "the collector did not take all it was sent; this is only counted from now on, in \
                 otel_lost_items_total",
            );
        }
    }

    fn endpoint(&self) -> String {
        self.outcomes.exporters().get(self.place).map(|own| own.endpoint.clone()).unwrap_or_default()
    }

    /// Takes the new state, and returns what is to be said of it.
    fn change(&self, kind: Option<Kind>) -> Option<Change> {
        let mut exporters = self.outcomes.exporters();
        let own = exporters.get(self.place)?;
        let before = own.trouble;
        let Some(kind) = kind else {
            exporters.get_mut(self.place)?.trouble = None;
            return before.filter(|trouble| trouble.said).map(|_| Change::Ends);
        };
        // One line a trouble: whoever said something has its end to say, whatever comes between.
        if before.is_some_and(|trouble| trouble.said) {
            return None;
        }
        let same = |trouble: Trouble| trouble.kind == kind && trouble.said;
        let said =
            exporters.iter().any(|other| other.endpoint == own.endpoint && other.trouble.is_some_and(same));
        exporters.get_mut(self.place)?.trouble = Some(Trouble { kind, said: !said });
        (!said).then_some(Change::Begins(kind))
    }
}

enum Change {
    Begins(Kind),
    Ends,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use opentelemetry_sdk::error::OTelSdkError;

    use super::*;

    fn away() -> Failed {
        Failed::Passing { error: OTelSdkError::Timeout(Duration::from_secs(1)), after: Duration::ZERO }
    }

    fn unwanted() -> Failed {
        Failed::Unwanted(OTelSdkError::InternalFailure("Unimplemented".to_owned()))
    }

    /// What a fate would say of this.
    fn said(fate: &Fate, failed: Option<&Failed>) -> Option<&'static str> {
        let kind = failed.map(|failed| match failed {
            Failed::Passing { .. } => Kind::Away,
            _ => Kind::Refused,
        });
        fate.change(kind).map(|change| match change {
            Change::Begins(Kind::Away) => "away",
            Change::Begins(Kind::Refused) => "refused",
            Change::Ends => "back",
        })
    }

    #[test]
    fn a_collector_that_is_away_is_said_once_for_all_signals() {
        let outcomes = Arc::new(Outcomes::default());
        let [traces, logs] =
            [Signal::Traces, Signal::Logs].map(|signal| outcomes.exporter(signal, "one".into()));
        let elsewhere = outcomes.exporter(Signal::Metrics, "other".into());
        assert_eq!(said(&traces, Some(&away())), Some("away"));
        assert_eq!(said(&logs, Some(&away())), None);
        assert_eq!(said(&elsewhere, Some(&away())), Some("away"), "another endpoint");
        assert_eq!(said(&traces, Some(&away())), None);
        assert_eq!(said(&logs, None), None);
        assert_eq!(said(&traces, None), Some("back"));
        assert_eq!(said(&traces, None), None);
        assert_eq!(said(&logs, Some(&away())), Some("away"), "again");
    }

    #[test]
    fn one_signal_that_fails_for_ever_is_said_once_beside_others_that_do_not() {
        for failed in [away(), unwanted()] {
            let outcomes = Arc::new(Outcomes::default());
            let [traces, logs] =
                [Signal::Traces, Signal::Logs].map(|signal| outcomes.exporter(signal, "one".into()));
            let lines: Vec<_> =
                (0..10).flat_map(|_| [said(&logs, Some(&failed)), said(&traces, None)]).flatten().collect();
            assert_eq!(lines.len(), 1, "{lines:?}");
        }
    }

    #[test]
    fn a_collector_that_goes_away_is_said_beside_a_signal_that_it_never_wanted() {
        let outcomes = Arc::new(Outcomes::default());
        let [traces, logs] =
            [Signal::Traces, Signal::Logs].map(|signal| outcomes.exporter(signal, "one".into()));
        assert_eq!(said(&logs, Some(&unwanted())), Some("refused"));
        assert_eq!(said(&traces, Some(&away())), Some("away"));
        assert_eq!(said(&logs, Some(&away())), None);
        assert_eq!(said(&traces, None), Some("back"));
    }

    #[test]
    fn a_trouble_that_changes_its_face_is_one_trouble() {
        let outcomes = Arc::new(Outcomes::default());
        let logs = outcomes.exporter(Signal::Logs, "one".into());
        assert_eq!(said(&logs, Some(&unwanted())), Some("refused"));
        for _ in 0..3 {
            assert_eq!(said(&logs, Some(&away())), None);
            assert_eq!(said(&logs, Some(&unwanted())), None);
        }
        assert_eq!(said(&logs, None), Some("back"));
    }
}
