//! The source operator over an API server in process, a real Git server and its own server of artifacts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod artifacts;
mod externals;
mod failures;
mod hostile;
mod over_ssh;
mod providers;
mod proxied;
mod receiver_filters;
mod receivers;
mod secrets;
mod shards;
mod sharing;
mod submodules;
mod telling;
mod verification;
mod world;
