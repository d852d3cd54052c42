//! Who asked to be left alone.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::MAX_RETRY_AFTER;

/// Servers that are left alone at a time, beyond which no more are believed.
const MAX_SERVERS: usize = 1_024;

/// Servers by name, each with the time until which it asked to be sent nothing.
#[derive(Debug, Default)]
pub struct RetryAfterHosts {
    until: Mutex<HashMap<String, Instant>>,
}

impl RetryAfterHosts {
    /// How long `server` is still to be left alone; nothing if it may be asked.
    pub fn left(&self, server: &str) -> Option<Duration> {
        let mut held = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let left = held.get(server)?.saturating_duration_since(Instant::now());
        if left.is_zero() {
            held.remove(server);
            return None;
        }
        Some(left)
    }

    /// Leaves `server` alone for that long, or for as long as it asked for before; an hour at most.
    pub fn hold(&self, server: &str, wait: Duration) {
        let now = Instant::now();
        let mut held = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if held.len() >= MAX_SERVERS {
            held.retain(|_, until| *until > now);
        }
        let until = now + wait.min(MAX_RETRY_AFTER);
        if let Some(known) = held.get_mut(server) {
            *known = until.max(*known);
        } else if held.len() < MAX_SERVERS {
            held.insert(server.to_owned(), until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_is_left_alone_as_long_as_it_asked_at_most_an_hour() {
        let held = RetryAfterHosts::default();
        held.hold("a", Duration::from_mins(2));
        held.hold("a", Duration::from_secs(1));
        held.hold("b", Duration::from_hours(9));
        assert_eq!(held.left("a"), Some(Duration::from_mins(2)));
        assert_eq!(held.left("b"), Some(Duration::from_hours(1)));
        assert_eq!(held.left("c"), None);
        tokio::time::advance(Duration::from_mins(2)).await;
        assert_eq!(held.left("a"), None);
        assert_eq!(held.left("b"), Some(Duration::from_mins(58)));
    }

    #[tokio::test(start_paused = true)]
    async fn servers_without_end_take_no_memory_without_end() {
        let held = RetryAfterHosts::default();
        for number in 0..2 * MAX_SERVERS {
            held.hold(&number.to_string(), Duration::from_mins(1));
        }
        assert_eq!(held.until.lock().unwrap().len(), MAX_SERVERS);
        tokio::time::advance(Duration::from_mins(2)).await;
        held.hold("new", Duration::from_mins(1));
        assert_eq!(held.until.lock().unwrap().len(), 1);
    }
}
