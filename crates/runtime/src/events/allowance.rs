//! How much may be told of one object. Kubernetes: client-go's `EventSourceObjectSpamFilter`.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

/// Writes about one thing at once.
pub(super) const BURST: u32 = 25;
/// How often one more is allowed then.
pub(super) const REFILL: Duration = Duration::from_mins(5);

/// What is left to each of many things.
pub(super) struct Allowances<K>(HashMap<K, Allowance>);

struct Allowance {
    left: u32,
    /// Since when no more were added.
    since: Instant,
}

impl Allowance {
    fn refill(&mut self, now: Instant) {
        let more = now.duration_since(self.since).as_secs() / REFILL.as_secs();
        let more = u32::try_from(more).unwrap_or(BURST).min(BURST);
        self.left = (self.left + more).min(BURST);
        self.since = if self.left == BURST { now } else { self.since + REFILL * more };
    }
}

impl<K: Eq + Hash> Allowances<K> {
    pub(super) fn new() -> Self {
        Self(HashMap::new())
    }

    /// Whether one more write is allowed, which this then is.
    pub(super) fn take(&mut self, key: K, now: Instant) -> bool {
        let allowance = self.0.entry(key).or_insert(Allowance { left: BURST, since: now });
        allowance.refill(now);
        let is_allowed = allowance.left > 0;
        allowance.left = allowance.left.saturating_sub(1);
        is_allowed
    }

    /// Forgets those to whom all is left.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, allowance| {
            allowance.refill(now);
            allowance.left < BURST
        });
    }
}
