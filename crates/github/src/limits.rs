//! How long, how often and how much.

use std::time::Duration;

use crate::Credentials;

/// Which API to ask, as whom, and within which bounds.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API's base URL: [`Options::PUBLIC_API`], or `https://HOST/api/v3` of a GitHub Enterprise Server. Plain
    /// `http:` is for loopback addresses only.
    pub api: String,
    /// As whom.
    pub credentials: Credentials,
    /// How long to wait.
    pub deadlines: Deadlines,
    /// How often to try again when the server fails.
    pub retries: Retries,
    /// Bytes that a file may have.
    pub max_file: u64,
    /// Bytes that kept answers may take in memory.
    pub cache: usize,
}

impl Options {
    /// github.com's API.
    pub const PUBLIC_API: &str = "https://api.github.com";

    /// github.com's API, with the usual bounds: files up to 16 MiB, 8 MiB of kept answers.
    pub fn new(credentials: Credentials) -> Self {
        Self {
            api: Self::PUBLIC_API.to_owned(),
            credentials,
            deadlines: Deadlines::default(),
            retries: Retries::default(),
            max_file: 16 << 20,
            cache: 8 << 20,
        }
    }
}

/// How long to wait for GitHub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For a connection.
    pub connect: Duration,
    /// For the head of an answer, and for each piece of its body.
    pub read: Duration,
    /// For one question as a whole, retries included.
    pub total: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            read: Duration::from_secs(30),
            total: Duration::from_mins(1),
        }
    }
}

/// How often to try again when the server fails (5xx) or cannot be reached, within [`Deadlines::total`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// How many times after the first.
    pub times: u32,
    /// The wait before the second try; it doubles from try to try.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Retries {
    fn default() -> Self {
        Self { times: 4, first: Duration::from_secs(1), longest: Duration::from_secs(30) }
    }
}

impl Retries {
    /// The wait after `failed` tries, or nothing when that was the last.
    pub(crate) fn wait(&self, failed: u32) -> Option<Duration> {
        (failed <= self.times)
            .then(|| self.first.saturating_mul(1 << failed.saturating_sub(1).min(16)).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_end() {
        let retries = Retries { times: 6, ..Retries::default() };
        let waits: Vec<_> = (1..=7).map(|failed| retries.wait(failed).map(|wait| wait.as_secs())).collect();
        assert_eq!(waits, [Some(1), Some(2), Some(4), Some(8), Some(16), Some(30), None]);
    }
}
