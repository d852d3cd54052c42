//! The client against a real registry, and against what no real one does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod fixture;
mod odd_registries;
mod registry;
mod tls;
mod tokens;
