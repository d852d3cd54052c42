//! Wall time that tests can hold.
//!
//! Monotonic time is `tokio::time` and needs no trait: tests pause it.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Tells the time of day, for what is written into objects. Never used to measure how long something took.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that moves only when it is told to, or with tokio's time.
#[derive(Debug)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
    follows: Option<Instant>,
}

impl ManualClock {
    /// A clock that stands at `start`.
    pub fn new(start: Timestamp) -> Self {
        Self { now: Mutex::new(start), follows: None }
    }

    /// A clock that stands at `start` and advances with `tokio::time`, paused time included.
    pub fn following_tokio(start: Timestamp) -> Self {
        Self { now: Mutex::new(start), follows: Some(Instant::now()) }
    }

    /// Moves the clock forward; at the end of time it stays there.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = later(*now, by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let now = *self.now.lock().unwrap_or_else(PoisonError::into_inner);
        self.follows.map_or(now, |start| later(now, start.elapsed()))
    }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        clock.advance(Duration::from_millis(1500));
        assert_eq!(clock.now().as_millisecond(), 1500);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Timestamp::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_following_clock_moves_with_paused_time() {
        let clock = ManualClock::following_tokio(Timestamp::UNIX_EPOCH);
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().as_second(), 90);
        clock.advance(Duration::from_secs(10));
        assert_eq!(clock.now().as_second(), 100);
    }
}
