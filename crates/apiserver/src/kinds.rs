//! What is served: each kind with its versions, schemas, columns and rules.
//!
//! A custom kind is a CRD document ([`crd`]); the core kinds are a built-in table ([`core`]).

mod core;
mod crd;
mod kind;
mod registry;
mod scale;

pub(crate) use self::core::kinds as core_kinds;
pub(crate) use self::crd::kind as custom_kind;
pub use self::kind::KindError;
pub(crate) use self::kind::{Builtin, Kind, Review, ScalePaths, Served, ServedKind, count_error, find};
pub(crate) use self::registry::Registry;
