//! When to ask again.

use std::fmt::Display;
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};
use http::HeaderMap;
use http::header::{AsHeaderName, DATE, RETRY_AFTER};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use rand::Rng as _;
use tokio::time::Instant;

use crate::Deadline;

/// The longest that a server can have itself left alone with one answer.
pub const MAX_RETRY_AFTER: Duration = Duration::from_hours(1);

/// How often a call that failed is tried again, within its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How many times after the first.
    pub times: u32,
    /// The wait before the second try; it doubles from try to try, a tenth more or less.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Retries {
    /// Four times, after 1 s, 2 s, 4 s and 8 s.
    fn default() -> Self {
        Self { times: 4, first: Duration::from_secs(1), longest: Duration::from_secs(30) }
    }
}

impl Retries {
    /// Tries until it works, cannot, or time is up. `again` says of an error how long to wait at least before it is worth
    /// another try, or that none is. A wait that would not end before the deadline is not begun.
    ///
    /// # Errors
    /// The last try's.
    pub async fn run<T, E, F>(
        &self,
        deadline: &Deadline,
        again: impl Fn(&E) -> Option<Duration>,
        attempt: impl FnMut() -> F,
    ) -> Result<T, E>
    where
        E: Display,
        F: Future<Output = Result<T, E>>,
    {
        let wait = |error: &E, delay: Option<Duration>| {
            // backon's own jitter only ever lengthens, up to twice.
            let delay = delay?.mul_f64(rand::rng().random_range(0.9..=1.1));
            let wait = again(error)?.max(delay);
            (Instant::now() + wait < deadline.until()).then_some(wait)
        };
        attempt
            .retry(self.delays())
            .sleep(tokio::time::sleep)
            .adjust(wait)
            .notify(|error, wait| tracing::debug!(%error, ?wait, "trying again"))
            .await
    }

    /// The waits, without the part that is left to chance.
    fn delays(&self) -> ExponentialBuilder {
        ExponentialBuilder::new()
            .with_min_delay(self.first.min(self.longest))
            .with_max_delay(self.longest)
            .with_factor(2.0)
            .with_max_times(self.times as usize)
    }
}

/// `Retry-After`: seconds, or a date, which is held against the server's own clock where it tells. An hour at most.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = text.parse().map(Duration::from_secs).ok().or_else(|| {
        let now = server_time(headers).unwrap_or_else(Timestamp::now);
        Some(Duration::try_from(date(headers, RETRY_AFTER)?.duration_since(now)).unwrap_or_default())
    });
    wait.map(|wait| wait.min(MAX_RETRY_AFTER))
}

/// What a server leaves to whoever asks it, as GitHub and others say it in each answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLeft {
    /// Requests until then.
    pub remaining: u64,
    /// When it is counted anew, in Unix seconds.
    pub resets: i64,
}

/// What an answer says is left (`X-RateLimit-Remaining`, `X-RateLimit-Reset`).
pub fn rate_left(headers: &HeaderMap) -> Option<RateLeft> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    let remaining = text("x-ratelimit-remaining")?.parse().ok()?;
    let resets = text("x-ratelimit-reset")?.parse().ok()?;
    Some(RateLeft { remaining, resets })
}

/// How long until a rate limit is counted anew that is used up, as GitHub and others say it (`X-RateLimit-Remaining: 0`,
/// and `X-RateLimit-Reset` in Unix seconds, which are held against the server's own clock where it tells). An hour at most.
pub fn limit_reset(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    if number("x-ratelimit-remaining") != Some(0) {
        return None;
    }
    let now = server_time(headers).unwrap_or_else(Timestamp::now).as_second();
    // A second more: it counts whole ones.
    let wait = Duration::from_secs(number("x-ratelimit-reset")?.saturating_sub(now.unsigned_abs()) + 1);
    Some(wait.min(MAX_RETRY_AFTER))
}

/// The server's time, as it says (`Date`).
pub fn server_time(headers: &HeaderMap) -> Option<Timestamp> {
    date(headers, DATE)
}

fn date(headers: &HeaderMap, name: impl AsHeaderName) -> Option<Timestamp> {
    Some(rfc2822::parse(headers.get(name)?.to_str().ok()?.trim()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use backon::BackoffBuilder as _;

    use super::*;
    use crate::Deadlines;

    #[test]
    fn waits_double_up_to_the_longest_and_end() {
        let retries = Retries { times: 6, ..Retries::default() };
        let waits: Vec<_> = retries.delays().build().map(|wait| wait.as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30]);
        let hasty = Retries { first: Duration::from_mins(1), longest: Duration::from_secs(2), times: 1 };
        assert_eq!(hasty.delays().build().collect::<Vec<_>>(), [Duration::from_secs(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_is_tried_again_while_that_is_worth_it_and_there_is_time() {
        let second = Duration::from_secs(1);
        for (least, total, tries) in [
            (Some(Duration::ZERO), 60 * second, 5),
            (None, 60 * second, 1),
            (Some(20 * second), 60 * second, 3),
            (Some(Duration::ZERO), second / 2, 1),
        ] {
            let deadline = Deadlines { total, ..Deadlines::default() }.begin();
            let mut tried = 0;
            let attempt = || {
                tried += 1;
                std::future::ready(Err::<(), _>("it did not work"))
            };
            Retries::default().run(&deadline, |_| least, attempt).await.unwrap_err();
            assert_eq!(tried, tries, "{least:?} within {total:?}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_by_the_servers_clock() {
        let date = "Fri, 06 Mar 2026 10:00:00 GMT";
        for (value, clock, expected) in [
            ("17", None, Some(17)),
            (" 17 ", Some(date), Some(17)),
            ("999999", None, Some(3_600)),
            ("Fri, 06 Mar 2026 10:01:40 GMT", Some(date), Some(100)),
            ("Fri, 06 Mar 2026 09:00:00 GMT", Some(date), Some(0)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", None, Some(0)),
            ("soon", None, None),
            ("-1", None, None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, value.parse().unwrap());
            clock.map(|clock| headers.insert(DATE, clock.parse().unwrap()));
            assert_eq!(retry_after(&headers).map(|wait| wait.as_secs()), expected, "{value}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
