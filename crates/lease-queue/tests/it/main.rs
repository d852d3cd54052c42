//! The queue from outside: single behaviours over a simulated store, simulated crowds of replicas under faults, and the
//! Kubernetes adapter over a simulated API server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs,
    reason = "tests"
)]

mod checker;
mod claim;
mod crash_points;
mod end;
mod exclusion;
mod harness;
mod kube;
mod lease;
mod peers;
mod replica;
mod simulation;
mod store;
