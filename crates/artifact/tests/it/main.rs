//! Archives of real repositories, and the server over HTTP's own types.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod archives;
mod serving;
