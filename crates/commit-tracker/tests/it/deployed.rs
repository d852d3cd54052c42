//! What `deploy/` says of metrics is what the table says.

use std::collections::BTreeSet;

use windlass_commit_tracker::changes::Problem;
use windlass_commit_tracker::ledger::Outcome;
use windlass_commit_tracker::metrics::{
    COMMIT_OUTCOMES, COMMON_ATTRIBUTES, Kind, METRICS, PROCESS_METRICS, prometheus_label,
};

const PREFIX: &str = "flux_commit_tracker_";

/// The alerts, and the dashboard, where quotes inside JSON strings are quotes.
fn files() -> [String; 2] {
    let alerts = include_str!("../../../../deploy/alerts/commit-delivery.yaml");
    let dashboard = include_str!("../../../../deploy/compose/grafana/dashboards/commit-delivery.json");
    [alerts, dashboard].map(|text| text.replace("\\\"", "\""))
}

/// What is between each `start` and the first of `end` after it.
fn between<'a>(text: &'a str, start: &str, end: &[char]) -> impl Iterator<Item = &'a str> {
    text.match_indices(start).filter_map(move |(at, found)| text[at + found.len()..].split(end).next())
}

#[test]
fn dashboards_and_alerts_name_metrics_labels_and_outcomes_that_there_are() {
    let own = PROCESS_METRICS.iter().flat_map(|metric| metric.labels).chain(&COMMON_ATTRIBUTES);
    let attributes = METRICS.iter().flat_map(|metric| metric.attributes()).chain(own);
    let labels = attributes.map(|attribute| prometheus_label(attribute)).chain(["le".to_owned()]);
    let labels: BTreeSet<String> = labels.collect();
    let mut outcomes: BTreeSet<&str> = Outcome::all().map(Outcome::name).chain(COMMIT_OUTCOMES).collect();
    outcomes.extend(Problem::ALL.map(Problem::name).into_iter().chain(["answered"]));
    let mut names: BTreeSet<String> = PROCESS_METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    for metric in METRICS {
        let is_histogram = metric.kind == Kind::Histogram;
        let parts = if is_histogram { &["", "_bucket", "_sum", "_count"][..] } else { &[""] };
        names.extend(parts.iter().map(|part| format!("{}{part}", metric.prometheus_name())));
    }
    let mut seen = BTreeSet::new();
    for text in files() {
        let is_in = |what: &str, known: bool| assert!(known, "there is no {what}");
        for (start, _) in text.match_indices(PREFIX) {
            let is_over = |letter: char| !letter.is_ascii_alphanumeric() && letter != '_';
            let (name, after) = text[start..].split_at(text[start..].find(is_over).unwrap_or(0));
            is_in(name, names.contains(name));
            seen.insert(name.to_owned());
            let matchers = after.strip_prefix('{').map_or("", |rest| rest.split('}').next().unwrap());
            for label in matchers.split('"').step_by(2) {
                let label = label.trim_matches([',', ' ', '=', '~', '!']);
                is_in(label, label.is_empty() || labels.contains(label));
            }
        }
        for label in between(&text, "by (", &[')']).flat_map(|group| group.split(',')) {
            is_in(label, labels.contains(label.trim()));
        }
        let matchers = ["outcome=\"", "outcome=~\"", "outcome!=\"", "outcome!~\""];
        let values = matchers.iter().flat_map(|start| between(&text, start, &['"']));
        for outcome in values.flat_map(|value| value.split('|')) {
            is_in(outcome, outcomes.contains(outcome));
        }
    }
    assert!(seen.len() > 10, "{seen:?}");
}
