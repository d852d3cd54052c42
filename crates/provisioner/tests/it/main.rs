//! Trees of scripted leaves, and trees over an API server in process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod applications;
mod argo_cd;
mod clusters;
mod combinators;
mod deletion;
mod logs;
mod managed;
mod manager;
mod properties;
mod races;
mod references;
mod remote;
mod requests;
mod resources;
mod server;
mod shops;
mod world;
