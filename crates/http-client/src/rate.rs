//! How many requests a second a server is sent by all of this process together.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Servers that are remembered at a time; all that were sent less than they may be are forgotten beyond.
const MAX_SERVERS: usize = 1_024;

/// Requests a second, and how many may come at once after a time without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Requests a second, on average; 0 for no limit.
    pub per_second: u32,
    /// Requests at once; at least one.
    pub burst: u32,
}

impl Rate {
    /// No limit.
    pub const UNLIMITED: Self = Self { per_second: 0, burst: 1 };
}

/// Servers by name, each with its share of requests. Whoever asks first is sent first.
#[derive(Debug)]
pub struct HostRates {
    rate: Rate,
    /// When the next request would be due if they came one by one, as the generic cell rate algorithm has it.
    due: Mutex<HashMap<String, Instant>>,
}

impl HostRates {
    /// The same for every server.
    pub fn new(rate: Rate) -> Self {
        Self { rate, due: Mutex::default() }
    }

    /// Waits for a turn to send `server` a request.
    ///
    /// # Errors
    /// It would be after `until`: how long it is to the turn, which is not taken then.
    pub async fn turn(&self, server: &str, until: Instant) -> Result<(), Duration> {
        let Some(at) = self.take(server, until)? else { return Ok(()) };
        sleep_until(at).await;
        Ok(())
    }

    /// The servers that were sent something lately, each with how many requests may be sent to it at once now. None where
    /// there is no limit.
    pub fn left(&self) -> Vec<(String, u32)> {
        let Rate { per_second, burst } = self.rate;
        if per_second == 0 {
            return Vec::new();
        }
        let (now, every) = (Instant::now(), Duration::from_secs(1) / per_second);
        let due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let left = |at: &Instant| {
            let ahead = at.saturating_duration_since(now).as_nanos().div_ceil(every.as_nanos().max(1));
            burst.max(1).saturating_sub(u32::try_from(ahead).unwrap_or(u32::MAX))
        };
        due.iter().map(|(server, at)| (server.clone(), left(at))).collect()
    }

    /// Takes the next turn; nothing if that is now.
    fn take(&self, server: &str, until: Instant) -> Result<Option<Instant>, Duration> {
        let Rate { per_second, burst } = self.rate;
        if per_second == 0 {
            return Ok(None);
        }
        let now = Instant::now();
        let every = Duration::from_secs(1) / per_second;
        let ahead = every * burst.max(1);
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let next = due.get(server).map_or(now, |at| now.max(*at)) + every;
        let at = next.checked_sub(ahead).filter(|at| *at > now);
        if let Some(at) = at.filter(|at| *at > until) {
            return Err(at - now);
        }
        if due.len() >= MAX_SERVERS {
            due.retain(|_, at| *at > now);
        }
        due.insert(server.to_owned(), next);
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn sent_within(rates: &HostRates, server: &str, count: usize) -> Duration {
        let (start, late) = (Instant::now(), Instant::now() + Duration::from_hours(1));
        for _ in 0..count {
            rates.turn(server, late).await.expect("in time");
        }
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_at_the_rate() {
        let rates = HostRates::new(Rate { per_second: 10, burst: 5 });
        assert_eq!(sent_within(&rates, "a", 5).await, Duration::ZERO);
        assert_eq!(sent_within(&rates, "a", 10).await.as_millis().div_ceil(100), 10);
        assert_eq!(sent_within(&rates, "b", 5).await, Duration::ZERO, "each server has its own");
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(sent_within(&rates, "a", 5).await, Duration::ZERO, "a burst again, and no more than that");
        assert!(sent_within(&rates, "a", 1).await > Duration::ZERO);
        assert_eq!(sent_within(&HostRates::new(Rate::UNLIMITED), "a", 1_000).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_goes_down_with_each_request_and_comes_back() {
        let rates = HostRates::new(Rate { per_second: 10, burst: 5 });
        assert!(rates.left().is_empty());
        sent_within(&rates, "a", 3).await;
        assert_eq!(rates.left(), [("a".to_owned(), 2)]);
        sent_within(&rates, "a", 2).await;
        assert_eq!(rates.left(), [("a".to_owned(), 0)]);
        tokio::time::advance(Duration::from_millis(100)).await;
        assert_eq!(rates.left(), [("a".to_owned(), 1)]);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(rates.left(), [("a".to_owned(), 5)]);
        let unlimited = HostRates::new(Rate::UNLIMITED);
        sent_within(&unlimited, "a", 3).await;
        assert!(unlimited.left().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_would_come_too_late_is_not_taken() {
        let rates = HostRates::new(Rate { per_second: 1, burst: 1 });
        let soon = Instant::now() + Duration::from_millis(500);
        rates.turn("a", soon).await.expect("the first");
        for _ in 0..3 {
            assert_eq!(rates.turn("a", soon).await, Err(Duration::from_secs(1)));
        }
        assert_eq!(sent_within(&rates, "a", 1).await, Duration::from_secs(1));
    }
}
