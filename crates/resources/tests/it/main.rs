//! Syncs against the embedded API server, in process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

mod apply;
mod cut_short;
mod finalize;
mod further;
mod incremental;
#[path = "../../src/test_source.rs"]
mod test_source;
mod world;
