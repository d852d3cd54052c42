//! The history of jobs in Grafana Loki.
//!
//! [`Loki`] is a client of the two requests that this takes, a push and a query over a range. [`queue`] makes a bounded
//! queue in front of it: a job's end waits for its place there and for nothing else. [`HistoryStore`] puts the queue in
//! the place of the history of another store of jobs.
//!
//! Streams, labels and lines are Grafana's, so that its own reader finds the records. Grafana: `jobs/loki_history.go`.
//!
//! What it refuses to know: how jobs are kept until they end, and what a job does.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")
)]

mod client;
mod entry;
mod queue;
mod store;

pub use crate::client::{Loki, LokiError, LokiOptions};
pub use crate::entry::Entry;
pub use crate::queue::{DropReason, HistoryQueue, HistoryWriter, Observer, QueueLimits, queue};
pub use crate::store::HistoryStore;
