//! What writing spends its time on.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;
use windlass_lease_queue::progress::{Phase, Progress, Work};
use windlass_runtime::Clock;

/// The phases of one write, each from the end of the one before.
pub(super) struct Timing<'a> {
    progress: &'a Progress,
    /// When the phase began that goes on.
    start: Timestamp,
    began: Instant,
}

impl<'a> Timing<'a> {
    pub(super) fn begin(clock: &dyn Clock, progress: &'a Progress) -> Self {
        Self { progress, start: clock.now(), began: Instant::now() }
    }

    /// A phase ends now.
    pub(super) fn phase(&mut self, name: &'static str) {
        self.phase_of(name, self.began.elapsed());
    }

    /// A phase ended so long after it began.
    pub(super) fn phase_of(&mut self, name: &'static str, took: Duration) {
        let Self { progress, start, began } = self;
        progress.phase(Phase { work: Work::Write, name: Some(name), start: *start, took });
        *start = start.checked_add(took).unwrap_or(*start);
        *began += took;
    }
}
