//! Metrics as a table: one row a metric, from which its instrument and its line in a reference are made.

use std::fmt::Write as _;

use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// Only ever grows, while the process lives.
    Counter,
    /// As it is now.
    Gauge,
    /// How values are spread; with the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// The word in a reference.
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug)]
pub struct MetricRow {
    /// The whole name, the same in OTLP and in Prometheus.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it means; the description that is exported with it.
    pub meaning: &'static str,
}

impl MetricRow {
    /// Its instrument, of one that is counted in whole numbers.
    pub fn counter(&self, meter: &Meter) -> Counter<u64> {
        meter.u64_counter(self.name).with_description(self.meaning).build()
    }

    /// Its instrument, of one that is set to whole numbers.
    pub fn gauge(&self, meter: &Meter) -> Gauge<u64> {
        meter.u64_gauge(self.name).with_description(self.meaning).build()
    }

    /// Its instrument, of one that is recorded in seconds.
    pub fn seconds(&self, meter: &Meter) -> Histogram<f64> {
        let bounds = match self.kind {
            MetricKind::Histogram(bounds) => bounds.to_vec(),
            MetricKind::Counter | MetricKind::Gauge => Vec::new(),
        };
        let histogram = meter.f64_histogram(self.name).with_description(self.meaning);
        histogram.with_unit("s").with_boundaries(bounds).build()
    }
}

/// Rows with what is common to their names, and a static with all of them in their order:
/// `metric_rows! { pub(crate) TABLE, "prefix_"; ROW = "name", MetricKind::Gauge, ["label"], "Meaning."; }`.
#[macro_export]
macro_rules! metric_rows {
    ($vis:vis $table:ident, $prefix:literal; $($row:ident = $name:literal, $kind:expr, [$($label:literal),*], $meaning:literal;)+) => {
        $(pub(crate) static $row: $crate::MetricRow = $crate::MetricRow {
            name: concat!($prefix, $name),
            kind: $kind,
            labels: &[$($label),*],
            meaning: $meaning,
        };)+

        /// Every metric, in the order of the reference.
        $vis static $table: &[&$crate::MetricRow] = &[$(&$row),+];
    };
}

/// The rows as a Markdown table.
pub fn metrics_table(rows: &[&MetricRow]) -> String {
    let mut out = "| Name | Kind | Labels | Meaning |\n| --- | --- | --- | --- |\n".to_owned();
    // Writing to a string does not fail.
    for row in rows {
        let labels: Vec<String> = row.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, meaning) = (row.name, row.kind.name(), row.meaning);
        let _ = writeln!(out, "| `{name}` | {kind} | {} | {meaning} |", labels.join(", "));
    }
    out
}

/// The bounds of the rows' buckets as a Markdown list.
pub fn metrics_buckets<'a>(rows: impl IntoIterator<Item = &'a &'static MetricRow>) -> String {
    let mut out = "Upper bounds, in seconds:\n\n".to_owned();
    for row in rows {
        if let MetricKind::Histogram(bounds) = row.kind {
            let bounds: Vec<String> = bounds.iter().map(ToString::to_string).collect();
            let _ = writeln!(out, "- `{}`: {}", row.name, bounds.join(", "));
        }
    }
    out
}
