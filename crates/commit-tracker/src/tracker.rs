//! The engine: from what Kustomizations and sources say to what the ledger holds.
//!
//! A look at a Kustomization (`look.rs`) compares what it applied with what is accounted for (`plan.rs`, pure), asks which
//! commits came with each revision that is not, measures, records, and reports what it recorded. A look is made when the
//! Kustomization or its source changed, and again after a back-off when something failed that may mend itself. Looks at
//! different Kustomizations go side by side, those at one never do.
//!
//! All of it happens within a term as leader (`lead.rs`). What is kept here besides is worth nothing to anybody else.

mod failure_cache;
mod last_logged;
mod lead;
mod metrics;
mod plan;
mod reconcile;
mod sources;
mod unapplied;

pub(crate) use self::lead::{Current, Tracker};
pub use self::lead::{Leading, Led};
pub(crate) use self::metrics::ProcessMetrics;
pub(crate) use self::sources::Sources;
pub use self::unapplied::Unapplied;
