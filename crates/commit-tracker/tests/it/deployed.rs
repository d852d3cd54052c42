//! What `deploy/` says of metrics is what the table says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_commit_tracker::changes::Problem;
use windlass_commit_tracker::ledger::Outcome;
use windlass_commit_tracker::metrics::{
    COMMIT_OUTCOMES, COMMON_ATTRIBUTES, Kind, METRICS, PROCESS_METRICS, prometheus_label,
};

const PREFIX: &str = "flux_commit_tracker_";

/// Every dashboard, rule and manifest of a folder with its text. Quotes inside JSON strings are quotes here.
fn files(folder: &Path) -> Vec<(PathBuf, String)> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| match path.extension().and_then(|extension| extension.to_str()) {
        _ if path.is_dir() => files(&path),
        Some("yaml" | "json") => {
            let text = std::fs::read_to_string(&path).unwrap().replace("\\\"", "\"");
            vec![(path, text)]
        }
        _ => Vec::new(),
    };
    paths.flat_map(read).collect()
}

/// What is between each `start` and the first of `end` after it.
fn between<'a>(text: &'a str, start: &str, end: &[char]) -> impl Iterator<Item = &'a str> {
    text.match_indices(start).filter_map(move |(at, found)| text[at + found.len()..].split(end).next())
}

#[test]
fn dashboards_and_alerts_name_metrics_labels_and_outcomes_that_there_are() {
    let own = PROCESS_METRICS.iter().flat_map(|metric| metric.labels);
    let attributes =
        METRICS.iter().flat_map(|metric| metric.attributes()).chain(&COMMON_ATTRIBUTES).chain(own);
    let labels: BTreeSet<String> =
        attributes.map(|attribute| prometheus_label(attribute)).chain(["le".to_owned()]).collect();
    let mut outcomes: BTreeSet<&str> = Outcome::all().map(Outcome::name).chain(COMMIT_OUTCOMES).collect();
    outcomes.extend(Problem::ALL.map(Problem::name).into_iter().chain(["answered"]));
    let mut names: BTreeSet<String> = PROCESS_METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    for metric in METRICS {
        let parts =
            if metric.kind == Kind::Histogram { &["", "_bucket", "_sum", "_count"][..] } else { &[""] };
        names.extend(parts.iter().map(|part| format!("{}{part}", metric.prometheus_name())));
    }
    let mut seen = BTreeSet::new();
    for (path, text) in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy"))
        .into_iter()
        .filter(|(_, text)| text.contains(PREFIX))
    {
        let is_in = |what: &str, known: bool| assert!(known, "{}: there is no {what}", path.display());
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
