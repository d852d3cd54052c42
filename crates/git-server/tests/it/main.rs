//! Integration tests with Git's own client.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod http_backend;
