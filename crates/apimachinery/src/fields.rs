//! Which manager owns which fields of an object, and what a write does to that.
//!
//! A [`Shape`] says how the values of a kind merge, a `Set` is a set of fields, [`Managers`] is
//! `metadata.managedFields`, and an [`Update`] is one write: it computes the managers after an update, and the object
//! and its managers after a server-side apply. Behaves as `structured-merge-diff` 6.3 does under kube-apiserver 1.36.

mod check;
mod compare;
mod element;
mod managers;
mod merge;
mod set;
mod shape;
mod update;

pub use self::check::{check, fits};
pub use self::compare::Mismatch;
pub use self::managers::{Managers, Operation, Writer, is_reset, take_sent};
pub use self::shape::Shape;
pub use self::update::{Conflict, Ignored, Refused, Update, Versions};
