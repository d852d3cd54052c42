//! The engine: from what Kustomizations and sources say to what the ledger holds.
//!
//! A reconcile of a Kustomization (`reconcile.rs`) compares what it applied with what is accounted for (`plan.rs`, pure),
//! writes down what is pending, asks which commits came with it, measures, records, and reports what it recorded. It is made
//! when the Kustomization or its source changed, and again after a back-off when something failed that may mend itself.
//! Reconciles of different Kustomizations go side by side, those of one never do.
//!
//! All of it happens within a term as leader (`lead.rs`). What is kept here besides is worth nothing to anybody else.

mod lead;
mod metrics;
mod plan;
mod queue;
mod reconcile;
mod sources;
mod state;

pub(crate) use self::lead::Tracker;
pub use self::lead::{Leading, LedTerm};
pub(crate) use self::metrics::ProcessMetrics;
pub(crate) use self::queue::Tasks;
pub(crate) use self::sources::Sources;
pub use self::state::{Example, Now, States, Waiting};
