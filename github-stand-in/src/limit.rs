//! The rate limit.

/// The rate limit as headers say it.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) most: u64,
    pub(crate) used: u64,
    /// Unix time.
    pub(crate) reset: i64,
}

impl Limit {
    /// Requests an hour, as GitHub gives to a user.
    pub(crate) const AN_HOUR: u64 = 5_000;

    pub(crate) fn remaining(self) -> u64 {
        self.most - self.used
    }
}
