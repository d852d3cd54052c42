//! The commit tracker's parts over the embedded API server, in process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod deployed;
mod engine;
mod ledger;
