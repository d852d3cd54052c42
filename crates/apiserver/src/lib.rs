//! An embedded Kubernetes-style API server.
//!
//! [`ApiServer`] is an `axum::Router` over a [`store::Store`]: custom kinds from CRD documents and a few core
//! kinds, with the semantics that `kubectl` and `kube` clients rely on. It knows HTTP, JSON and the rules of its
//! kinds; it refuses to know sockets, TLS and tokens (`windlass_auth` puts a
//! [`Caller`](windlass_auth::Caller) on each request) and what the objects are for.
//!
//! # Where to start
//!
//! A request goes through `verbs::answer`: its path is read (`request`), the kind looked up (`kinds`, of which
//! `catalog` holds those that are served now), its body conformed to the schema (`schema`, `metadata`), admitted (`admission`), stored ([`store`]), and rendered from
//! bytes (`document`). Errors are `metav1.Status` with kube-apiserver's words (`failure`).
//!
//! # Intended differences from a real server
//!
//! * namespaces are implicit: an object may be created in a namespace that has no Namespace object; deleting a
//!   Namespace object deletes what is in the namespace, and a namespace without one has nothing to delete;
//! * `secure.<field>.create` of custom kinds becomes a sealed Secret;
//! * a create that carries a resourceVersion is refused with 400, where the real one answers 500;
//! * definitions (CRDs) that the server was built with take the same spec and other labels, nothing else;
//! * a definition is accepted and established in one step, before its create is answered; conversion by webhook is
//!   refused, and `x-kubernetes-validations` are kept with a warning that they are not evaluated;
//! * errors do not repeat documents that may hold secrets.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod admission;
mod catalog;
mod discovery;
mod document;
mod failure;
mod fields;
mod garbage;
mod json;
mod kinds;
mod metadata;
mod names;
mod request;
mod schema;
mod seal;
mod selector;
mod server;
pub mod store;
mod strategic;
mod table;
mod verbs;

pub use admission::AdmissionRules;
pub use kinds::KindError;
pub use server::{ApiServer, BuildError, Builder, StartError, client_of};
