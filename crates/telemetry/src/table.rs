//! Metrics as a table: one row a metric, from which its instrument and its line in a reference are made.

use std::collections::BTreeSet;
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
        self.histogram(meter, "s")
    }

    /// Its instrument, of one that is recorded in bytes.
    pub fn bytes(&self, meter: &Meter) -> Histogram<f64> {
        self.histogram(meter, "By")
    }

    fn histogram(&self, meter: &Meter, unit: &'static str) -> Histogram<f64> {
        let bounds = match self.kind {
            MetricKind::Histogram(bounds) => bounds.to_vec(),
            MetricKind::Counter | MetricKind::Gauge => Vec::new(),
        };
        let histogram = meter.f64_histogram(self.name).with_description(self.meaning);
        histogram.with_unit(unit).with_boundaries(bounds).build()
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
            let unit = if row.name.ends_with("_bytes") { " bytes" } else { "" };
            let _ = writeln!(out, "- `{}`: {}{unit}", row.name, bounds.join(", "));
        }
    }
    out
}

/// How what is exported differs from the rows: metrics that lack, that have other labels, and that are of no row. Nothing
/// where every row was told once, in the text of Prometheus.
pub fn metrics_differences<'a>(
    rows: impl IntoIterator<Item = &'a &'static MetricRow>,
    text: &str,
) -> Vec<String> {
    let (mut differences, mut known) = (Vec::new(), BTreeSet::new());
    for row in rows {
        known.insert(row.name);
        let is_histogram = matches!(row.kind, MetricKind::Histogram(_));
        let name = if is_histogram { format!("{}_count", row.name) } else { row.name.to_owned() };
        let is_of_it =
            |line: &&str| line.strip_prefix(&*name).is_some_and(|rest| rest.starts_with(['{', ' ']));
        let Some(line) = text.lines().find(is_of_it) else {
            differences.push(format!("{name} is not told"));
            continue;
        };
        let labels =
            line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(labels, _)| labels);
        let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0));
        if labels.collect::<BTreeSet<_>>() != row.labels.iter().copied().collect() {
            differences.push(format!("{line} has other labels than {:?}", row.labels));
        }
    }
    let told = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    differences
        .extend(told.filter(|name| !known.contains(name)).map(|name| format!("{name} is in no table")));
    differences
}

/// In which of Grafana's buckets a number of resources is, as a label.
pub fn resources_bucket(resources: u64) -> &'static str {
    match resources {
        0 => "0",
        1..=10 => "1-10",
        11..=50 => "11-50",
        51..=100 => "51-100",
        101..=500 => "101-500",
        501..=1000 => "501-1000",
        _ => "1000+",
    }
}
