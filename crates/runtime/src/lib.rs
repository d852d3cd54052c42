//! The kit that every operator is built from.
//!
//! - [`Operator`] and [`Registry`]: operators by name, over a context type that the binaries choose.
//! - [`Supervisor`]: owns every task; one that ends unasked ends the process with its name.
//! - [`Watch`] and [`Store`]: the one way to follow a collection of API objects.
//! - [`Definitions`]: whether the server knows every field of the kinds.
//! - [`Scope`]: one namespace, or all of them.
//! - [`LeaderElection`] and [`Term`]: of several replicas, one writes.
//! - [`KeyedQueue`] and [`run_keyed`]: reconciling object by object, with back-off; [`TermQueue`]: while this process leads.
//! - [`CallOptions`], [`RestClient`], [`ListRequest`]: the one way to call an API server; see `api.rs` for how.
//! - [`merge_patch`], [`json_patch()`], [`add_finalizers`]: writes that overwrite nothing newer.
//! - [`EventRecorder`]: Kubernetes Events that delay nobody.
//! - [`Clock`] and [`Backoff`]: time that tests can hold.
//! - [`VersionRange`]: which of the versions that there are is meant.
//!
//! This crate sees an API only through a `kube::Client`. It knows no authentication, no setting and no kind.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test may panic")
)]

mod api;
mod backoff;
mod clock;
mod definitions;
mod events;
mod leader;
mod log_on_change;
mod operator;
mod queue;
mod scope;
mod signals;
mod supervisor;
#[cfg(test)]
mod testing;
mod version_range;
mod watch;

pub use api::{
    Accept, CallError, CallOptions, Content, Disposition, Fence, ListRequest, Listed, Part, RestClient,
    RestRequest, Retry, add_finalizers, deadline, json_patch, json_patch_tested, merge_patch,
    remove_finalizer,
};
pub use backoff::{Backoff, BackoffPolicy};
pub use clock::{Clock, ManualClock, SystemClock};
pub use definitions::Definitions;
pub use events::{EventRecorder, EventType, EventWriter, Note};
pub use leader::{LeaderConfig, LeaderConfigError, LeaderElection, Leadership, NotLeading, Term};
pub use log_on_change::LogOnChange;
pub use operator::{Operator, Registry, UnknownOperator};
pub use queue::{KeyedQueue, Requeue, TermQueue, TermWork, run_keyed};
pub use scope::Scope;
pub use signals::{Signal, signals};
pub use supervisor::{RunError, Supervisor, TaskEnded, TaskResult, Unfinished};
pub use version_range::{VersionRange, version_of_tag};
pub use watch::{Event, ObjectKey, ObjectVersion, Store, Watch, WatchConfig, Watched, is_older};

/// Any error that can cross tasks.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;
