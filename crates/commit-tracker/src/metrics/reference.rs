//! The reference of all metrics, as a document.

use std::fmt::Write as _;

use windlass_telemetry::metrics_table;

use super::{
    CLASSIC_BOUNDS, COMMIT_OUTCOMES, COMMON_ATTRIBUTES, Kind, METRICS, Metric, OUTCOME, PROCESS_METRICS,
    Spelling, prometheus_label,
};
use crate::ledger::Outcome;

const HEAD: &str = "\
# Metrics of the commit tracker

Written from the code (`cargo xtask codegen`); dashboards and alert rules are checked against the same table.

Over OTLP a name begins with `flux-commit-tracker.`, or with `flux_commit_tracker.` where the settings say so.
Prometheus shows both as one name: every character but letters and digits becomes `_`, and the unit is appended.

";

const PROCESS: &str = "
## Of the process

What a tracker tells of itself. Every replica has these series, under an identity of its own, and they begin anew when it is started.

";

/// The reference: every metric with both names, its meaning, and what it does not mean.
pub fn reference_markdown() -> String {
    let mut out = HEAD.to_owned();
    out.push_str("| Name | In Prometheus | Kind | Unit | One value a |\n| --- | --- | --- | --- | --- |\n");
    for metric in METRICS {
        let Metric { name, kind, unit, per, .. } = metric;
        let _ = writeln!(out, "| `{name}` | `{}` | {kind} | `{unit}` | {per} |", metric.prometheus_name());
    }
    out.push_str("\n## Attributes\n\nEvery one of them carries:\n\n");
    for attribute in COMMON_ATTRIBUTES {
        let _ = writeln!(out, "- `{attribute}` (in Prometheus `{}`)", prometheus_label(attribute));
    }
    let _ = writeln!(
        out,
        "\nCounters carry `{OUTCOME}` besides. Of commits: {}. Of revisions: {}.\n\n\
         Neither a commit nor a revision is an attribute: log lines and traces name those.",
        listed(COMMIT_OUTCOMES),
        listed(Outcome::all().map(Outcome::name)),
    );
    out.push_str("\n## Buckets\n\n");
    let _ = writeln!(
        out,
        "Over OTLP a histogram is base-2 exponential (at most 160 buckets, scale at most 20, no minimum or maximum), or \
         classic where the settings say so; `/metrics` always shows the classic buckets.\n\
         Their upper bounds, in seconds: {}.\n\
         Count and sum are the same in both.",
        CLASSIC_BOUNDS.map(|bound| bound.to_string()).join(", "),
    );
    out.push_str("\n## What each means\n");
    for metric in METRICS {
        section(&mut out, metric);
    }
    out.push_str(PROCESS);
    out.push_str(&metrics_table(PROCESS_METRICS));
    out
}

fn section(out: &mut String, metric: &Metric) {
    let (name, Metric { meaning, not, .. }) = (metric.otlp_name(Spelling::Dashes), metric);
    let _ = write!(out, "\n### {name}\n\n{meaning}\n\nNot to be mistaken: {not}\n");
    if metric.kind == Kind::Counter {
        out.push_str(
            "\nIt counts from the Kustomization's first sight; restarts and other leaders go on with it.\n",
        );
    }
}

fn listed(names: impl IntoIterator<Item = &'static str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
