//! A Git server over bare repositories of this machine, and commits made in them: what the demonstration syncs from,
//! and a real peer for tests. Both run the program `git`, which must be on the path;
//! over SSH it is OpenSSH's `sshd` that does.
//!
//! What it refuses to know: the crate `windlass-git`, whose peer it is. Nothing of it is meant for the internet.
//!
//! Start reading at [`HttpBackend`] and [`seed::commit`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests"))]

mod http_backend;
mod peer_proxy;
mod proxy;
pub mod seed;
mod ssh_server;

pub use self::http_backend::{HttpBackend, RequestLog, Running};
pub use self::peer_proxy::PeerProxy;
pub use self::proxy::TestProxy;
pub use self::ssh_server::{SshServer, is_missing, ssh_key};
