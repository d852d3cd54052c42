//! How replicas that know nothing of each other keep out of each other's way.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const SMALLEST: Duration = Duration::from_millis(2);

/// The time over which replicas that know nothing of each other spread their claims of one job. Each conflict doubles it,
/// each claim without one takes an eighth off, so that a replica that is alone, or has become so, does not wait.
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

    pub(crate) fn won(&mut self) {
        self.width = self.width * 7 / 8;
        if self.width < SMALLEST {
            self.width = Duration::ZERO;
        }
    }
}

/// How long replicas that take turns leave to each: enough for a claim to be granted and seen by the others, as this
/// replica measures it on its own claims. A power of two times 50 ms, so that replicas mostly agree.
#[derive(Debug)]
pub(crate) struct Step {
    /// The longest that was measured lately.
    lag: Duration,
}

impl Default for Step {
    /// Cautious: a replica that has measured nothing yet is in nobody's way.
    fn default() -> Self {
        Self { lag: FIRST }
    }
}

impl Step {
    /// So long after it was sent, a claim was seen by the watch.
    pub(crate) fn seen_after(&mut self, lag: Duration) {
        self.lag = (self.lag * 31 / 32).max(lag);
    }

    pub(crate) fn length(&self, widest: Duration) -> Duration {
        let mut length = FIRST;
        while length < self.lag * 3 && length < widest {
            length *= 2;
        }
        length
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
        window.won();
        assert_eq!(delay("one", "uid", window.width()), Duration::ZERO);
    }

    #[test]
    fn conflicts_widen_the_window_up_to_the_cap_and_wins_close_it() {
        let mut window = Window::new(Duration::from_secs(2));
        let mut widths = Vec::new();
        for _ in 0..7 {
            window.conflict();
            widths.push(window.width().as_millis());
        }
        assert_eq!(widths, [50, 100, 200, 400, 800, 1600, 2000]);
        for _ in 0..60 {
            window.won();
        }
        assert_eq!(window.width(), Duration::ZERO);
    }

    #[test]
    fn a_step_is_longer_than_what_claims_took_to_be_seen_and_shortens_again() {
        let widest = Duration::from_secs(2);
        let mut step = Step::default();
        assert_eq!(step.length(widest), Duration::from_millis(200));
        let seen_often = |step: &mut Step| {
            for _ in 0..100 {
                step.seen_after(Duration::from_millis(15));
            }
        };
        seen_often(&mut step);
        assert_eq!(step.length(widest), Duration::from_millis(50));
        step.seen_after(Duration::from_millis(90));
        assert_eq!(step.length(widest), Duration::from_millis(400));
        seen_often(&mut step);
        assert_eq!(step.length(widest), Duration::from_millis(50));
        step.seen_after(Duration::from_mins(1));
        assert!(step.length(widest) < 2 * widest);
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
