//! The commit tracker: how long each commit took from merge to applied, counted once.
//!
//! It follows Flux `Kustomization` objects and their sources, finds out which commits came with each revision that was
//! applied, and measures the way of each. What was counted is kept in the cluster, so that no restart, replay or
//! replica counts anything twice.
//!
//! - [`Instrument`] is the one table of what is measured: names, units, meanings.
//! - [`objects`] are Flux's, as far as they are read; [`standing`] says what they say: which revision was applied when.
//! - [`changes`] answers which commits a revision brought: from Git, from a registry, from GitHub, from metadata.
//! - [`measure`] turns the two into observations.
//! - [`Reporter`] reports it: as log lines, and as traces with the times at which things happened.
//! - [`ledger`] is the memory of what was counted, in `ConfigMap`s; [`histogram`] what it keeps durations in.
//! - [`export`] shows what is remembered as series, while this process leads.
//! - [`tracker`] is the engine that does all this for each change; [`CommitTracker`] is the operator.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")
)]

pub mod changes;
pub mod export;
pub mod facts;
mod finders;
#[cfg(test)]
#[path = "tests/given.rs"]
mod given;
pub mod histogram;
mod intern;
pub mod ledger;
mod measure;
pub mod metrics;
mod names;
pub mod objects;
mod operator;
pub mod options;
mod report;
mod revision;
mod select;
mod source;
pub mod tracker;

pub use facts::{Standing, Step, source_of, standing};
pub use measure::{CommitOutcome, Measured, MeasuredCommit, measure};
pub use metrics::Instrument;
pub use operator::{CommitTracker, FLUX_COMMIT_TRACKER, configure, register};
pub use report::{Reporter, Work};
pub use revision::{Algorithm, ParseRevisionError, Revision};
pub use source::{SourceKey, SourceKind};
