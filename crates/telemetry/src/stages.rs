//! How long each stage took that a change goes through, from its push to where it is in use: one histogram for all who
//! take part, in whatever process.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Histogram;

use crate::Metrics;

/// The histogram's name.
pub const STAGES: &str = "grafana_provisioning_sync_stage_seconds";

/// The upper bounds of its buckets, in seconds.
pub const STAGE_BOUNDS: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];

/// What a change has come to; each stage begins where the one before ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The provider told of the push. By two clocks, and in whole seconds.
    Delivered,
    /// A pull was queued.
    Queued,
    /// A worker claimed the pull.
    Claimed,
    /// What changed was fetched and compared.
    Fetched,
    /// The objects were written.
    Applied,
    /// The repository was seen to be in step and healthy. By two clocks.
    Healthy,
}

impl Stage {
    /// All of them, in their order.
    pub const ALL: [Self; 6] =
        [Self::Delivered, Self::Queued, Self::Claimed, Self::Fetched, Self::Applied, Self::Healthy];

    /// The label's value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Queued => "queued",
            Self::Claimed => "claimed",
            Self::Fetched => "fetched",
            Self::Applied => "applied",
            Self::Healthy => "healthy",
        }
    }
}

/// The histogram. Cheap to clone; whoever makes it from the same [`Metrics`] records into the same one.
#[derive(Clone)]
pub struct Stages(Histogram<f64>);

impl Stages {
    /// The histogram of a process.
    pub fn new(metrics: &Metrics) -> Self {
        let meter = metrics.meter("sync");
        let histogram = meter
            .f64_histogram(STAGES)
            .with_description("Time of each stage from a push to the healthy repository.")
            .with_unit("s")
            .with_boundaries(STAGE_BOUNDS.to_vec());
        Self(histogram.build())
    }

    /// A stage was reached so long after the one before.
    pub fn took(&self, stage: Stage, took: Duration) {
        self.0.record(took.as_secs_f64(), &[KeyValue::new("stage", stage.as_str())]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_who_take_part_record_into_one_family() {
        let metrics = Metrics::new().unwrap();
        let (one, other) = (Stages::new(&metrics), Stages::new(&metrics));
        one.took(Stage::Delivered, Duration::from_millis(20));
        other.took(Stage::Healthy, Duration::from_millis(20));
        one.took(Stage::Healthy, Duration::from_millis(20));
        let text = metrics.render().unwrap();
        assert_eq!(
            text.lines().filter(|line| line.starts_with("# TYPE grafana_provisioning_sync_stage")).count(),
            1,
            "{text}"
        );
        let count = |stage: &str, count: u64| format!("{STAGES}_count{{stage=\"{stage}\"}} {count}");
        assert!(text.contains(&count("delivered", 1)) && text.contains(&count("healthy", 2)), "{text}");
    }
}
