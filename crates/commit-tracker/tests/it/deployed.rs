//! What `deploy/` says of metrics is what the table says.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use windlass_commit_tracker::changes::Problem;
use windlass_commit_tracker::ledger::Outcome;
use windlass_commit_tracker::metrics::{
    COMMIT_OUTCOMES, COMMITS, COMMON_ATTRIBUTES, Kind, METRICS, Metric, PROCESS_METRICS, REVISIONS,
    prometheus_label,
};

const PREFIX: &str = "flux_commit_tracker_";

/// Every dashboard, rule and manifest with its text. Quotes inside JSON strings are quotes here.
fn files() -> Vec<(PathBuf, String)> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            if path.is_dir() {
                folders.push(path);
            } else if ["yaml", "json"].contains(&kind) {
                let text = std::fs::read_to_string(&path).unwrap().replace("\\\"", "\"");
                files.push((path, text));
            }
        }
    }
    files
}

/// The metric that a series is of.
fn metric_of(series: &str) -> Option<&'static Metric> {
    let find = |name: &str| METRICS.iter().copied().find(|metric| metric.prometheus_name() == name);
    find(series).or_else(|| {
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|part| series.strip_suffix(part))?;
        find(histogram).filter(|metric| metric.kind == Kind::Histogram)
    })
}

/// Each series that a text names, with what follows it.
fn series(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices(PREFIX).map(|(start, _)| {
        let rest = &text[start..];
        let end =
            rest.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(rest.len());
        rest.split_at(end)
    })
}

/// Label, operator and value of each matcher of a series.
fn matchers(after: &str) -> Vec<(&str, &str, &str)> {
    let Some(inner) = after.strip_prefix('{') else { return Vec::new() };
    let mut rest = inner;
    let mut found = Vec::new();
    while !rest.starts_with('}') {
        let (label, tail) = rest.split_at(rest.find(['=', '!']).unwrap());
        let (operator, tail) = tail.split_at(tail.find('"').unwrap());
        let (value, tail) = tail[1..].split_once('"').unwrap();
        found.push((label.trim(), operator, value));
        rest = tail.trim_start_matches([',', ' ']);
    }
    found
}

#[test]
fn dashboards_and_alerts_name_metrics_that_there_are() {
    let mut named = BTreeSet::new();
    for (path, text) in files() {
        for (name, after) in series(&text) {
            if let Some(own) = PROCESS_METRICS.iter().find(|own| own.name == name) {
                for (label, _, value) in matchers(after) {
                    assert!(own.labels.contains(&label), "{}: {name} has no label {label}", path.display());
                    let outcomes = Problem::ALL.map(Problem::name);
                    let is_known = |outcome| outcome == "answered" || outcomes.contains(&outcome);
                    assert!(
                        label != "outcome" || value.split('|').all(is_known),
                        "{}: {value}",
                        path.display()
                    );
                }
                continue;
            }
            let metric = metric_of(name).unwrap_or_else(|| panic!("{}: there is no {name}", path.display()));
            named.insert(metric.name);
            for (label, _, value) in matchers(after) {
                let known = COMMON_ATTRIBUTES.iter().chain(metric.attributes());
                let known = known.map(|attribute| prometheus_label(attribute)).any(|known| known == label);
                let is_bound = label == "le" && name.ends_with("_bucket");
                assert!(known || is_bound, "{}: {name} has no label {label}", path.display());
                let mut outcomes: Vec<&str> = Vec::new();
                if std::ptr::eq(metric, &raw const COMMITS) {
                    outcomes.extend(COMMIT_OUTCOMES);
                } else if std::ptr::eq(metric, &raw const REVISIONS) {
                    outcomes.extend(Outcome::all().map(Outcome::name));
                }
                for outcome in value.split('|').filter(|_| label == "outcome") {
                    assert!(
                        outcomes.contains(&outcome),
                        "{}: {name} has no outcome {outcome}",
                        path.display()
                    );
                }
            }
        }
    }
    assert!(named.contains("e2e.export-time") && named.contains("oldest-unapplied-commit.age"), "{named:?}");
}

#[test]
fn dashboards_and_alerts_group_by_labels_that_there_are() {
    let own = PROCESS_METRICS.iter().flat_map(|metric| metric.labels);
    let attributes =
        METRICS.iter().flat_map(|metric| metric.attributes()).chain(&COMMON_ATTRIBUTES).chain(own);
    let known: BTreeSet<String> =
        attributes.map(|attribute| prometheus_label(attribute)).chain(["le".to_owned()]).collect();
    let mut groups = 0;
    for (path, text) in files().into_iter().filter(|(_, text)| text.contains(PREFIX)) {
        for (_, after) in text.match_indices("by (").map(|(start, by)| text.split_at(start + by.len())) {
            for label in after.split_once(')').unwrap().0.split(',').map(str::trim) {
                assert!(known.contains(label), "{}: nothing has a label {label}", path.display());
                groups += 1;
            }
        }
    }
    assert!(groups > 0);
}
