//! What the ledger says, as series: exported by the leader, under the ledger's own identity.
//!
//! Whoever leads exports the same series with the same start times, so that a new leader goes on where the old one was,
//! and an export that is made twice says nothing twice. Whether this process leads is looked at right before each request.

mod view;

use std::sync::Arc;

use windlass_runtime::Clock;
use windlass_settings::{CommitTrackerSettings, HistogramForm, MetricNames};
use windlass_telemetry::{Buckets, CumulativeSource, CumulativeView, Family, FamilyKind};

use self::view::{LedgerView, Shown};
use crate::metrics::{Kind, METRICS, Spelling};
use crate::tracker::Leading;

/// The ledger's series, while this process leads.
pub struct LedgerSource {
    leading: Leading,
    families: Arc<[Family]>,
    /// Whether `/metrics` shows them.
    is_scraped: bool,
    clock: Arc<dyn Clock>,
}

impl LedgerSource {
    /// The series of whatever ledger `leading` has, with names and buckets as the settings say, on `/metrics` too if they
    /// are to be scraped.
    pub fn new(
        settings: &CommitTrackerSettings,
        is_scraped: bool,
        leading: Leading,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let spelling = match settings.metric_names {
            MetricNames::Code => Spelling::Dashes,
            MetricNames::Readme => Spelling::Underscores,
        };
        let buckets = match settings.histograms {
            HistogramForm::Exponential => Buckets::Exponential,
            HistogramForm::Classic => Buckets::Classic,
        };
        Self { leading, families: families(spelling, buckets), is_scraped, clock }
    }
}

impl CumulativeSource for LedgerSource {
    fn view(&self) -> Option<Arc<dyn CumulativeView>> {
        let led = self.leading.current()?;
        let entries = led.ledger.entries().into_iter();
        let entries =
            entries.map(|(uid, entry)| Shown { entry, now: Some(led.states.now(&uid)), deleted: None });
        let deleted = led.ledger.deleted().into_iter();
        let deleted = deleted.map(|(uid, entry)| Shown { entry, now: None, deleted: Some(uid) });
        let families = Arc::clone(&self.families);
        let (entries, now) = (entries.chain(deleted).collect(), self.clock.now());
        Some(Arc::new(LedgerView::new(
            led.ledger.identity(),
            families,
            entries,
            now,
            Some(led.ledger.clone()),
        )))
    }

    fn scraped(&self) -> Option<Arc<dyn CumulativeView>> {
        self.is_scraped.then(|| self.view()).flatten()
    }

    fn is_current(&self) -> bool {
        self.leading.current().is_some()
    }
}

/// The rows of the table of metrics, in their order.
fn families(spelling: Spelling, buckets: Buckets) -> Arc<[Family]> {
    METRICS
        .iter()
        .map(|metric| Family {
            name: metric.otlp_name(spelling).into(),
            description: metric.meaning.into(),
            unit: metric.unit,
            kind: match metric.kind {
                Kind::Histogram => FamilyKind::Histogram(buckets),
                Kind::Gauge => FamilyKind::Gauge,
                Kind::Counter => FamilyKind::Counter,
            },
        })
        .collect()
}
