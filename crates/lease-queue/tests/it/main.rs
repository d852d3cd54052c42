//! The queue from outside: single behaviours over a simulated store, simulated crowds of replicas under faults, and the
//! Kubernetes adapter over a simulated API server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, missing_docs, reason = "tests")]

mod behaviour;
mod checker;
mod crash_points;
mod kube;
mod replica;
mod simulation;
mod store;
