//! How long things last: the times that plans are made by.

use std::time::Duration;

use jiff::Timestamp;
use windlass_api::{Repository, TokenStatus};

/// The least time until a repository is looked at again without anything having changed.
pub(crate) const LEAST_WAIT: Duration = Duration::from_secs(1);

/// How long a healthy repository is taken to be so, or a connection.
pub(crate) const HEALTHY_FOR: Duration = Duration::from_mins(5);
/// How long until an unhealthy one is looked at again.
pub(crate) const UNHEALTHY_FOR: Duration = Duration::from_mins(1);

/// How long what a server says of writing to a repository is taken to be so.
pub(crate) const INSPECTED_FOR: Duration = Duration::from_mins(10);

/// How long before its end a token is replaced: longer than a job may take. Never more than half its life, or a new one
/// would be due for replacement itself.
const TOKEN_MARGIN: Duration = Duration::from_mins(25);

/// The times and limits that plans are made by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// The least time between two looks at a source.
    pub(crate) min_sync: Duration,
    /// The time after which a pull compares everything; zero for never.
    pub(crate) full_sync: Duration,
    /// Most repositories in a namespace; 0 for no limit.
    pub(crate) max_repositories: i64,
}

impl Timing {
    /// The time between two looks at a source: what the specification says, but no shorter than the system's least.
    pub(crate) fn interval(&self, repository: &Repository) -> Duration {
        let wanted = u64::try_from(repository.spec.sync.interval_seconds).unwrap_or(0);
        Duration::from_secs(wanted).max(self.min_sync)
    }
}

/// How long a result of a check is taken to be so.
pub(crate) fn health_lasts(healthy: bool) -> Duration {
    if healthy { HEALTHY_FOR } else { UNHEALTHY_FOR }
}

/// How long until a token is replaced.
pub(crate) fn renewed_in(status: &TokenStatus, now: Timestamp) -> Duration {
    let millis =
        |from: i64, to: i64| Duration::from_millis(u64::try_from(to.saturating_sub(from)).unwrap_or(0));
    if status.expiration == 0 {
        return Duration::MAX;
    }
    let life = millis(status.last_updated, status.expiration);
    // A machine whose clock is far behind does not wait longer than the token lives.
    let left = millis(now.as_millisecond(), status.expiration).min(life);
    left.saturating_sub(TOKEN_MARGIN.min(life / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_replaced_a_job_before_its_end_and_never_at_once() {
        let at = |minutes: i64| Timestamp::from_second(minutes * 60).unwrap();
        let token =
            |minutes: i64| TokenStatus { last_updated: 60_000, expiration: 60_000 + minutes * 60_000 };
        let left = |life, now| renewed_in(&token(life), at(now)).as_secs() / 60;
        assert_eq!((left(60, 1), left(60, 30), left(60, 36), left(60, 100)), (35, 6, 0, 0));
        assert_eq!((left(10, 1), left(10, 6)), (5, 0), "half of a short life");
        assert_eq!(left(60, -600), 35, "a clock that is behind");
        let forever = TokenStatus { last_updated: 1, expiration: 0 };
        assert_eq!(renewed_in(&forever, at(1)), Duration::MAX);
    }
}
