//! A durable lease queue: jobs are versioned records in a store that several replicas share, and each runs at least once.
//!
//! A replica feeds what its watch of the store sees into a [`Queue`] and asks it for the [`Queue::next`] job to run. The
//! job comes with a [`Lease`], which is renewed in the background, carries progress, and ends with [`Lease::complete`]
//! (into history, out of the queue) or [`Lease::release`] (back into the queue). A replica that vanishes leaves its claims
//! to lapse; others take them over.
//!
//! # What holds
//!
//! * Whoever writes to a job proves that nobody has written since it looked: [`Store::patch`] and [`Store::delete`] are
//!   guarded by uid and version. A worker that was paused past its lease can overwrite nothing.
//! * That a claim is abandoned is *observed*: it has not changed for the expiry time on our own monotonic clock. Wall
//!   clocks are written down for people, and never compared.
//! * A holder stops relying on its lease before anybody can take it over, also when it can reach nobody ([`Lease::valid`]).
//! * Of the jobs of one repository one runs at a time ([`Record::exclusion`]), in whatever replica. A job is not claimed
//!   while another one is seen to run; whoever has claimed one reads which others are claimed, and gives it back if
//!   there is one. (A job that a user deletes while it runs may run on for as long as the watch takes to tell.)
//! * Each job ends in history exactly once, or is still queued. After [`QueueConfig::max_attempts`] lapsed leases it ends
//!   with [`LEASE_EXPIRED`].
//! * No repository and no namespace can keep another's job waiting for more than one round, and no namespace has more
//!   drivers of a replica than [`QueueConfig::max_jobs_per_namespace`].
//!
//! `tests/it/simulation.rs` runs these against crashes, pauses, lost answers and lost events.
//!
//! # What it refuses to know
//!
//! Kubernetes, except in the module [`kube`], which is one [`Store`] of many possible. What a job does: that is the
//! caller's. Repositories, beyond their names.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod archive;
mod config;
mod history;
mod job;
mod lease;
mod observer;
mod peers;
mod queue;
mod ready;
mod schedule;
mod spread;
mod status;
mod store;

pub mod kube;
pub mod progress;

pub use crate::{
    archive::history_name,
    config::{ConfigError, QueueConfig},
    history::{HistoryLimits, PruneReason, Pruned},
    job::QueuedJob,
    lease::{Lease, LeaseError, LeaseGuard},
    observer::{End, Observer, Reaper, Unobserved},
    queue::{Claimed, Event, LEASE_EXPIRED, Queue},
    store::{
        Change, Clock, HistoryEntry, HistoryPage, Key, NewRecord, Precondition, Record, Store, StoreError,
    },
};
