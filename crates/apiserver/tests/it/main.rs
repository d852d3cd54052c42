//! The API server through its public interface.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod access;
mod admission;
mod apply;
mod bounds;
mod common;
mod concurrency;
mod crds;
mod crud;
mod deadlines;
mod deletion;
mod discovery;
mod events;
mod full_disk;
mod garbage;
mod hostile;
mod likeness;
mod lists;
mod managed_fields;
mod namespaces;
mod not_served;
mod observe;
mod openapi;
mod patches;
mod restart;
mod reviews;
mod tables;
mod validation;
mod watches;
