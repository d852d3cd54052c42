//! What is measured: the one table that code, documents, dashboards and alerts are checked against.

mod process;
mod reference;
mod table;

pub use process::*;
pub use reference::reference_markdown;

use crate::names::named;

pub use table::{COMMITS, LAST_APPLIED, METRICS, OLDEST_UNAPPLIED, REVISIONS, SUSPENDED, UNAPPLIED_UNKNOWN};

/// Upper bounds of the classic buckets, in seconds; a last bucket holds what is above. The original's first version had
/// these.
pub const CLASSIC_BOUNDS: [f64; 11] =
    [15.0, 30.0, 60.0, 120.0, 180.0, 300.0, 420.0, 600.0, 900.0, 1200.0, 1800.0];

named! {
    /// One thing that is measured for a Kustomization: a histogram of durations in seconds. Its name is that of its metric
    /// without the prefix, as the ledger keeps it too.
    pub enum Instrument {
        /// From a commit's merge to its apply, for each commit.
        EndToEnd = "e2e.export-time",
        /// From a commit's merge to the commit that the exporter made of it, for each commit.
        Export = "kube-manifests-exporter.export-time",
        /// From the exporter's commit to its apply, once a revision.
        Reconcile = "flux.reconcile-time",
        /// Stage: merged to exported, for each commit.
        StageExport = "stage.export-time",
        /// Stage: exported (or else merged) to seen by the source, for each commit.
        StageSource = "stage.source-time",
        /// Stage: seen by the source to fetched by the applier, once a revision.
        StageFetch = "stage.fetch-time",
        /// Stage: fetched to applied, once a revision.
        StageApply = "stage.apply-time",
        /// Stage: applied to healthy, once a revision.
        StageHealth = "stage.health-time",
    }
}

/// A row of the table: one metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// The name after the prefix.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// The unit, as OpenTelemetry writes it.
    pub unit: &'static str,
    /// What one observation, or the value, is of.
    pub per: Per,
    /// What it means, in one sentence; the description that is exported with it.
    pub meaning: &'static str,
    /// What it does not mean: the mistake that its name invites.
    pub not: &'static str,
}

named! {
    /// What kind of number a metric is.
    pub enum Kind {
        /// Durations: a base-2 exponential histogram, or classic buckets.
        Histogram = "histogram",
        /// A value as it is now.
        Gauge = "gauge",
        /// A number that only grows.
        Counter = "counter",
    }
}

named! {
    /// What one observation, or the value, is of.
    pub enum Per {
        /// Each commit.
        Commit = "commit",
        /// Each revision that was applied, however many commits came with it.
        Revision = "revision",
        /// The Kustomization as it is now.
        Kustomization = "Kustomization",
    }
}

/// How the prefix of OTLP names is spelled. Prometheus names are the same either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Spelling {
    /// `flux-commit-tracker.`, as the original's code has it.
    #[default]
    Dashes,
    /// `flux_commit_tracker.`, as the original's README has it.
    Underscores,
}

impl Spelling {
    /// The prefix.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Dashes => "flux-commit-tracker.",
            Self::Underscores => "flux_commit_tracker.",
        }
    }
}

/// The attribute of a Kustomization's name.
pub const RESOURCE_NAME: &str = "k8s.resource.name";
/// The attribute of a Kustomization's namespace.
pub const RESOURCE_NAMESPACE: &str = "k8s.namespace.name";
/// The attribute of the kind of a Kustomization's source.
pub const SOURCE_KIND: &str = "k8s.source.kind";
/// The attribute of counters that says what came of it.
pub const OUTCOME: &str = "outcome";

/// The attributes that every metric of a Kustomization has.
pub const COMMON_ATTRIBUTES: [&str; 3] = [RESOURCE_NAME, RESOURCE_NAMESPACE, SOURCE_KIND];

impl Metric {
    /// The attributes besides [`COMMON_ATTRIBUTES`].
    pub fn attributes(&self) -> &'static [&'static str] {
        if self.kind == Kind::Counter { &[OUTCOME] } else { &[] }
    }

    /// The name in OTLP: prefix and name.
    pub fn otlp_name(&self, spelling: Spelling) -> String {
        format!("{}{}", spelling.prefix(), self.name)
    }

    /// The name in the Prometheus text: what `OpenTelemetry` makes of the name and the unit.
    pub fn prometheus_name(&self) -> String {
        let mut name = prometheus_label(&self.otlp_name(Spelling::Underscores));
        if self.unit == "s" {
            name.push_str("_seconds");
        }
        if self.kind == Kind::Counter {
            name.push_str("_total");
        }
        name
    }
}

/// An attribute as a label of Prometheus: `k8s_resource_name`.
pub fn prometheus_label(attribute: &str) -> String {
    attribute.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' }).collect()
}

/// What came of a commit: the values of `outcome` of the counter of commits.
pub const COMMIT_OUTCOMES: [&str; 3] = ["counted", "baseline", "skewed"];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_instrument_is_a_histogram_of_seconds_in_the_table_under_a_name_of_its_own() {
        for (instrument, metric) in Instrument::ALL.into_iter().zip(METRICS) {
            let expected = (instrument.name(), Kind::Histogram, "s");
            assert_eq!((metric.name, metric.kind, metric.unit), expected, "theirs are the first rows");
        }
        assert!(METRICS[Instrument::ALL.len()..].iter().all(|metric| metric.kind != Kind::Histogram));
        let names: BTreeSet<String> = METRICS.iter().map(|metric| metric.prometheus_name()).collect();
        assert_eq!(names.len(), METRICS.len());
    }
}
