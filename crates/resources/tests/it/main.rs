//! Syncs against the embedded API server, in process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, reason = "tests")]

mod apply;
mod cut_short;
mod finalize;
mod further;
mod incremental;
mod robust;
mod several;
#[path = "../../src/test_reader.rs"]
mod test_reader;
mod world;
