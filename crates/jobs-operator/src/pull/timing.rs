//! What a pull spends its time on.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use windlass_lease_queue::progress::{Phase, Work};
use windlass_resources::apply;
use windlass_runtime::Clock;

/// The time since a pull's comparison began.
pub(super) struct Timing {
    start: Timestamp,
    began: Instant,
    compare: Duration,
}

impl Timing {
    pub(super) fn begin(clock: &dyn Clock) -> Self {
        Self { start: clock.now(), began: Instant::now(), compare: Duration::ZERO }
    }

    /// There is a plan.
    pub(super) fn compared(&mut self) {
        self.compare = self.began.elapsed();
    }

    /// It was carried out: the phases, and the whole at last. Of an incremental pull Grafana knows three.
    pub(super) fn applied(&self, full: bool, applied: &[(apply::Phase, Duration)]) -> Vec<Phase> {
        let work = if full { Work::FullSync } else { Work::IncrementalSync };
        let took: Vec<(&'static str, Duration)> = if full {
            applied.iter().map(|(phase, took)| (phase.as_str(), *took)).collect()
        } else {
            let is_cleanup = |phase: apply::Phase| {
                matches!(phase, apply::Phase::FolderDeletions | apply::Phase::OldFolderCleanup)
            };
            let sum = |cleanup: bool| {
                applied.iter().filter(|(phase, _)| is_cleanup(*phase) == cleanup).map(|(_, took)| *took).sum()
            };
            vec![("apply", sum(false)), ("cleanup", sum(true))]
        };
        let mut phases = Vec::new();
        let mut start = self.start;
        for (name, took) in std::iter::once(("compare", self.compare)).chain(took) {
            phases.push(Phase { work, name: Some(name), start, took });
            start = start.checked_add(took).unwrap_or(start);
        }
        phases.push(Phase { work, name: None, start: self.start, took: self.began.elapsed() });
        phases
    }
}
