//! Integration tests: Git's own `http-backend` as the real peer, and servers that break the rules.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod cache;
mod collisions;
mod cut_proxy;
mod fixture;
mod history;
mod hostile;
mod proxies;
mod push;
mod servers;
mod signing;
mod ssh;
mod sync;
mod tls;
mod verifying;
