//! How a call is made: its deadline, its tries, and the right that its writes need.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use windlass_telemetry::ErrorChain;

use super::error::{CallError, deadline};
use crate::{Backoff, BackoffPolicy};

/// The longest that a server's own "retry after" is respected.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// How calls are made. Cheap to clone; one value serves many calls.
///
/// Every try has the deadline for itself. Errors that may pass by themselves ([`CallError::is_transient`]) are tried
/// again as [`Retry`] says. A repeated write may meet what its first try made: a create is then told that the object
/// exists, a guarded patch that it has changed, and the caller looks at what is there.
#[derive(Clone, Debug)]
pub struct CallOptions {
    deadline: Duration,
    retry: Retry,
    fence: Fence,
}

/// How often a call is tried, and with which delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Retry {
    /// Tries in all; at least one is made.
    pub attempts: u32,
    /// Delays between them.
    pub backoff: BackoffPolicy,
    /// Whether a call that was not answered in time is tried again too. Without, a server that hangs costs one deadline.
    pub after_silence: bool,
}

impl Retry {
    /// One try.
    pub const NEVER: Self = Self { attempts: 1, backoff: BackoffPolicy::CONNECTION, after_silence: false };

    /// For some ten seconds: as long as an API server takes to be started again.
    pub const RESTART: Self = Self {
        attempts: 9,
        backoff: BackoffPolicy {
            first: Duration::from_millis(100),
            max: Duration::from_secs(2),
            factor: 2.0,
            jitter: 0.3,
        },
        after_silence: true,
    };

    /// Until there is an answer, or the fence is lost.
    pub const WHILE_FENCED: Self =
        Self { attempts: u32::MAX, backoff: BackoffPolicy::CONNECTION, after_silence: true };
}

/// The right to write, as something outside grants it: a lease, a term as leader. Asked before each try of a write.
///
/// A write that is under way when the right is lost is awaited until its deadline, so that its outcome is known.
#[derive(Clone, Default)]
pub struct Fence(Option<Arc<Right>>);

struct Right {
    reason: &'static str,
    lost: CancellationToken,
    holds: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Fence {
    /// Whoever has a client may write.
    pub const NONE: Self = Self(None);

    /// Writes are sent while `holds` says so. `lost` is cancelled when it does not any more, and ends the delays between
    /// tries; `reason` completes "not sent: …".
    pub fn new(
        reason: &'static str,
        lost: CancellationToken,
        holds: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(Right { reason, lost, holds: Box::new(holds) })))
    }

    /// The same right, as long as it is not yet `end`.
    #[must_use]
    pub fn until(&self, end: Instant) -> Self {
        let right = self.clone();
        let (reason, lost) = match &self.0 {
            None => ("its time is over", CancellationToken::new()),
            Some(right) => (right.reason, right.lost.clone()),
        };
        Self::new(reason, lost, move || right.holds() && Instant::now() < end)
    }

    /// Whether a write may be sent now.
    pub fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|right| !right.lost.is_cancelled() && (right.holds)())
    }

    /// Sleeps for `delay`; false when the right was lost meanwhile.
    async fn sleep(&self, delay: Duration) -> bool {
        let sleep = tokio::time::sleep(delay);
        match &self.0 {
            None => sleep.await,
            Some(right) => {
                right.lost.run_until_cancelled(sleep).await;
            }
        }
        self.holds()
    }
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fence").field("holds", &self.holds()).finish()
    }
}

impl CallOptions {
    /// One try, which is answered within `deadline` or not at all, and may write.
    pub const fn new(deadline: Duration) -> Self {
        Self { deadline, retry: Retry::NEVER, fence: Fence::NONE }
    }

    /// Tries as `retry` says.
    #[must_use]
    pub fn retried(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Writes while `fence` holds.
    #[must_use]
    pub fn fenced(mut self, fence: Fence) -> Self {
        self.fence = fence;
        self
    }

    /// The deadline of one try.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Makes a call that changes nothing. `what` completes "failed to …".
    pub async fn read<T, F>(
        &self,
        what: impl Into<String>,
        mut call: impl FnMut() -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let what = what.into();
        self.run(Access::Read, &what, || deadline(self.deadline, &*what, call())).await
    }

    /// Makes a call that changes something, creates and deletes included. `what` completes "failed to …".
    pub async fn write<T, F>(
        &self,
        what: impl Into<String>,
        mut call: impl FnMut() -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let what = what.into();
        self.run(Access::Write, &what, || deadline(self.deadline, &*what, call())).await
    }

    /// Tries as the options say; each try sees to its own deadline.
    pub(super) async fn run<T, F>(
        &self,
        access: Access,
        what: &str,
        mut call: impl FnMut() -> F,
    ) -> Result<T, CallError>
    where
        F: Future<Output = Result<T, CallError>>,
    {
        let mut backoff = Backoff::new(self.retry.backoff);
        let mut attempt = 1;
        loop {
            if access == Access::Write && !self.fence.holds() {
                let reason = self.fence.0.as_ref().map_or("", |right| right.reason);
                return Err(CallError::Fenced { what: what.to_owned(), reason });
            }
            let error = match call().await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let is_silence = matches!(error, CallError::Deadline { .. });
            let is_final = !error.is_transient() || (is_silence && !self.retry.after_silence);
            if attempt >= self.retry.attempts || is_final {
                return Err(error);
            }
            tracing::debug!(error = %ErrorChain(&error), attempt, "trying a call again");
            attempt += 1;
            let delay = error.retry_after().unwrap_or_default().min(LONGEST_WAIT).max(backoff.delay());
            if !self.fence.sleep(delay).await {
                return Err(error);
            }
        }
    }
}

impl From<Duration> for CallOptions {
    fn from(deadline: Duration) -> Self {
        Self::new(deadline)
    }
}

impl From<&Self> for CallOptions {
    fn from(options: &Self) -> Self {
        options.clone()
    }
}

/// Whether a call changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}
