//! The repository operator: looks after `Repository` and `Connection` objects.
//!
//! It checks, on change and in intervals, whether a repository can be read with what its specification says, and says
//! so in the `Ready` condition, `status.health` and `status.fieldErrors`; it queues a sync when one is due; and it runs
//! the finalizers of a repository that is being deleted.
//!
//! Start reading at `reconcile.rs`: observe, validate, plan, apply, status, a file each. `plan.rs` is pure and holds every
//! rule about when something is due, `due.rs` those of the tree. The tree, in `tree.rs`, is what a repository needs before
//! its source is asked and what has to be done before it goes: finalizers, `token.rs`, `inspection.rs`, `hook.rs`.
//! `neighbours.rs` holds which of two repositories comes first, `connections.rs` what is done about connections, and
//! `secrets.rs` whom a Secret that changed concerns.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")
)]

mod api;
mod applied;
mod apply;
mod bring_up;
mod connections;
mod controller;
mod due;
mod error;
mod finalize;
mod folders;
mod hook;
mod inspection;
mod lead;
mod memory;
mod metrics;
mod neighbours;
mod observe;
mod operator;
mod owned_secret;
mod plan;
mod pull;
mod reconcile;
mod secrets;
mod status;
mod timing;
mod token;
mod tree;
mod unhealthy;
mod validate;

pub use self::connections::{ConnectionsOperator, PROVISIONING_CONNECTION};
pub use self::metrics::reference_markdown as metrics_reference;
pub use self::operator::{PROVISIONING_REPO, Repositories, register};
