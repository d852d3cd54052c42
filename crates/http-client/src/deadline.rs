//! How long is waited.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::Failure;

/// How long a server may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// Until a connection is made, TLS included.
    pub connect: Duration,
    /// Between two pieces of an answer, the first included.
    pub read: Duration,
    /// One call as a whole: logins, redirects and retries included.
    pub total: Duration,
}

impl Default for Deadlines {
    /// 10 s, 30 s and a minute.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_secs(30),
            total: Duration::from_mins(1),
        }
    }
}

impl Deadlines {
    /// Those of a call that begins now.
    pub fn begin(&self) -> Deadline {
        Deadline { until: Instant::now() + self.total, deadlines: *self }
    }
}

/// The deadlines of a call that is under way.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    until: Instant,
    pub(crate) deadlines: Deadlines,
}

impl Deadline {
    /// When the whole call ends.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Waits for `future`, but no longer than `step` and not beyond the call's end.
    ///
    /// # Errors
    /// [`Failure::Timeout`], with the duration that was too short.
    pub async fn within<T>(&self, step: Duration, future: impl Future<Output = T>) -> Result<T, Failure> {
        let end = Instant::now() + step;
        let (end, after) = if end < self.until { (end, step) } else { (self.until, self.deadlines.total) };
        timeout_at(end, future).await.map_err(|_| Failure::Timeout(after))
    }

    /// Waits for `future` until the whole call ends.
    ///
    /// # Errors
    /// [`Failure::Timeout`].
    pub async fn by_the_end<T>(&self, future: impl Future<Output = T>) -> Result<T, Failure> {
        timeout_at(self.until, future).await.map_err(|_| Failure::Timeout(self.deadlines.total))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whichever_deadline_comes_first_is_the_one_that_is_told() {
        let second = Duration::from_secs(1);
        let deadlines = Deadlines { connect: second, read: 2 * second, total: 5 * second };
        let deadline = deadlines.begin();
        let never = std::future::pending::<()>;
        assert!(
            matches!(deadline.within(3 * second, never()).await, Err(Failure::Timeout(after)) if after == 3 * second)
        );
        assert!(
            matches!(deadline.within(3 * second, never()).await, Err(Failure::Timeout(after)) if after == 5 * second)
        );
        assert_eq!(Instant::now(), deadline.until());
    }
}
