//! The kit over the embedded API server, in process and under paused time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod election;
mod network;
