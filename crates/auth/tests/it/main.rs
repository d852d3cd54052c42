//! Both ends of authentication, together: in process with paused time, and over real sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod access;
mod client;
mod cluster;
mod exchange;
mod layer;
mod renewal;
mod sockets;
mod support;
