//! What a worker spent its time on.

use std::time::Duration;

use jiff::Timestamp;

/// What phases are a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// A comparison of everything.
    FullSync,
    /// A look at what changed.
    IncrementalSync,
    /// Changes that are staged and pushed.
    Write,
}

impl Work {
    /// The word for it: `full`, `incremental`, `write`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FullSync => "full",
            Self::IncrementalSync => "incremental",
            Self::Write => "write",
        }
    }
}

/// Something that a worker did, from when and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// What it was a part of.
    pub work: Work,
    /// What was done; nothing for the whole of the work.
    pub name: Option<&'static str>,
    /// When it began, by the wall clock.
    pub start: Timestamp,
    /// How long it took, by the monotonic one.
    pub took: Duration,
}
