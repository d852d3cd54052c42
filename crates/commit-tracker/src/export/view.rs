//! One state of the ledger, point by point.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use opentelemetry::KeyValue;
use windlass_telemetry::{
    Buckets, ClassicHistogram, CumulativePoint, CumulativeValue, CumulativeView, ExponentialHistogram, Family,
};

use crate::histogram::Histogram;
use crate::ledger::{Entry, Ledger, Outcome};
use crate::metrics::{
    CLASSIC_BOUNDS, COMMIT_OUTCOMES, COMMITS, LAST_APPLIED, METRICS, Metric, OLDEST_UNAPPLIED, OUTCOME,
    RESOURCE_NAME, RESOURCE_NAMESPACE, REVISIONS, SOURCE_KIND, SUSPENDED, UNAPPLIED_UNKNOWN,
};
use crate::tracker::{Now, Waiting};
use crate::{Instrument, SourceKind};

/// The instrumentation scope, as the original calls it.
const SCOPE: &str = "tracker";

/// Of a Kustomization that was deleted nothing waits.
static GONE: Now = Now { waiting: Waiting::Nothing, example: None, suspended: false };

/// A state of the ledger, and what was not applied then.
pub(super) struct LedgerView {
    identity: String,
    families: Arc<[Family]>,
    /// One a Kustomization.
    entries: Vec<Shown>,
    /// Outcomes of revisions, in the order of their series.
    outcomes: Vec<Outcome>,
    now: Timestamp,
    /// Who is told that somebody took it.
    ledger: Option<Ledger>,
}

/// What is told of a Kustomization.
pub(super) struct Shown {
    pub(super) entry: Arc<Entry>,
    /// What is known of it now; nothing where it was deleted.
    pub(super) now: Option<Now>,
    /// Its UID where it was deleted, and is told until somebody took it.
    pub(super) deleted: Option<Arc<str>>,
}

impl Shown {
    /// Its namespace, name and kind of source, which every series of it has.
    fn name(&self) -> (&str, &str, SourceKind) {
        (&self.entry.key.namespace, &self.entry.key.name, self.entry.source_kind)
    }
}

impl LedgerView {
    pub(super) fn new(
        identity: &str,
        families: Arc<[Family]>,
        mut entries: Vec<Shown>,
        now: Timestamp,
        ledger: Option<Ledger>,
    ) -> Self {
        // A series is told once. Of one that was deleted and made again, the last figures of the first are told until
        // somebody took them, and then those of the second, which begin anew. Before it is known that the first is gone,
        // the newer one speaks.
        let order = |shown: &Shown| {
            let began = shown.entry.began;
            let first = shown.deleted.as_ref().map(|_| began);
            (first.is_none(), first, Reverse(began))
        };
        entries
            .sort_by(|one, other| one.name().cmp(&other.name()).then_with(|| order(one).cmp(&order(other))));
        entries.dedup_by(|later, kept| {
            let is_same = later.name() == kept.name();
            if is_same && kept.deleted.is_some() {
                // What waits, waits for the one that is there.
                kept.now = kept.now.take().or(later.now.take());
            }
            is_same
        });
        let outcomes = Outcome::all().collect();
        Self { identity: identity.to_owned(), families, entries, outcomes, now, ledger }
    }
}

impl CumulativeView for LedgerView {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn scope(&self) -> &str {
        SCOPE
    }

    fn families(&self) -> &[Family] {
        &self.families
    }

    fn series(&self, family: usize) -> usize {
        let each = match METRICS.get(family) {
            Some(metric) if is(metric, &COMMITS) => COMMIT_OUTCOMES.len(),
            Some(metric) if is(metric, &REVISIONS) => self.outcomes.len(),
            Some(_) => 1,
            None => 0,
        };
        self.entries.len() * each
    }

    fn point(&self, family: usize, series: usize, buckets: Buckets) -> Option<CumulativePoint> {
        let metric = METRICS.get(family)?;
        let each = self.series(family) / self.entries.len().max(1);
        let Shown { entry, now, .. } = self.entries.get(series.checked_div(each)?)?;
        let Now { waiting, example, suspended } = now.as_ref().unwrap_or(&GONE);
        let mut attributes = vec![
            KeyValue::new(RESOURCE_NAME, entry.key.name.clone()),
            KeyValue::new(RESOURCE_NAMESPACE, entry.key.namespace.clone()),
            KeyValue::new(SOURCE_KIND, entry.source_kind.name()),
        ];
        let mut exemplar = None;
        let value = if is(metric, &COMMITS) {
            let (outcome, count) = *entry.commits.by_outcome().get(series % each)?;
            attributes.push(KeyValue::new(OUTCOME, outcome));
            count_of(count, outcome == COMMIT_OUTCOMES[0])?
        } else if is(metric, &REVISIONS) {
            let outcome = *self.outcomes.get(series % each)?;
            let count =
                entry.revisions.iter().find(|(own, _)| *own == outcome).map_or(0, |(_, count)| *count);
            attributes.push(KeyValue::new(OUTCOME, outcome.name()));
            count_of(count, outcome == Outcome::Measured)?
        } else if is(metric, &OLDEST_UNAPPLIED) {
            let age = match waiting {
                Waiting::Unknown | Waiting::Untracked => return None,
                Waiting::Nothing => 0.0,
                Waiting::Since(coming) => self.now.duration_since(coming.1).as_secs_f64(),
            };
            CumulativeValue::Gauge(age.max(0.0))
        } else if is(metric, &UNAPPLIED_UNKNOWN) {
            match waiting {
                Waiting::Untracked => return None,
                waiting => CumulativeValue::Gauge(f64::from(u8::from(*waiting == Waiting::Unknown))),
            }
        } else if is(metric, &SUSPENDED) {
            CumulativeValue::Gauge(f64::from(u8::from(*suspended)))
        } else if is(metric, &LAST_APPLIED) {
            let merged = entry.last.as_ref()?.merged;
            CumulativeValue::Gauge(merged.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64())
        } else {
            let instrument = Instrument::of(metric.name)?;
            exemplar = example.as_ref().and_then(|example| example.of(instrument));
            match entry.histogram(instrument) {
                Some(histogram) => histogram_of(histogram, buckets),
                None if instrument == Instrument::EndToEnd => histogram_of(&Histogram::default(), buckets),
                None => return None,
            }
        };
        Some(CumulativePoint { attributes, start: entry.began, value, exemplar })
    }

    fn exported(&self) {
        let deleted: Vec<_> = self.entries.iter().filter_map(|shown| shown.deleted.clone()).collect();
        if let Some(ledger) = self.ledger.as_ref().filter(|_| !deleted.is_empty()) {
            ledger.taken(&deleted);
        }
    }
}

fn is(metric: &Metric, other: &Metric) -> bool {
    metric.name == other.name
}

/// A count. What is looked at over time is there from the beginning, for its first step to be one from 0; the rest once
/// it happened.
fn count_of(count: u64, from_the_beginning: bool) -> Option<CumulativeValue> {
    (count > 0 || from_the_beginning).then_some(CumulativeValue::Counter(count))
}

fn histogram_of(histogram: &Histogram, buckets: Buckets) -> CumulativeValue {
    match buckets {
        Buckets::Classic => CumulativeValue::Classic(ClassicHistogram {
            count: histogram.count(),
            sum: histogram.sum(),
            bounds: (&CLASSIC_BOUNDS).into(),
            buckets: histogram.classic().to_vec(),
        }),
        Buckets::Exponential => CumulativeValue::Exponential(ExponentialHistogram {
            count: histogram.count(),
            sum: histogram.sum(),
            scale: histogram.scale().into(),
            zero_count: histogram.zero_count(),
            offset: histogram.offset(),
            buckets: histogram.buckets().iter().copied().map(u64::from).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::families;
    use super::*;
    use crate::changes::Problem;
    use crate::ledger::{CommitCounts, LastApplied};
    use crate::metrics::Spelling;

    const BEGAN: Timestamp = Timestamp::constant(1_772_000_000, 0);
    const NOW: Timestamp = Timestamp::constant(1_772_000_600, 0);

    /// A Kustomization that counted so many commits since then; suspended where something waits.
    fn shown(began: Timestamp, counted: u64, oldest: Option<Timestamp>, deleted: Option<&str>) -> Shown {
        let commits = CommitCounts { counted, ..CommitCounts::default() };
        let since = |oldest| Waiting::Since(Box::new(("main@sha1:0".parse().unwrap(), oldest)));
        let waiting = oldest.map_or(Waiting::Nothing, since);
        let now = Now { waiting, example: None, suspended: oldest.is_some() };
        Shown {
            entry: Arc::new(Entry { commits, ..crate::given::entry(began, &[]) }),
            now: deleted.is_none().then_some(now),
            deleted: deleted.map(Into::into),
        }
    }

    /// Every point, by the family's name and its outcome.
    fn points(entries: Vec<Shown>, buckets: Buckets) -> BTreeMap<String, CumulativePoint> {
        let view = LedgerView::new("ledger", families(Spelling::Dashes, buckets), entries, NOW, None);
        let mut points = BTreeMap::new();
        for (place, family) in view.families().iter().enumerate() {
            for series in 0..view.series(place) {
                let Some(point) = view.point(place, series, buckets) else { continue };
                let outcome = point.attributes.get(3).map(|outcome| format!(" {}", outcome.value.as_str()));
                let name = family.name.strip_prefix("flux-commit-tracker.").unwrap();
                let before = points.insert(format!("{name}{}", outcome.unwrap_or_default()), point);
                assert_eq!(before, None, "a series was told twice");
            }
        }
        points
    }

    #[test]
    fn a_kustomization_has_the_series_that_rates_are_made_of_from_the_first_sight_on() {
        let points = points(vec![shown(BEGAN, 0, None, None)], Buckets::Exponential);
        let zero = ExponentialHistogram { scale: 20, ..Default::default() };
        let expected = [
            ("commits counted", CumulativeValue::Counter(0)),
            ("e2e.export-time", CumulativeValue::Exponential(zero)),
            ("oldest-unapplied-commit.age", CumulativeValue::Gauge(0.0)),
            ("oldest-unapplied-commit.unknown", CumulativeValue::Gauge(0.0)),
            ("revisions measured", CumulativeValue::Counter(0)),
            ("suspended", CumulativeValue::Gauge(0.0)),
        ];
        let told = points.iter().map(|(name, point)| (name.as_str(), point.value.clone()));
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert!(points.values().all(|point| point.start == BEGAN));
        let attributes = points["e2e.export-time"].attributes.iter();
        let attributes: Vec<_> = attributes.map(|own| format!("{}={}", own.key, own.value)).collect();
        assert_eq!(
            attributes.join(" "),
            "k8s.resource.name=shop k8s.namespace.name=apps k8s.source.kind=GitRepository"
        );
    }

    #[test]
    fn what_was_counted_is_told_in_either_form_of_buckets() {
        let counted = || {
            let times = crate::given::histogram([0.0, 20.0, 45.0, 7200.0]);
            let entry = Entry {
                histograms: vec![(Instrument::StageApply, times)],
                commits: CommitCounts { counted: 4, baseline: 2, skewed: 1 },
                revisions: vec![(Outcome::Measured, 3), (Outcome::Failed(Problem::PayloadMissing), 1)],
                last: Some(Box::new(LastApplied { commit: "c".into(), merged: BEGAN, applied: NOW })),
                ..crate::given::entry(BEGAN, &[])
            };
            vec![Shown { entry: Arc::new(entry), ..shown(BEGAN, 0, Some(BEGAN), None) }]
        };
        let classic = points(counted(), Buckets::Classic);
        let CumulativeValue::Classic(histogram) = &classic["stage.apply-time"].value else { panic!() };
        assert_eq!((histogram.count, histogram.sum), (4, 7265.0));
        assert_eq!(histogram.buckets, [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        for (name, value) in [
            ("commits counted", CumulativeValue::Counter(4)),
            ("commits baseline", CumulativeValue::Counter(2)),
            ("commits skewed", CumulativeValue::Counter(1)),
            ("revisions measured", CumulativeValue::Counter(3)),
            ("revisions payload_missing", CumulativeValue::Counter(1)),
            ("oldest-unapplied-commit.age", CumulativeValue::Gauge(600.0)),
            ("suspended", CumulativeValue::Gauge(1.0)),
            ("last-applied-commit.time", CumulativeValue::Gauge(1_772_000_000.0)),
        ] {
            assert_eq!(classic[name].value, value, "{name}");
        }
        assert_eq!(classic.get("revisions empty"), None);

        let exponential = &points(counted(), Buckets::Exponential)["stage.apply-time"].value;
        let CumulativeValue::Exponential(histogram) = exponential else { panic!() };
        let own = counted()[0].entry.histogram(Instrument::StageApply).unwrap().clone();
        assert_eq!((histogram.count, histogram.sum, histogram.zero_count), (4, 7265.0, 1));
        assert_eq!((histogram.scale, histogram.offset), (own.scale().into(), own.offset()));
    }

    #[test]
    fn of_one_that_was_deleted_and_made_again_the_first_is_told_until_it_was_taken() {
        let new = || shown(NOW, 9, Some(BEGAN), None);
        let deleted = |began, counted, uid| shown(began, counted, None, Some(uid));
        for (entries, counted) in [
            (vec![new(), deleted(BEGAN, 4, "1")], 4),
            // Of two that nobody took, too, the first comes first.
            (vec![deleted(NOW, 9, "2"), new(), deleted(BEGAN, 4, "1")], 4),
            (vec![new()], 9),
            // Until it is known that the first is gone, the newer one speaks.
            (vec![shown(BEGAN, 4, None, None), new()], 9),
        ] {
            let points = points(entries, Buckets::Exponential);
            assert_eq!(points["commits counted"].value, CumulativeValue::Counter(counted));
            assert_eq!(points["oldest-unapplied-commit.age"].value, CumulativeValue::Gauge(600.0));
        }
    }
}
