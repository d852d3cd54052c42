//! How replicas that know nothing of each other keep out of each other's way.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const SMALLEST: Duration = Duration::from_millis(2);

/// The time over which replicas that know nothing of each other spread their claims of one job, and by which those that
/// do know each other wait for the one before them. Each conflict doubles it, each claim without one takes an eighth off,
/// so that a replica that is alone, or has become so, does not wait.
#[derive(Debug)]
pub(crate) struct Window {
    width: Duration,
    widest: Duration,
}

impl Window {
    pub(crate) fn new(widest: Duration) -> Self {
        Self { width: Duration::ZERO, widest }
    }

    pub(crate) fn width(&self) -> Duration {
        self.width
    }

    pub(crate) fn conflict(&mut self) {
        self.width = (self.width * 2).max(FIRST).min(self.widest);
    }

    /// How long a replica waits for the one before it: enough for a claim to be granted and seen.
    pub(crate) fn step(&self) -> Duration {
        self.width.max(FIRST)
    }

    /// A claim was granted, to this replica or to another that it was not in the way of.
    pub(crate) fn peace(&mut self) {
        self.width = self.width * 7 / 8;
        if self.width < SMALLEST {
            self.width = Duration::ZERO;
        }
    }
}

/// The place of `replica` in a window of `width` for the job `uid`: always the same, evenly spread over replicas and jobs.
pub(crate) fn delay(replica: &str, uid: &str, width: Duration) -> Duration {
    if width.is_zero() {
        return Duration::ZERO;
    }
    let mut hasher = DefaultHasher::new();
    (replica, uid).hash(&mut hasher);
    // The upper half is enough to be even, and exact in a float.
    width.mul_f64((hasher.finish() >> 32) as f64 / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_meets_no_conflict_never_waits() {
        let mut window = Window::new(Duration::from_secs(2));
        window.peace();
        assert_eq!(delay("one", "uid", window.width()), Duration::ZERO);
    }

    #[test]
    fn conflicts_widen_the_window_up_to_the_cap_and_peace_closes_it() {
        let mut window = Window::new(Duration::from_secs(2));
        let mut widths = Vec::new();
        for _ in 0..7 {
            window.conflict();
            widths.push(window.width().as_millis());
        }
        assert_eq!(widths, [50, 100, 200, 400, 800, 1600, 2000]);
        for _ in 0..60 {
            window.peace();
        }
        assert_eq!(window.width(), Duration::ZERO);
    }

    #[test]
    fn replicas_are_spread_over_the_whole_window() {
        let width = Duration::from_secs(1);
        let delays: Vec<_> =
            (0..100).map(|replica| delay(&format!("replica-{replica}"), "job", width)).collect();
        assert!(delays.iter().all(|delay| *delay <= width));
        for quarter in 0..4 {
            let range = width * quarter / 4..width * (quarter + 1) / 4;
            let inside = delays.iter().filter(|delay| range.contains(delay)).count();
            assert!(inside > 10, "{inside} of 100 in {range:?}");
        }
    }

    #[test]
    fn no_replica_is_first_for_every_job() {
        let width = Duration::from_secs(1);
        let first = (0..1000).filter(|job| {
            let uid = format!("job-{job}");
            delay("a", &uid, width) < delay("b", &uid, width)
        });
        assert!((400..600).contains(&first.count()));
    }
}
