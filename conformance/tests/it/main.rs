//! The embedded API server against a real one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

mod generated;
mod scripts;
mod together;
