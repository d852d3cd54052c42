//! The repository operator over an API server in process, beside the jobs operator where syncs matter.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../../../jobs-operator/tests/it/kit.rs"]
mod kit;

mod connections;
mod deletion;
mod health;
mod hooks;
mod leader;
mod metrics;
mod neighbours;
mod pull_requests;
mod scope;
mod secrets;
mod syncs;
mod writable;
