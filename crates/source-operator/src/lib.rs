//! The source operator: turns Flux's `GitRepository` objects into artifacts that Flux's own appliers consume.
//!
//! One replica, the leader, looks at the objects and writes their status; every replica serves the artifacts, and makes
//! one that it lacks from Git when somebody asks for it.
//!
//! Start reading at `reconcile.rs`: observe, validate, plan, apply, status, a file each. `upstream.rs` is why many objects
//! of one URL cost one request, and `build.rs` why they cost one archive.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")
)]

mod access;
mod annotations;
mod app;
mod apply;
mod asked;
mod build;
mod calls;
mod conditions;
mod content_config;
mod controller;
mod externals;
mod failure;
mod files;
mod lead;
mod metrics;
mod notify;
mod observe;
mod operator;
pub mod options;
mod plan;
mod receivers;
mod reconcile;
mod reference;
mod replica;
mod secret;
mod secrets;
mod status;
mod sweep;
mod upstream;
mod validate;
mod verify;

pub use self::conditions::{CONDITIONS, RECEIVER_CONDITIONS};
pub use self::metrics::{METRICS, reference_markdown as metrics_reference};
pub use self::operator::{SOURCE_CONTROLLER, Sources, configure, register};
