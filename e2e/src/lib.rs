//! The kit of the end-to-end tests and benchmarks: the real programs on free ports, driven by real curl and kubectl.
//!
//! [`Peers`] finds the foreign programs, [`Programs`] our own; [`Process`] runs one and ends it when dropped; [`Server`]
//! is `windlass serve`, [`Scene`] a namespace of a real API server with the Roles of `deploy/`, and both are talked to by
//! [`Kubectl`]; [`Operator`] is a controller beside either; [`Remote`] is a Git repository behind Git's own
//! `http-backend` ([`GitServer`]); [`flux`] is Flux on a real API server; [`page`] follows the project's own
//! pages; [`eventually()`] waits for a condition with a deadline and says what was seen last.

mod eventually;
pub mod flux;
mod gate;
mod git_server;
mod kubectl;
mod operator;
pub mod page;
mod peers;
mod process;
mod remote;
mod scene;
mod server;

pub use self::eventually::{DEADLINE, eventually};
pub use self::gate::Gate;
pub use self::git_server::GitServer;
pub use self::kubectl::{Kubectl, job, repository};
pub use self::operator::Operator;
pub use self::peers::{Peers, Programs};
pub use self::process::Process;
pub use self::remote::{Remote, dashboard, kubernetes_dashboard};
pub use self::scene::{Controller, Scene, deployed};
pub use self::server::{Server, free_port};

/// A secret from a test.
pub fn secret(text: &str) -> secrecy::SecretString {
    secrecy::SecretString::from(text.to_owned())
}
