//! Series whose values are kept outside this process: a ledger's, exported by whoever leads.
//!
//! The instruments of [`Metrics`](crate::Metrics) count what this process did and end with it. A [`CumulativeSource`]
//! speaks for something that outlives processes: its series go on under the same identity and start times whoever
//! exports them, and exporting them twice counts nothing twice. They are exported beside the process's own metrics, written
//! to the process's output in the modes that say so, and shown on `/metrics`.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, TraceId};

/// Series that outlive this process.
pub trait CumulativeSource: Send + Sync + 'static {
    /// Their state now; `None` when it is not this process that exports them.
    ///
    /// Called for each export and each scrape; must not wait.
    fn view(&self) -> Option<Arc<dyn CumulativeView>>;

    /// The same for who reads `/metrics`.
    fn scraped(&self) -> Option<Arc<dyn CumulativeView>> {
        self.view()
    }

    /// Whether this process may still export a view: asked right before each request that carries a part of it.
    fn is_current(&self) -> bool;
}

/// A state of a source's series: it does not change while it is exported, and a point is put together when its turn comes.
pub trait CumulativeView: Send + Sync + 'static {
    /// `service.instance.id`, the same for every process that exports these series.
    fn identity(&self) -> &str;

    /// The name of the instrumentation scope.
    fn scope(&self) -> &str;

    /// What is measured; the other methods name a family by its place here.
    fn families(&self) -> &[Family];

    /// How many series the family may have.
    fn series(&self, family: usize) -> usize;

    /// The point of one of the family's series, a histogram with buckets of this form; none where it has none yet.
    /// A point of another kind than the family's is left out.
    fn point(&self, family: usize, series: usize, buckets: Buckets) -> Option<CumulativePoint>;

    /// All of it was exported, and a collector took it: what was only kept for one more export can go. Not called where
    /// nothing is pushed: who reads `/metrics` or lines, and how often, is not known.
    fn exported(&self) {}
}

/// One thing that is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name as OTLP carries it; `/metrics` shows it as [`Family::prometheus_name`] says.
    pub name: Cow<'static, str>,
    /// What it means, one line.
    pub description: Cow<'static, str>,
    /// Its unit as the UCUM writes it: `s`, `By`, `1`; empty for counts.
    pub unit: &'static str,
    /// What its points are.
    pub kind: FamilyKind,
}

/// What the points of a family are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKind {
    /// Counts that only grow.
    Counter,
    /// Values that stand for themselves.
    Gauge,
    /// Distributions, exported with buckets of this form and always shown with classic ones on `/metrics`.
    Histogram(Buckets),
}

/// A form of a histogram's buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buckets {
    /// Between bounds that are chosen beforehand.
    Classic,
    /// Between powers of a base, which follows the values.
    Exponential,
}

/// The point of one series of a family.
#[derive(Clone, Debug, PartialEq)]
pub struct CumulativePoint {
    /// What tells the series from the others of its family.
    pub attributes: Vec<KeyValue>,
    /// When the series began at nothing; of no meaning for a gauge.
    pub start: Timestamp,
    /// Its value now.
    pub value: CumulativeValue,
    /// An observation that is in it, with the span that it came of; for histograms.
    pub exemplar: Option<Exemplar>,
}

/// One observation with the span that it came of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exemplar {
    /// The observation.
    pub value: f64,
    /// When it was made.
    pub time: Timestamp,
    /// The span's trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
}

/// A value of a cumulative series.
#[derive(Clone, Debug, PartialEq)]
pub enum CumulativeValue {
    /// All that was counted since the start.
    Counter(u64),
    /// The value now.
    Gauge(f64),
    /// All observations since the start.
    Classic(ClassicHistogram),
    /// All observations since the start.
    Exponential(ExponentialHistogram),
}

/// A histogram whose bounds were chosen beforehand.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassicHistogram {
    /// How many observations there were.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The upper bounds, included in their buckets, ascending; the last bucket has none.
    pub bounds: Cow<'static, [f64]>,
    /// How many observations each bucket holds, not those below it: one more than there are bounds.
    pub buckets: Vec<u64>,
}

/// A histogram whose bucket `i` holds what is above `2^(i / 2^scale)` and at most `2^((i + 1) / 2^scale)`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExponentialHistogram {
    /// How many observations there were.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// How fine the buckets are.
    pub scale: i32,
    /// How many observations were zero.
    pub zero_count: u64,
    /// The index of the first of `buckets`.
    pub offset: i32,
    /// How many observations each bucket of positive values holds.
    pub buckets: Vec<u64>,
}

impl Family {
    /// Its name in the Prometheus text: `_` for what that cannot carry, then the unit's suffix, then `_total` for a
    /// counter.
    pub fn prometheus_name(&self) -> String {
        let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == ':' { c } else { '_' };
        let mut name: String = self.name.chars().map(allowed).collect();
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            name.insert(0, '_');
        }
        let unit = match self.unit {
            "s" => "seconds",
            "ms" => "milliseconds",
            "By" => "bytes",
            _ => "",
        };
        if !unit.is_empty() && !name.ends_with(unit) {
            name = format!("{name}_{unit}");
        }
        if self.kind == FamilyKind::Counter && !name.ends_with("_total") {
            name.push_str("_total");
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &'static str, unit: &'static str, kind: FamilyKind) -> String {
        Family { name: name.into(), description: "".into(), unit, kind }.prometheus_name()
    }

    #[test]
    fn a_name_in_the_text_has_its_unit_and_no_dots() {
        let histogram = FamilyKind::Histogram(Buckets::Exponential);
        let name = named("flux-commit-tracker.e2e.export-time", "s", histogram);
        assert_eq!(name, "flux_commit_tracker_e2e_export_time_seconds");
        assert_eq!(named("a.commits", "", FamilyKind::Counter), "a_commits_total");
        assert_eq!(named("a_total", "1", FamilyKind::Counter), "a_total");
        assert_eq!(named("7days_seconds", "s", FamilyKind::Gauge), "_7days_seconds");
    }
}
