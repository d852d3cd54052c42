//! The sub-resources of repositories, asked as an HTTP client asks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../jobs-operator/tests/it/kit/mod.rs"]
mod kit;

mod jobs;
mod resources;
mod test;
mod webhook;
