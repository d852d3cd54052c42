//! The queue in a Kubernetes-style API: jobs are `Job` objects, history is `HistoricJob` objects.
//!
//! This module is the edge: nothing else in the crate knows of Kubernetes.

mod convert;
mod insert;
mod store;

pub use convert::job;
pub use insert::{InsertError, insert};
pub use store::KubeStore;
