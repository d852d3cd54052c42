//! The jobs operator over an API server in process and real Git repositories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod crash;
mod edits;
mod jobs;
mod kit;
mod limits;
mod loki;
mod pull;
mod pull_status;
mod repair;
mod several;
mod signed;
mod unsynced;
mod write;
mod write_faults;
