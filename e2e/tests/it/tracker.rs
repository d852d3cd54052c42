//! The commit tracker beside a real kustomize-controller.

mod delivery;
mod exporter;
mod failing;
mod guide;
mod original;
mod prometheus;
mod replicas;
mod rewritten;
mod rights;
mod stand_in;
mod standing;
mod twenty;

use std::fmt::Display;
use std::time::Duration;

use windlass_e2e::flux::Tracker;

use self::delivery::Delivery;

/// The histogram of whole ways.
const END_TO_END: &str = "flux-commit-tracker.e2e.export-time";
/// The same on `/metrics`.
const END_TO_END_COUNT: &str = "flux_commit_tracker_e2e_export_time_seconds_count";
/// The counter of commits.
const COMMITS: &str = "flux-commit-tracker.commits";
/// The counter of revisions.
const REVISIONS: &str = "flux-commit-tracker.revisions";

/// How long anything may take.
const DEADLINE: Duration = Duration::from_mins(1);

/// The environment of a tracker that tells the collector at this address everything, soon.
fn tells(address: impl Display) -> [(&'static str, String); 3] {
    [
        ("TELEMETRY_MODE", "stdout-logs+otlp".to_owned()),
        ("TELEMETRY_ENDPOINT", address.to_string()),
        ("OTEL_METRIC_EXPORT_INTERVAL", "500".to_owned()),
    ]
}

/// The same borrowed, as processes are started with it.
fn borrowed<'a>(environment: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    environment.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

/// Waits until a tracker has said a line with this message.
async fn says(tracker: &Tracker, message: &str) {
    let said = windlass_e2e::eventually(&format!("the tracker says {message:?}"), || async {
        Ok((!tracker.process.lines(message).is_empty()).then_some(()))
    })
    .await;
    if let Err(error) = said {
        panic!("{error:#}; it said:\n{}", tracker.process.output());
    }
}
