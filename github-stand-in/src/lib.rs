//! A stand-in of GitHub's REST API for tests: on a socket, over repositories in memory.
//!
//! [`StandIn`] serves commits, histories of a path, files and Git objects of [`Repository`]s that tests push to,
//! with hashes that Git would give them, their hooks, pull requests and comments, what protects their branches, entity tags, rate limits, tokens, and
//! Apps whose claims it checks with their public key and whose tokens may do what they were asked for. [`Fault`]s make it fail as GitHub, or the network before it, does.
//!
//! What it says is not our idea of GitHub: every request and every answer is held to the description that GitHub
//! publishes of its API, of which `openapi.json` is a cut (`cargo xtask github-schema` makes it). A difference is
//! answered with status 500, and fails the test when the stand-in is dropped. What a test does not say is the least that
//! the description allows: `null`, and nothing that may be left out.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")
)]

mod answers;
mod apps;
mod description;
mod door;
mod faults;
mod git;
mod hooks;
mod limit;
mod objects;
mod operations;
mod protection;
mod pulls;
mod reply;
mod repository;
mod request;
mod server;
mod shared;
mod stand_in;
mod state;

pub use apps::{InstalledApp, foreign_key, public_key};
pub use faults::Fault;
pub use hooks::StoredHook;
pub use protection::{Protection, Rule};
pub use pulls::StoredComment;
pub use repository::Repository;
pub use stand_in::StandIn;
