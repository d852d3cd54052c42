//! The sub-resources of repositories, asked as an HTTP client asks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../jobs-operator/tests/it/kit.rs"]
mod kit;

mod desk;
mod files_bad;
mod files_many;
mod files_read;
mod files_several;
mod files_write;
mod jobs;
mod others;
mod resources;
mod test;
mod webhook;
mod webhook_examples;
mod webhook_fuzz;
