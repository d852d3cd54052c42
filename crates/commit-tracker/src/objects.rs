//! Flux's objects, as far as the tracker reads them.
//!
//! Ten thousand of them are held at once, so that they keep what [`facts`](crate::facts) needs and nothing else: no
//! labels, annotations or managed fields, no inventory, of the conditions two, of a source its artifact.
//! They are what Flux's schema lets through: an API server refuses any other shape.

mod kustomization;
mod metadata;
mod source;
#[cfg(test)]
mod tests;

pub use kustomization::{
    APPLIED, Condition, ConditionStatus, Kustomization, Outcome, SUCCEEDED, Snapshot, SourceRef, Spec, Status,
};
pub use metadata::{Metadata, Object};
pub use source::{Artifact, SecretRef, Source, SourceSpec, SourceStatus};
