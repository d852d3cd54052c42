//! An embedded Kubernetes-style API server.
//!
//! [`ApiServer`] is an `axum::Router` over a [`store::Store`]: custom kinds from CRD documents and a few core
//! kinds, with the semantics that `kubectl` and `kube` clients rely on. It knows HTTP, JSON and the rules of its
//! kinds; it refuses to know sockets, TLS and tokens (`windlass_auth` puts a
//! [`Caller`](windlass_auth::Caller) on each request) and what the objects are for.
//!
//! # Where to start
//!
//! A request goes through `verbs::serve`: its path is read (`request`), the kind looked up (`kinds`, of which `catalog`
//! holds those that are served now) and its body conformed to the schema. A `writer`, which knows who writes what but
//! nothing of requests, fills in and judges ([`Admission`], `builtin`) and commits to the [`store`]; garbage collection
//! calls the same one. What is known of namespaces and definitions follows what was committed (`commit`, `settle`).
//! Answers are rendered from bytes. Errors are `metav1.Status` with kube-apiserver's status, reason and fields (`failure`).
//!
//! # Intended differences from a real server
//!
//! They stand in `conformance/intended.md`, each with its reason; the crate `windlass-conformance` plays requests to this
//! server and to a real kube-apiserver and fails for any other difference.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod admission;
mod attributes;
mod builtin;
mod catalog;
mod commit;
mod compress;
mod discovery;
mod failure;
mod garbage;
mod kinds;
mod label_indexes;
mod meta;
mod namespaces;
mod objects;
mod observe;
mod request;
mod seal;
mod secure;
mod server;
mod settle;
mod start;
mod state;
mod turns;
mod verbs;
mod writer;

pub use admission::{Admission, AdmissionError};
pub use attributes::Attributes;
pub use kinds::KindError;
pub use observe::{AuditError, AuditLog, AuditOptions, Observer, RequestMetrics};
pub use secure::RAW_VALUE;
pub use windlass_apimachinery::field_error::FieldError;
pub use windlass_store as store;

pub use server::{ApiServer, BuildError, Builder, StartError, client_of};
