//! Growing, jittered delays between attempts.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

/// How delays grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackoffPolicy {
    /// The delay after the first failure, before jitter.
    pub first: Duration,
    /// No delay is longer.
    pub max: Duration,
    /// What each delay is multiplied by to give the next.
    pub factor: f64,
    /// The share of a delay that is left to chance, 0 to 1: a delay `d` becomes one of `d × (1 − jitter) … d`.
    pub jitter: f64,
}

impl BackoffPolicy {
    /// For connections to a server that may be restarting: 200 ms, doubling to 10 s, half of it chance.
    pub const CONNECTION: Self =
        Self { first: Duration::from_millis(200), max: Duration::from_secs(10), factor: 2.0, jitter: 0.5 };

    /// For reconciling one object: 1 s, doubling to 5 min, a fifth of it chance.
    pub const OBJECT: Self =
        Self { first: Duration::from_secs(1), max: Duration::from_mins(5), factor: 2.0, jitter: 0.2 };
}

/// The delays of one thing that keeps failing.
#[derive(Debug)]
pub struct Backoff {
    policy: BackoffPolicy,
    delays: Delays,
}

/// Without an end, and without jitter: backon's own only ever lengthens a delay.
type Delays = <ExponentialBuilder as BackoffBuilder>::Backoff;

impl BackoffPolicy {
    fn delays(&self) -> Delays {
        #[expect(clippy::cast_possible_truncation, reason = "backon counts with f32, and so do our factors")]
        let factor = self.factor as f32;
        ExponentialBuilder::new()
            .with_min_delay(self.first.min(self.max))
            .with_max_delay(self.max)
            .with_factor(factor)
            .without_max_times()
            .build()
    }
}

impl Backoff {
    /// Starts at the policy's first delay.
    pub fn new(policy: BackoffPolicy) -> Self {
        Self { policy, delays: policy.delays() }
    }

    /// The delay before the next attempt; the one after it is longer.
    pub fn delay(&mut self) -> Duration {
        let full = self.delays.next().unwrap_or(self.policy.max);
        let chance = self.policy.jitter.clamp(0.0, 1.0) * rand::random::<f64>();
        full.mul_f64(1.0 - chance)
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.delays = self.policy.delays();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(jitter: f64) -> BackoffPolicy {
        BackoffPolicy { first: Duration::from_secs(1), max: Duration::from_secs(10), factor: 3.0, jitter }
    }

    #[test]
    fn delays_grow_by_the_factor_up_to_the_maximum_and_start_over() {
        let mut backoff = Backoff::new(policy(0.0));
        let delays: Vec<_> = (0..5).map(|_| backoff.delay().as_secs()).collect();
        assert_eq!(delays, [1, 3, 9, 10, 10]);
        backoff.reset();
        assert_eq!(backoff.delay(), Duration::from_secs(1));
    }

    #[test]
    fn jitter_shortens_a_delay_by_at_most_its_share() {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let delay = Backoff::new(policy(0.5)).delay();
            assert!((Duration::from_millis(500)..=Duration::from_secs(1)).contains(&delay), "{delay:?}");
            seen.insert(delay);
        }
        assert!(seen.len() > 1, "two replicas must not wait alike");
    }

    #[test]
    fn a_policy_out_of_range_gives_delays_within_its_maximum() {
        let max = Duration::from_secs(2);
        for factor in [f64::INFINITY, f64::NAN, -1.0] {
            let mut backoff = Backoff::new(BackoffPolicy { first: Duration::MAX, max, factor, jitter: 7.0 });
            for _ in 0..3 {
                assert!(backoff.delay() <= max);
            }
        }
    }
}
