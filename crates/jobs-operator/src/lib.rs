//! The jobs operator: claims jobs from the queue of API objects and runs them.
//!
//! `provisioning-jobs` does the whole: it logs each job it is notified of, drives the workers, fails and files the jobs
//! whose attempts are used up, and prunes history. `provisioning-jobqueue` only claims and runs, for those who scale it
//! apart. Both are [`Jobs`] with other [`JobsConfig`]s.
//!
//! The crate knows what a job does; how one is claimed, renewed, reported and filed is the lease queue's, and how files
//! become objects is the resources crate's.
//!
//! Start reading at `operator.rs` (which tasks there are), then `driver.rs` (one job from claim to history), then the
//! workers: `pull/`, those that write to repositories (`write/`), `orphans.rs` and `sleep.rs`.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")
)]

mod config;
mod deletion;
mod driver;
mod metrics;
mod notifications;
mod operator;
mod orphans;
mod pull;
mod pull_request;
mod reaped;
mod reasons;
mod sleep;
mod status;
mod tasks;
mod trace;
mod worker;
mod write;

pub use self::config::JobsConfig;
pub use self::metrics::reference_markdown as metrics_reference;
pub use self::operator::{Jobs, JobsError, PROVISIONING_JOBQUEUE, PROVISIONING_JOBS, register};
pub use self::reasons::reasons_reference;
pub use self::tasks::TaskEnded;
